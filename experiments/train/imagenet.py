"""What a training on photographs consists of (cifar.py does the same for small images).

Both recipes are from the paper's supplement (reference/paper/training.py), with batches of 64:

sgd     momentum 0.9, 45 epochs in seven phases of learning rate and weight decay; for all networks that keep their
        numbers of filters.
adam    learning rate 2e-4, 100 epochs, no weight decay; for the two that halve them.

So Table 4 compares more than activations (E29): --recipe gives a network the other recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from experiments.cli.app import counted
from experiments.train.settings import Option, Settings
from minicnn.data.colour import ALPHA
from minicnn.models.allcnn import SMALLEST, VARIANTS
from minicnn.models.pretrained import LARGEST
from minicnn.nn import Sequential
from minicnn.optim import SGD, Adam, Optimiser
from minicnn.schedule import Piecewise, milestones
from reference import paper

RECIPES = {"sgd": paper.SGD, "adam": paper.ADAM}
SIDE, CROP = 256, 224
TRAIN_IMAGES, CLASSES = 1_281_167, 1000  # of ILSVRC 2012
DEFAULTS: dict[str, Any] = {
    "variant": "baseline", "classes": CLASSES, "scale": 1.0, "dropout": None, "logits_act": False, "side": SIDE,
    "crop": CROP, "subset": None, "clip": None, "flip": True, "colour": ALPHA, "bad_images": "fail", "smoothing": 0.0,
    "seed": 0,
}  # fmt: skip
OPTIONS = {
    "the network": {
        "variant": Option(
            f"the paper's network: {', '.join(VARIANTS)} (default baseline)", choices=tuple(VARIANTS), metavar="NAME"
        ),
        "scale": Option("multiply every width, for small machines"),
        "dropout": Option("the rate before conv10 (default: as printed, 0 or 0.25)"),
        "logits_act": Option("a ReLU on the logits, as printed; such a network can die"),
    },
    "data": {
        "subset": Option("train on N pictures, chosen at random from the seed", metavar="N"),
        "bad_images": Option(
            "pictures that cannot be decoded: stop and name the file (default), or name it and leave it out",
            choices=("fail", "skip"),
        ),
        "side": Option("side of the square that crops are taken from (default 256)"),
        "crop": Option("side of the crops (default 224)"),
        "colour": Option("standard deviation of the colour noise (default 0.1; 0: none)"),
    },
    "training": {
        "recipe": Option("default: the paper's for this network", choices=tuple(RECIPES)),
        "epochs": Option("length of the schedule; its phases scale with it"),
        "batch": Option("pictures per batch (default 64)"),
        "lr": Option("learning rate of the first phase (default: the recipe's)"),
        "clip": Option("largest norm of the gradient"),
        "smoothing": Option("share of each label that goes to all classes alike (default 0)"),
        "seed": Option("seed of weights, order, crops, noise and dropout (default 0)"),
    },
}


@dataclass(frozen=True)
class ImagenetSettings(Settings):
    """Everything that determines the result of one training, apart from the device and the pictures."""

    MODULE: ClassVar = "experiments.imagenet"
    PHOTOGRAPHS: ClassVar = True
    OPTIONS: ClassVar = OPTIONS
    KEYS: ClassVar = ("variant", "recipe")
    POSITIVE: ClassVar = ("scale", "subset", "epochs", "batch", "lr", "clip", "side", "crop", "classes")
    NOT_NEGATIVE: ClassVar = ("colour", "seed")
    ADDED: ClassVar = {"smoothing": 0.0}

    variant: str
    classes: int
    dropout: float | None  # None: as printed
    bad_images: str
    side: int  # of the square that crops are taken from
    crop: int  # what the network sees
    colour: float

    @classmethod
    def of(cls, **given: Any) -> Self:
        values = DEFAULTS | {name: value for name, value in given.items() if value is not None}
        own = paper.imagenet_recipe(values["variant"])
        if own is None:
            raise ValueError(f"unknown variant {values['variant']!r}; choose from {', '.join(paper.IMAGENET)}")
        values = {"recipe": own.optimizer} | values
        recipe = RECIPES[values["recipe"]]
        defaults: dict[str, Any] = {
            "epochs": recipe.epochs,
            "batch": recipe.batch,
            "lr": recipe.phases[0].learning_rate,
        }
        return cls(**defaults | values)

    def check(self, prefix: str = "--") -> None:
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"{prefix}dropout must be in [0, 1), got {self.dropout}")
        if not SMALLEST <= self.crop <= self.side:
            raise ValueError(f"{prefix}crop must be from {SMALLEST} to {prefix}side, got {self.crop} and {self.side}")
        if self.side > LARGEST:
            raise ValueError(f"{prefix}side must be at most {LARGEST}, got {self.side}")
        super().check(prefix)

    @property
    def dataset(self) -> str:
        return "imagenet"

    @property
    def input(self) -> tuple[int, int, int]:
        return (self.crop, self.crop, 3)

    @property
    def name(self) -> str:
        """A readable name for the run's folder."""
        scale = f"-x{self.scale:g}" if self.scale != 1 else ""
        variant = self.variant.replace(",", "+")
        return f"imagenet-{variant}{scale}-{self.recipe}{self.epochs}-seed{self.seed}"

    @property
    def label(self) -> str:
        return paper.IMAGENET[self.variant].label + (f", x{self.scale:g}" if self.scale != 1 else "")

    @property
    def reductions(self) -> list[str]:
        """How it is smaller than the paper's or trained differently, so that its numbers cannot be compared."""
        own = paper.imagenet_recipe(self.variant)
        assert own is not None
        usual, changed = (
            self.of(variant=self.variant, recipe=self.recipe),
            ("batch", "lr", "clip", "smoothing", "dropout", "colour"),
        )
        return [
            *([f"{self.classes} classes"] if self.classes != CLASSES else []),
            *([f"width x{self.scale:g}"] if self.scale != 1 else []),
            *([counted(self.subset, "picture")] if self.subset else []),
            *([f"crops of {self.crop} from {self.side} pixels"] if (self.crop, self.side) != (CROP, SIDE) else []),
            *([f"recipe {self.recipe}"] if self.recipe != own.optimizer else []),
            *([counted(self.epochs, "epoch")] if self.epochs < own.epochs else []),
            *(f"{name} {getattr(self, name)}" for name in changed if getattr(self, name) != getattr(usual, name)),
        ]

    @property
    def trained_alike(self) -> Self:
        """A key that networks share if they differ only in variant or seed."""
        return replace(self, variant="baseline", seed=0)

    @property
    def table(self) -> tuple[str, paper.Key]:
        return "imagenet", self.variant

    @property
    def network(self) -> tuple[str, dict[str, Any]]:
        own = {"classes": self.classes, "scale": self.scale, "dropout": self.dropout, "logits_act": self.logits_act}
        return "allcnn_b", {"variant": self.variant, **own}

    def schedules(self, steps_per_epoch: int) -> tuple[Piecewise, Piecewise]:
        """Learning rate and weight decay per step.  The phases scale with the number of epochs."""
        phases, total = RECIPES[self.recipe].phases, self.epochs * steps_per_epoch
        boundaries = milestones(total, [phase.last / phases[-1].last for phase in phases[:-1]])
        factor = self.lr / phases[0].learning_rate
        rates = tuple(factor * phase.learning_rate for phase in phases)
        return (
            Piecewise(boundaries, rates),
            Piecewise(boundaries, tuple(phase.weight_decay or 0.0 for phase in phases)),
        )

    def build_optimiser(self, model: Sequential, steps_per_epoch: int) -> Optimiser:
        rate, decay = self.schedules(steps_per_epoch)
        if self.recipe == "adam":
            return Adam(model.parameters(), rate, weight_decay=decay, clip=self.clip)
        return SGD(model.parameters(), rate, momentum=0.9, weight_decay=decay, clip=self.clip)

    def schedule_table(self) -> list[list[str]]:
        """Rows (epochs, learning rate, weight decay): "11 - 20", or "0.44 - 0.89" where phases are not whole epochs."""
        phases, (rate, decay) = RECIPES[self.recipe].phases, self.schedules(1000)
        bounds = [0, *(b / 1000 for b in rate.boundaries), self.epochs]
        first = 1 if all(b == int(b) for b in bounds) else 0
        return [
            [f"{bounds[i] + first:g} - {bounds[i + 1]:g}", f"{rate.values[i]:g}", f"{decay.values[i]:g}"]
            for i in range(len(phases))
        ]
