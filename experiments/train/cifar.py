"""What a CIFAR run consists of: the network, the recipe, the data, in one frozen record that JSON can hold.

A recipe is everything about training that is not the network: `paper` is what the citations say, `short` ten epochs of
one cycle, for CPUs.  Their numbers are in RECIPES, where they come from in docs/recipes.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from experiments.cli.values import WIDEST, Stored, check_numbers
from minicnn.data.augment import Augmentation
from minicnn.data.catalogue import CATALOGUE
from minicnn.models import convpool, vgg
from minicnn.nn import Sequential, init
from minicnn.optim import SGD
from minicnn.schedule import OneCycle, Piecewise, Schedule, StepDecay, milestones

MODELS = ("convpool", "convpool-c", "vgg")
DATASETS = {name: entry.classes for name, entry in CATALOGUE.items()}
TRAIN_IMAGES = {name: entry.train for name, entry in CATALOGUE.items()}
TEST_IMAGES = {name: entry.test for name, entry in CATALOGUE.items()}


@dataclass(frozen=True)
class Settings(Stored):
    """Everything that determines the result of one training, beside the device and the images held out."""

    dataset: str
    subset: int | None  # train on so many images only
    model: str
    act: str
    width: str
    at: tuple[int, ...]
    scale: float
    logits_act: bool
    bn_before_act: bool
    dropout: tuple[float, float, float]  # convpool only
    recipe: str
    epochs: int
    batch: int
    lr: float
    weight_decay: float
    clip: float | None
    flip: bool
    shift: int
    seed: int

    def check(self, prefix: str = "--") -> None:
        """ValueError where no network can be made of these values, or nothing learns with them."""
        check_numbers(
            vars(self),
            positive=("scale", "epochs", "batch", "lr", "clip", "subset"),
            not_negative=("weight_decay", "shift", "seed"),
            prefix=prefix,
        )
        if self.scale > WIDEST:
            raise ValueError(f"{prefix}scale must be at most {WIDEST}, got {self.scale:g}")
        for name, known in (("dataset", DATASETS), ("model", MODELS), ("recipe", RECIPES)):
            if getattr(self, name) not in known:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; choose from {', '.join(known)}")
        replace(self, scale=0.01).build_model()  # small, only to see that it can be built

    @property
    def classes(self) -> int:
        return DATASETS[self.dataset]

    @property
    def images(self) -> int:
        """In an epoch, where none are held out."""
        return self.subset or TRAIN_IMAGES[self.dataset]

    @property
    def name(self) -> str:
        """A readable name for the run's folder."""
        what = self.model if self.model == "vgg" else f"{self.model}-{self.width}"
        where = "-at" + "".join(f"-{n}" for n in self.at) if self.model == "vgg" and self.at else ""
        scale = f"-x{self.scale:g}" if self.scale != 1 else ""
        return f"{self.dataset}-{what}-{self.act}{where}{scale}-{self.recipe}{self.epochs}-seed{self.seed}"

    @property
    def label(self) -> str:
        """A name for tables and figures."""
        what = "VGG" if self.model == "vgg" else self.width
        names = {"relu": "ReLU", "leaky": "leaky ReLU", "avr": "AVR", "crelu": "CReLU"}
        where = f" at {','.join(map(str, self.at))}" if self.model == "vgg" and self.at else ""
        scale = f" x{self.scale:g}" if self.scale != 1 else ""
        return f"{names.get(self.act, self.act)}{where} ({what}{scale})"

    @property
    def reductions(self) -> list[str]:
        """What makes a run smaller than the paper's, so that the numbers cannot be compared."""
        full = settings(model=self.model, act=self.act, recipe="paper")
        return [
            *([f"{self.dataset} is not CIFAR"] if self.dataset == "textures" else []),
            *([f"width x{self.scale:g}"] if self.scale != 1 else []),
            *([f"{self.subset} images"] if self.subset else []),
            *([f"recipe {self.recipe}"] if self.recipe != "paper" else []),
            *([f"{self.epochs} epochs"] if self.epochs < full.epochs else []),
        ]

    def augmentation(self) -> Augmentation:
        return Augmentation(flip=self.flip, shift=self.shift)

    def build_model(self) -> Sequential:
        if self.model == "vgg":
            return vgg(
                self.act if self.at else "relu",
                self.at,
                classes=self.classes,
                scale=self.scale,
                bn_before_act=self.bn_before_act,
                bn_scheme=init.unit_uniform if self.recipe == "paper" else init.ones,
                seed=self.seed,
            )
        return convpool(
            self.act,
            self.width,
            arch="convpool-c" if self.model == "convpool-c" else "table",
            classes=self.classes,
            scale=self.scale,
            dropout=self.dropout,
            logits_act=self.logits_act,
            seed=self.seed,
        )

    def build_optimiser(self, model: Sequential, steps_per_epoch: int) -> SGD:
        return SGD(
            model.parameters(),
            self.schedule(steps_per_epoch),
            momentum=0.9,
            nesterov=self.recipe == "short",
            weight_decay=self.weight_decay,
            clip=self.clip,
        )

    def schedule(self, steps_per_epoch: int) -> Schedule:
        """The learning rate by steps.  The milestones of `paper` move with the number of epochs."""
        total = self.epochs * steps_per_epoch
        if self.recipe == "short":
            return OneCycle(self.lr, total, warmup=0.25)
        if self.model == "vgg":
            return StepDecay(self.lr, every=25 * steps_per_epoch, factor=0.5)
        boundaries = milestones(total, (200 / 350, 250 / 350, 300 / 350))
        return Piecewise(boundaries, tuple(self.lr * 0.1**i for i in range(4)))


# recipe: kind of network: the part of its settings that the recipe gives
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {
        "convpool": {
            "epochs": 350,
            "lr": 0.01,
            "weight_decay": 1e-3,
            "clip": None,
            "shift": 0,
            "dropout": (0.2, 0.5, 0.5),
        },
        "vgg": {"epochs": 300, "lr": 0.1, "weight_decay": 5e-4, "clip": None, "shift": 4, "dropout": (0.0, 0.0, 0.0)},
    },
    "short": {
        "convpool": {
            "epochs": 10,
            "lr": 0.04,
            "weight_decay": 5e-4,
            "clip": 2.0,
            "shift": 0,
            "dropout": (0.0, 0.1, 0.1),
        },
        "vgg": {"epochs": 10, "lr": 0.1, "weight_decay": 5e-4, "clip": 2.0, "shift": 4, "dropout": (0.0, 0.0, 0.0)},
    },
}


def settings(**given: Any) -> Settings:
    """Settings with what is given (None means not given), the rest from the recipe."""
    given = {name: value for name, value in given.items() if value is not None}
    values: dict[str, Any] = {
        "dataset": "cifar10",
        "subset": None,
        "model": "convpool",
        "act": "relu",
        "width": "base",
        "at": (),
        "scale": 1.0,
        "logits_act": False,
        "bn_before_act": False,
        "recipe": "short",
        "batch": 128,
        "flip": True,
        "seed": 0,
    } | given
    network = "vgg" if values["model"] == "vgg" else "convpool"
    values = RECIPES[values["recipe"]][network] | values
    if network == "vgg" and values["act"] != "relu" and "at" not in given:
        values["at"] = (1, 3, 5)
    return Settings(**values)
