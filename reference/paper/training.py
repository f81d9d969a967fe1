"""How the paper trained its ImageNet networks, as its supplement says; for CIFAR it leaves this to its citations.

The two recipes differ in the optimiser and in length, not only in the activation (E29). Dropout is in the tables of
the architectures.
"""

from dataclasses import dataclass

from reference.paper.architectures import IMAGENET


@dataclass(frozen=True)
class Phase:
    """Epochs first to last, both included, counted from 1. weight_decay is None where the paper says nothing."""

    first: int
    last: int
    learning_rate: float
    weight_decay: float | None


@dataclass(frozen=True)
class Recipe:
    """How the networks in these tables of the supplement were trained."""

    optimizer: str
    batch: int
    momentum: float | None
    phases: tuple[Phase, ...]
    tables: tuple[str, ...]

    @property
    def epochs(self) -> int:
        return self.phases[-1].last


SGD = Recipe(
    optimizer="sgd",
    batch=64,
    momentum=0.9,
    phases=(
        Phase(1, 10, 1e-2, 5e-4),
        Phase(11, 20, 1e-3, 5e-4),
        Phase(21, 25, 1e-4, 5e-4),
        Phase(26, 30, 5e-5, 0.0),
        Phase(31, 35, 1e-5, 0.0),
        Phase(36, 40, 5e-6, 0.0),
        Phase(41, 45, 1e-6, 0.0),
    ),
    tables=("S8", "S9", "S10", "S11"),
)

# 2e-4 is the "initial" learning rate; the paper does not say whether it changes later.
ADAM = Recipe(
    optimizer="adam",
    batch=64,
    momentum=None,
    phases=(Phase(1, 100, 2e-4, None),),
    tables=("S12", "S13"),
)


def imagenet_recipe(model: str) -> Recipe | None:
    """How the paper trained this model of architectures.IMAGENET."""
    network = IMAGENET.get(model)
    return next((recipe for recipe in (SGD, ADAM) if network and network.table in recipe.tables), None)
