"""What a training on CIFAR (or another data set of small images) consists of: the network, the recipe, the data.

A recipe is everything about training that is not the network: `paper` is what the cited papers say; `short` is ten
epochs of one cycle, for CPUs; `hour` is the best that we found for an hour on two cores.  docs/recipes.md says where
the numbers in RECIPES come from.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from experiments.cli.app import counted
from experiments.train.settings import Option, Settings
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.catalogue import CATALOGUE
from minicnn.models.convpool import WIDTHS
from minicnn.models.sprint import CONVOLUTIONS as SPRINT_CONVOLUTIONS
from minicnn.models.table import ACTIVATIONS
from minicnn.models.vgg import CONVOLUTIONS as VGG_CONVOLUTIONS
from minicnn.nn import Activation, Conv2d, Sequential, init
from minicnn.optim import SGD, Muon, Optimiser, Together
from minicnn.schedule import Linear, OneCycle, Piecewise, Schedule, StepDecay, milestones
from reference.paper import CifarRow, Key, VggRow, cifar_result, vgg_result

MODELS = ("convpool", "convpool-c", "vgg", "sprint")
PAPERS = ("cifar10", "cifar100")  # the paper's data sets
Rates = tuple[float, float, float]


class Recipe(NamedTuple):
    """The part of the settings that a recipe gives to a kind of network."""

    epochs: int
    lr: float
    weight_decay: float
    clip: float | None
    shift: int
    dropout: Rates
    batch: int = 128
    optimiser: str = "sgd"
    momentum: float = 0.9
    sgd_lr: float | None = None
    warmup: float = 0.25
    smoothing: float = 0.0
    alternate: bool = False
    looks_linear: bool = False
    whitened: bool = False
    centred: bool = False
    keep_norm: bool = False
    reflect: bool = False
    iterations: int = 5
    sgd_momentum: float = 0.9
    sgd_decay: float = 0.0
    last_lr: float | None = None
    gain: float = init.HE


RECIPES = {
    "paper": {
        "convpool": Recipe(350, 0.01, 1e-3, clip=None, shift=0, dropout=(0.2, 0.5, 0.5)),
        "vgg": Recipe(300, 0.1, 5e-4, clip=None, shift=4, dropout=(0.0, 0.0, 0.0)),
    },
    "short": {
        "convpool": Recipe(10, 0.04, 5e-4, clip=2.0, shift=0, dropout=(0.0, 0.1, 0.1)),
        "vgg": Recipe(10, 0.1, 5e-4, clip=2.0, shift=4, dropout=(0.0, 0.0, 0.0)),
    },
    "hour": {
        "convpool": Recipe(17, 0.05, 0.0, clip=2.0, shift=2, dropout=(0.0, 0.0, 0.0), optimiser="muon", momentum=0.8,
                           sgd_lr=0.04, warmup=0.1, smoothing=0.1, alternate=True, looks_linear=True, whitened=True,
                           centred=True, keep_norm=True),
        "vgg": Recipe(17, 0.05, 0.0, clip=2.0, shift=4, dropout=(0.0, 0.0, 0.0), optimiser="muon", momentum=0.8,
                      sgd_lr=0.04, warmup=0.1, alternate=True, keep_norm=True),
    },
    "sprint": {
        "sprint": Recipe(10, 0.24, 0.0, clip=None, shift=2, dropout=(0.0, 0.0, 0.0), batch=2000, optimiser="muon",
                         momentum=0.6, sgd_lr=106.0, warmup=0.0, smoothing=0.2, alternate=True, whitened=True,
                         keep_norm=True, reflect=True, iterations=3, sgd_momentum=0.85, sgd_decay=0.004, last_lr=0.02),
    },
}  # fmt: skip
OWN_GAIN = {("hour", "convpool", "avr"): 1.0}  # a part of the recipe: AVR needs smaller weights (docs/recipes.md)
OPTIMISERS = ("sgd", "muon")
LAST = {"vgg": VGG_CONVOLUTIONS, "sprint": SPRINT_CONVOLUTIONS}  # the number of their last convolution
OF_MUON = ("sgd_lr", "last_lr", "sgd_momentum", "sgd_decay", "iterations", "keep_norm")
PATCHED = 500  # images whose patches whiten conv1
DEFAULTS: dict[str, Any] = {
    "model": "convpool", "act": "relu", "width": "base", "at": (), "scale": 1.0, "logits_act": False,
    "bn_before_act": False, "dataset": "cifar10", "subset": None, "recipe": "short", "flip": True, "seed": 0,
}  # fmt: skip


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers of convolutions are needed, such as 1,3,5, got {text!r}") from None


def _rates(text: str) -> tuple[float, ...]:
    try:
        a, b, c = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"three rates are needed, such as 0.2,0.5,0.5, got {text!r}") from None
    return a, b, c


PARTS = {
    "alternate": "alternate flips", "looks_linear": "looks-linear start", "whitened": "whitened conv1",
    "centred": "centred filters", "keep_norm": "kept norms", "reflect": "mirrored edges", "flip": "flips",
    "shift": "shifts", "smoothing": "smoothed labels",
}  # fmt: skip


def _in_words(name: str, value: Any) -> str:
    """A setting that is not the recipe's: "no shifts", "centred filters", "weight decay 0.001"."""
    if name in PARTS and not value:
        return f"no {PARTS[name]}"
    if value is True:
        return PARTS[name]
    return f"{name.replace('_', ' ')} {f'{value:.4g}' if isinstance(value, float) else value}"


OPTIONS = {
    "the network": {
        "model": Option(
            "convpool: 8 convolutions, as the paper prints it (default); convpool-c: the original with 9; vgg: 13 with "
            "batch normalisation; sprint: 7, for speed",
            choices=MODELS,
        ),
        "act": Option("activation (default relu, the paper's baseline)", choices=ACTIVATIONS),
        "width": Option(
            "the paper's numbers of filters (default base); CReLU at half has half the baseline's parameters",
            choices=WIDTHS,
        ),
        "at": Option(
            "vgg, sprint: the convolutions that get --act, with half the filters (default 1,3,5 and 1); the others "
            "keep ReLU",
            type=_layers,
            metavar="1,3,5",
        ),
        "scale": Option("multiply every width, for small machines: 0.25 takes 1/16 of the work"),
        "dropout": Option(
            "convpool: rates on the input, after pool1, after pool2 (default: the recipe's)",
            type=_rates,
            metavar="A,B,C",
        ),
        "logits_act": Option("convpool: a ReLU on the logits, as printed; such a network can die"),
        "whitened": Option(
            "conv1 starts with the principal components of patches, with both signs if the activation drops one"
        ),
        "bn_before_act": Option("vgg: keep batch normalisation before CReLU (the table prints none)"),
    },
    "data": {
        "dataset": Option("textures needs no download and proves nothing", choices=tuple(CATALOGUE)),
        "subset": Option("train on N images, chosen at random from the seed", metavar="N"),
    },
    "training": {
        "recipe": Option(
            "short: ten epochs of one cycle, for CPUs (default); hour: the best we found for an hour on two cores; "
            "paper: 300 or 350 epochs, as in the cited papers; sprint: of --model sprint, which has no other",
            choices=tuple(RECIPES),
        ),
        "epochs": Option("length of the schedule (default: the recipe's)"),
        "batch": Option("images per batch (default: the recipe's)"),
        "optimiser": Option(
            "sgd, or muon: orthogonal steps for all filters but the last layer's, SGD for the rest", choices=OPTIMISERS
        ),
        "lr": Option("highest learning rate of the schedule"),
        "warmup": Option("share of the steps during which the learning rate rises (not with the recipe paper)"),
        "momentum": Option("of sgd or muon"),
        "sgd_lr": Option("muon: the highest learning rate of what SGD trains; in sprint, of biases and beta alone"),
        "last_lr": Option("muon: the highest learning rate of the last layer (default: that of all that SGD trains)"),
        "iterations": Option(
            "muon: of Newton and Schulz; with fewer, directions that have hardly any gradient move less"
        ),
        "sgd_momentum": Option("muon: of what SGD trains"),
        "sgd_decay": Option("muon: decay of what SGD trains, as the share of a value per step at the highest rate"),
        "weight_decay": Option("default: the recipe's; of muon's filters alone, if there are such"),
        "clip": Option("largest norm of the gradient; with muon, of what SGD trains"),
        "smoothing": Option("share of each label that goes to all classes alike"),
        "shift": Option("random shifts by up to this many pixels"),
        "reflect": Option("mirrored pixels move in when an image is shifted, and not zeros"),
        "alternate": Option("mirror every image in every other epoch, and not at random"),
        "looks_linear": Option("start CReLU networks as linear ones (convpool)"),
        "centred": Option("filters behind an activation start with mean 0 (convpool), and muon's steps leave that"),
        "keep_norm": Option("muon: every filter bank keeps the norm that it starts with"),
        "gain": Option(
            "convpool: weights behind an activation start with variance gain^2 / fan-in (default He's, sqrt 2; 1 "
            "for AVR by hour)"
        ),
        "seed": Option("seed of weights, order, augmentation and dropout (default 0)"),
    },
}


@dataclass(frozen=True)
class CifarSettings(Settings):
    """Everything that determines the result of one training, apart from the device and the images held out."""

    MODULE: ClassVar = "experiments.cifar"
    PHOTOGRAPHS: ClassVar = False
    OPTIONS: ClassVar = OPTIONS
    KEYS: ClassVar = ("model", "act", "recipe")
    POSITIVE: ClassVar = (
        "scale", "epochs", "batch", "lr", "sgd_lr", "last_lr", "iterations", "clip", "subset", "gain",
    )  # fmt: skip
    NOT_NEGATIVE: ClassVar = ("weight_decay", "sgd_decay", "shift", "seed")
    ADDED: ClassVar = {
        "optimiser": "sgd", "momentum": 0.9, "sgd_lr": None, "smoothing": 0.0, "alternate": False,
        "looks_linear": False, "whitened": False, "centred": False, "keep_norm": False,
        "warmup": 0.25, "reflect": False, "iterations": 5, "sgd_momentum": 0.9, "sgd_decay": 0.0, "last_lr": None,
        "gain": init.HE,
    }  # fmt: skip

    model: str
    act: str
    width: str
    at: tuple[int, ...]  # vgg only
    dropout: Rates  # convpool only
    bn_before_act: bool
    dataset: str
    weight_decay: float
    shift: int
    optimiser: str
    momentum: float
    sgd_lr: float | None  # muon only
    warmup: float
    alternate: bool
    looks_linear: bool
    whitened: bool  # in sprint, the filters of conv1 are then not trained
    centred: bool
    keep_norm: bool
    reflect: bool
    iterations: int  # this and what follows: muon only
    sgd_momentum: float
    sgd_decay: float
    last_lr: float | None
    gain: float  # convpool only

    @classmethod
    def of(cls, **given: Any) -> Self:
        given = {name: value for name, value in given.items() if value is not None}
        values = DEFAULTS | ({"recipe": "sprint"} if given.get("model") == "sprint" else {}) | given
        network = "convpool" if values["model"] == "convpool-c" else values["model"]
        recipes = {name: kinds[network] for name, kinds in RECIPES.items() if network in kinds}
        if values["recipe"] not in recipes:
            raise ValueError(f"{network} has no recipe {values['recipe']!r}; choose from {', '.join(recipes)}")
        values = recipes[values["recipe"]]._asdict() | values
        if (own_gain := OWN_GAIN.get((values["recipe"], network, values["act"]))) is not None:
            values |= {"gain": own_gain} | given
        if values["optimiser"] == "muon" and values["sgd_lr"] is None:
            values["sgd_lr"] = RECIPES["hour"]["convpool"].sgd_lr
        if values["optimiser"] == "sgd":  # without what is Muon's in the recipe
            own = recipes[values["recipe"]]
            rates = {"lr": own.sgd_lr, "momentum": Recipe._field_defaults["momentum"]}
            values |= {name: Recipe._field_defaults[name] for name in OF_MUON}
            values |= (rates if own.optimiser == "muon" else {}) | given
        if values["shift"] == 0:
            values |= {"reflect": False} | given
        if network == "vgg" and values["act"] != "relu" and "at" not in given:
            values["at"] = (1, 3, 5)
        return cls(**values)

    def check(self, prefix: str = "--") -> None:
        if self.dataset in CATALOGUE and self.subset is not None and self.subset > CATALOGUE[self.dataset].train:
            raise ValueError(f"{prefix}subset must be in 1 .. {CATALOGUE[self.dataset].train}, got {self.subset}")
        if not all(0 <= rate < 1 for rate in self.dropout):
            raise ValueError(f"{prefix}dropout takes three rates in [0, 1)")
        for name, remedy in self._idle(prefix):
            raise ValueError(f"{prefix}{name.replace('_', '-') if prefix else name} {remedy}")
        if self.sgd_lr is None and self.optimiser == "muon":
            raise ValueError(f"{prefix}optimiser muon needs {prefix}sgd-lr")
        if not all(1 <= number <= LAST.get(self.model, 0) for number in self.at):
            raise ValueError(
                f"{prefix}at names convolutions 1 to {LAST[self.model]}, got {','.join(map(str, self.at))}"
            )
        for name in ("momentum", "sgd_momentum", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                shown = name.replace("_", "-") if prefix else name
                raise ValueError(f"{prefix}{shown} must be in [0, 1), got {getattr(self, name)}")
        if self.reflect and self.shift >= self.input[0]:
            side = self.input[0]
            raise ValueError(f"{prefix}reflect mirrors what is in the image: {prefix}shift must be below {side}")
        super().check(prefix)

    def _idle(self, prefix: str) -> list[tuple[str, str]]:
        """What is asked for here and would change nothing: the setting and the remedy."""
        model, convpool, sgd = self.model, self.model.startswith("convpool"), self.optimiser == "sgd"
        narrower, everywhere = f"make {model} narrower with {prefix}scale", "convpool has its activation in every layer"
        sprint_relu = model == "sprint" and self.act == "relu"
        with_bn = model == "vgg" and bool(self.at)
        unlike_linear = self.looks_linear and self.act != "crelu" and self.recipe != "hour"  # hour asks for all alike
        usual = Recipe._field_defaults
        late = self.recipe == "paper" and self.warmup not in (0, usual["warmup"])
        muon = f"is for {prefix}optimiser muon"
        known: list[tuple[str, bool, str]] = [
            ("width", self.width != "base" and not convpool, f"is for convpool; {narrower}"),
            ("at", bool(self.at) and convpool, f"chooses layers of vgg or sprint; {everywhere}"),
            ("at", bool(self.at) and sprint_relu, f"chooses where sprint has CReLU: add {prefix}act crelu"),
            ("dropout", any(self.dropout) and not convpool, f"is for convpool; the rates of {model} are fixed"),
            ("logits_act", self.logits_act and not convpool, "is for convpool"),
            ("looks_linear", self.looks_linear and not convpool, "is for convpool"),
            ("gain", self.gain != usual["gain"] and not convpool, "is for convpool"),
            ("looks_linear", unlike_linear, f"is for {prefix}act crelu"),
            ("centred", self.centred and sgd and not convpool, f"is for convpool, or for {prefix}optimiser muon"),
            ("whitened", self.whitened and model == "vgg", "is for convpool and sprint"),
            ("bn_before_act", self.bn_before_act and not with_bn, f"is for vgg with {prefix}act crelu"),
            *((name, getattr(self, name) != usual[name] and sgd, muon) for name in OF_MUON),
            ("optimiser", sgd and model == "sprint", "sgd is for the other networks: sprint is trained by muon"),
            ("warmup", late, "is for the other recipes: the rate of the recipe paper does not rise"),
            ("reflect", self.reflect and self.shift == 0, f"is for images that are shifted: add {prefix}shift 2"),
        ]  # fmt: skip
        return [(name, remedy) for name, asked, remedy in known if asked]

    @property
    def classes(self) -> int:
        return CATALOGUE[self.dataset].classes

    @property
    def input(self) -> tuple[int, int, int]:
        return (32, 32, 3)

    @property
    def images(self) -> int:
        """Training images per epoch, if none are held out."""
        return self.subset or CATALOGUE[self.dataset].train

    @property
    def name(self) -> str:
        """A readable name for the run's folder."""
        width = "" if self.model in ("vgg", "sprint") else f"-{self.width}"
        where = "-at" + "".join(f"-{n}" for n in self.at) if self.at else ""
        learned = "-learned" if self.model == "sprint" and not self.whitened else ""
        scale = f"-x{self.scale:g}" if self.scale != 1 else ""
        what = f"{self.dataset}-{self.model}{width}-{self.act}{where}{learned}{scale}"
        return f"{what}-{self.recipe}{self.epochs}-seed{self.seed}"

    @property
    def label(self) -> str:
        """A name for tables and figures."""
        what = {"vgg": "VGG", "sprint": "sprint"}.get(self.model, self.width)
        names = {"relu": "ReLU", "leaky": "leaky ReLU", "avr": "AVR", "crelu": "CReLU"}
        where = f" at {','.join(map(str, self.at))}" if self.at else ""
        scale = f" x{self.scale:g}" if self.scale != 1 else ""
        return f"{names.get(self.act, self.act)}{where} ({what}{scale})"

    @property
    def reductions(self) -> list[str]:
        """How a run is smaller than the paper's or trained differently, so that its numbers cannot be compared."""
        if self.model == "sprint":
            return ["not a network of the paper"]
        full = self.of(model=self.model, recipe="paper")
        return [
            *([f"{self.dataset} is not CIFAR"] if self.dataset not in PAPERS else []),
            *([f"width x{self.scale:g}"] if self.scale != 1 else []),
            *([counted(self.subset, "image")] if self.subset else []),
            *([f"recipe {self.recipe}"] if self.recipe != "paper" else []),
            *([counted(self.epochs, "epoch")] if self.epochs < full.epochs else []),
            *self.changed,
        ]

    @property
    def changed(self) -> list[str]:
        """What is not as the recipe has it, in words, apart from the epochs."""
        own = self.of(model=self.model, recipe=self.recipe, act=self.act)
        names = [*(name for name in Recipe._fields if name != "epochs"), "flip"]
        return [_in_words(name, getattr(self, name)) for name in names if getattr(self, name) != getattr(own, name)]

    @property
    def how_trained(self) -> str:
        """The recipe, and what differs from it."""
        return " with ".join(filter(None, (f"recipe {self.recipe}", ", ".join(self.changed))))

    @property
    def trained_alike(self) -> Self:
        """A key that networks share if they differ only in activation, with what goes with it, width or seed."""
        own = self.of(model=self.model, recipe=self.recipe, act=self.act)
        gain = 0.0 if self.gain == own.gain else self.gain  # 0: that of the recipe
        return replace(self, act="relu", width="base", at=(), seed=0, gain=gain)

    @property
    def table(self) -> tuple[str, Key]:
        return self.model, (self.act, self.width)

    @property
    def paper(self) -> CifarRow | VggRow | None:
        """The paper's results for this network, or None."""
        if self.model == "vgg":  # Table 2 has the plain network, and CReLU at some of its layers
            return vgg_result(self.at, self.dataset) if self.act == "crelu" or not self.at else None
        return cifar_result(self.act, self.width, self.dataset)

    def augmentation(self) -> Augmentation:
        return Augmentation(flip=self.flip, shift=self.shift, alternate=self.alternate, reflect=self.reflect)

    @property
    def network(self) -> tuple[str, dict[str, Any]]:
        own: dict[str, Any] = {"classes": self.classes, "scale": self.scale}
        if self.model == "sprint":
            return "sprint", {"act": self.act, "at": self.at or (1,), "learned": not self.whitened, **own}
        if self.model == "vgg":
            act = self.act if self.at else "relu"
            return "vgg", {"act": act, "at": self.at, "bn_before_act": self.bn_before_act, **own}
        arch = "convpool-c" if self.model == "convpool-c" else "table"
        own |= {"dropout": self.dropout, "logits_act": self.logits_act}
        return "convpool", {"act": self.act, "width": self.width, "arch": arch, **own}

    @property
    def start(self) -> dict[str, Any]:
        if self.model == "sprint":
            return super().start
        if self.model == "vgg":
            return {**super().start, "bn_scheme": init.unit_uniform if self.recipe == "paper" else init.ones}
        return {**super().start, "looks_linear": self.looks_linear, "centred": self.centred, "gain": self.gain}

    @property
    def prepared(self) -> tuple[str, ...]:
        return ("conv1",) if self.whitened else ()

    def prepare(self, model: Sequential, images: np.ndarray, normalise: Normaliser) -> None:
        if self.whitened:
            conv1, act = model["conv1"], model["conv1_act"]
            assert isinstance(conv1, Conv2d)
            assert isinstance(act, Activation)
            conv1.whiten(normalise(images[:PATCHED]), opposites=not act.two_sided)

    def build_optimiser(self, model: Sequential, steps_per_epoch: int) -> Optimiser:
        rate = self.schedule(steps_per_epoch)
        sgd = partial(SGD, nesterov=self.recipe != "paper", clip=self.clip)
        parameters = model.parameters()
        if self.sgd_lr is None:
            return sgd(parameters, rate, momentum=self.momentum, weight_decay=self.weight_decay)
        *filters, last = [p for p in parameters if len(p.shape) > 1]
        vectors = [p for p in parameters if len(p.shape) == 1]
        groups = [(vectors, self.sgd_lr), ([last], self.last_lr)] if self.last_lr else [([*vectors, last], self.sgd_lr)]
        return Together(
            Muon(
                filters,
                rate,
                momentum=self.momentum,
                iterations=self.iterations,
                weight_decay=self.weight_decay,
                centred=self.centred,
                keep_norm=self.keep_norm,
            ),
            *(
                sgd(
                    own,
                    self.schedule(steps_per_epoch, peak),
                    momentum=self.sgd_momentum,
                    weight_decay=self.sgd_decay / peak,
                )
                for own, peak in groups
            ),
        )

    def schedule(self, steps_per_epoch: int, peak: float | None = None) -> Schedule:
        """A learning rate per step, at most `lr` or another peak.  The milestones of `paper` scale with the epochs."""
        peak = peak or self.lr
        total = self.epochs * steps_per_epoch
        if self.recipe == "sprint":
            return Linear(peak, total, warmup=self.warmup)
        if self.recipe != "paper":
            return OneCycle(peak, total, warmup=self.warmup)
        if self.model == "vgg":
            return StepDecay(peak, every=25 * steps_per_epoch, factor=0.5)
        boundaries = milestones(total, (200 / 350, 250 / 350, 300 / 350))
        return Piecewise(boundaries, tuple(peak * 0.1**i for i in range(4)))
