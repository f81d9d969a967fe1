"""How large a reproduction is.  A scale lists trainings; targets.py says what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from experiments.reproduction.steps import Training, convpool, photo, vgg
from minicnn.nn.init import HE
from reference.paper import TABLE_1, TABLE_2, TABLE_4

MODELS = tuple((row.act, row.width) for row in TABLE_1 if row.dataset == "cifar10")
DEEP = tuple(row.at for row in TABLE_2 if row.dataset == "cifar10")
BASE, HALF = ("relu", "base"), ("crelu", "half")  # the pair that the paper is about
AVR = ("avr", "base")


@dataclass(frozen=True)
class Pair:
    """A ReLU network and its CReLU counterpart, which the analyses compare."""

    name: str
    relu: Training
    crelu: Training


@dataclass(frozen=True)
class Control:
    """The trainings of one network, in words, and the words of the network that they are compared with."""

    words: str
    trainings: tuple[Training, ...]
    against: str = ""


@dataclass(frozen=True)
class Scale:
    """The trainings of each table, the most useful first.

    meaning       what its results are worth, for the report
    missing       {target: why it, or a part of it, is missing at this scale}
    controls      networks that may explain a comparison of table 1, beside those that they are compared with
    invariance, ratios, shown    images that the analyses of figure 4, table S1 and figure 5 look at
    generated     whether photographs are generated; with_imagenet takes the user's instead
    """

    name: str
    what: str
    meaning: str
    table1: tuple[Training, ...]
    table2: tuple[Training, ...]
    table4: tuple[Training, ...]
    pairs: tuple[Pair, ...]
    photo_pair: Pair
    missing: dict[str, str]
    controls: tuple[Control, ...] = ()
    invariance: int | None = None
    ratios: int = 1000
    shown: int = 4
    generated: bool = True

    def with_imagenet(self) -> Scale:
        """The same scale, trained on the user's photographs instead of generated ones."""
        pair = self.photo_pair
        return replace(
            self,
            table4=tuple(replace(training, generated=False) for training in self.table4),
            photo_pair=Pair(pair.name, *(replace(one, generated=False) for one in (pair.relu, pair.crelu))),
            missing={target: why for target, why in self.missing.items() if why != NO_PHOTOGRAPHS},
            generated=False,
        )

    @property
    def trainings(self) -> tuple[Training, ...]:
        """The trainings of all tables, each once."""
        controls = (one for control in self.controls for one in control.trainings)
        return tuple(dict.fromkeys((*self.table1, *self.table2, *self.table4, *controls)))


def seeded(seeds: int, make: Callable[[int], Iterable[Training]]) -> tuple[Training, ...]:
    """Seed by seed, so that an interrupted reproduction leaves complete pairs."""
    return tuple(training for seed in range(seeds) for training in make(seed))


def pairs(name: str, seeds: int, **settings: Any) -> tuple[Pair, ...]:
    """One pair per seed, so that the results of the analyses have intervals over seeds, too."""
    return tuple(
        Pair(f"{name}-seed{seed}", *(convpool(*model, **settings, seed=seed) for model in (BASE, HALF)))
        for seed in range(seeds)
    )


EQUAL = 0.7071  # of the widths: half of the parameters and of the multiplications, as CReLU (half) has


def controls(main: int, seeds: int, shorter: int, **settings: Any) -> tuple[Control, ...]:
    """CReLU (half) and ReLU (base) with `main` seeds, and with fewer what differs from one of them in one thing.

    shorter    epochs of ReLU (base) that take as long as all of CReLU (half)

    Where AVR has a gain of its own, there are also two networks with He's, which were trained before that was known.
    """

    def of(seeds: int, model: tuple[str, str], control: str = "", **changed: Any) -> tuple[Training, ...]:
        return seeded(seeds, lambda seed: [convpool(*model, control=control, **settings | changed, seed=seed)])

    half, avr, size = "CReLU (half)", "AVR (base)", EQUAL * settings.get("scale", 1.0)
    found = [
        Control(half, of(main, HALF)),
        Control("ReLU (base)", of(main, BASE), half),
        Control("ReLU, as large as CReLU (half)", of(seeds, BASE, "equal-size", scale=size), half),
        Control("ReLU (base), trained as long as CReLU (half)", of(seeds, BASE, "equal-time", epochs=shorter), half),
    ]
    if found[0].trainings[0].settings.looks_linear:
        usual = of(seeds, HALF, "usual-start", looks_linear=False)
        found.append(Control("CReLU (half), no looks-linear start", usual, half))
    if convpool(*AVR, **settings).settings.gain != HE:
        found += [
            Control(avr, of(min(seeds, 2), AVR)),
            Control("AVR (base), He's gain", of(min(seeds, 2), AVR, "he-gain", gain=HE), avr),
        ]
    return tuple(found)


TINY_PHOTOS: dict[str, Any] = {"scale": 0.1, "side": 48, "crop": 40, "epochs": 2, "batch": 16}
NO_PHOTOGRAPHS = (
    "This scale does without ImageNet: networks of a tenth of the width, trained on a few hundred generated pictures "
    "of textures, show that everything runs and nothing else; photographs of your own can be named"
)


def photos(*, generated: bool = False, **settings: Any) -> tuple[Training, ...]:
    return tuple(photo(row.model, generated=generated, **settings) for row in TABLE_4)


def photo_pair(*, generated: bool = False, **settings: Any) -> Pair:
    return Pair("imagenet", *(photo(name, generated=generated, **settings) for name in ("baseline", "crelu-conv1-7")))


def smoke(seeds: int | None = None) -> Scale:
    small: dict[str, Any] = {"dataset": "textures", "scale": 0.1, "subset": 2000, "batch": 32, "lr": 0.01}
    common, deep = small | {"epochs": 3}, small | {"epochs": 2}
    return Scale(
        name="smoke",
        what="minutes: a tenth of the widths, three epochs on 2,000 textures (no download); shows that everything runs",
        meaning=(
            "Textures is a data set made by formulas. Results on it say nothing about the paper: this scale shows "
            "that every part runs, and what the report looks like."
        ),
        table1=seeded(seeds or 2, lambda seed: (convpool(*model, **common, seed=seed) for model in MODELS)),
        table2=seeded(1, lambda seed: (vgg(at, **deep, seed=seed) for at in DEEP)),
        table4=photos(**TINY_PHOTOS, generated=True),
        pairs=pairs("textures", seeds or 2, **common),
        photo_pair=photo_pair(**TINY_PHOTOS, generated=True),
        missing={"table4": NO_PHOTOGRAPHS},
        controls=controls(seeds or 2, 1, 2, **common),
        invariance=200,
        ratios=100,
        shown=3,
    )


def cpu(seeds: int | None = None) -> Scale:
    quarter: dict[str, Any] = {"scale": 0.25}
    hundred = quarter | {"dataset": "cifar100"}
    whole: dict[str, Any] = {"epochs": 16}  # at full width: hours per network, so one seed
    several, fewer = seeds or 5, min(seeds or 3, 3)
    models = (HALF, *(model for model in MODELS if model != HALF))
    return Scale(
        name="cpu",
        what=(
            "hours on a few cores: real CIFAR, a quarter of the widths, ten epochs, several seeds; one pair at full "
            "width, 16 epochs"
        ),
        meaning=(
            "Quarter-width networks after ten epochs are far from converged, and so is the pair at full width after "
            "16. They compare activations under an equal, small budget; the paper compares them after hundreds of "
            "epochs. Neither agreement nor disagreement settles whether the paper's numbers hold."
        ),
        table1=(
            *seeded(several, lambda seed: (convpool(*model, **quarter, seed=seed) for model in models)),
            *seeded(1, lambda seed: (convpool(*model, **whole, seed=seed) for model in (HALF, BASE))),
            *seeded(fewer, lambda seed: (convpool(*model, **hundred, seed=seed) for model in (HALF, BASE))),
        ),
        table2=seeded(fewer, lambda seed: (vgg(at, **quarter, seed=seed) for at in DEEP)),
        table4=photos(**TINY_PHOTOS, generated=True),
        pairs=(
            *pairs("cifar10-quarter", several, **quarter),
            *pairs("cifar10", 1, **whole),
            *pairs("cifar100-quarter", fewer, **hundred),
        ),
        photo_pair=photo_pair(**TINY_PHOTOS, generated=True),
        missing={
            "table1": "On CIFAR-100, only the ReLU baseline and CReLU (half) are trained; the protocols Average and "
            "Vote take ten networks each and are left to the full scale",
            "table2": "CIFAR-10 only; no Average and Vote",
            "table4": NO_PHOTOGRAPHS,
        },
        invariance=1000,
        ratios=300,  # standard errors below 0.001: the seeds differ by more
    )


def hours(seeds: int | None = None) -> Scale:
    whole: dict[str, Any] = {"recipe": "hour", "epochs": 8}  # half an hour per network: there are many
    hundred, deep = whole | {"dataset": "cifar100"}, whole | {"scale": 0.5}
    voting = whole | {"protocol": "folds", "scale": 0.25, "epochs": 5}
    by_sgd: dict[str, Any] = {"epochs": 16}  # of the recipe short: is it the optimiser that decides?
    flips = whole | {"shift": 0, "control": "flips"}  # the paper flips images and does not shift them
    several, fewer = seeds or 5, min(seeds or 3, 3)  # two seeds would hardly ever decide anything
    main, others = (HALF, BASE), (("crelu", "base"), AVR)
    return Scale(
        name="hours",
        what="20 to 60 minutes per pair on two cores: real CIFAR, full widths, eight epochs of the recipe hour",
        meaning=(
            "Networks of the paper's widths (VGG: half; Average and Vote: a quarter), most of them trained for 8 "
            "epochs with orthogonal steps (Average and Vote: 5), the others by SGD for 16; the works that the paper "
            "cites take hundreds of epochs, by SGD. What agrees with the paper holds under another recipe, "
            "too; what does not may be due to the recipe."
        ),
        table1=(
            *seeded(several, lambda seed: (convpool(*model, **whole, seed=seed) for model in main)),
            *seeded(fewer, lambda seed: (convpool(*model, **whole, seed=seed) for model in others)),
            *(convpool(*model, **voting) for model in main),
            *seeded(fewer, lambda seed: (convpool(*model, **hundred, seed=seed) for model in main)),
            *seeded(fewer, lambda seed: (convpool(*model, **flips, seed=seed) for model in main)),
            *seeded(fewer, lambda seed: (convpool(*model, **by_sgd, seed=seed) for model in main)),
            convpool("relu", "double", **whole),
        ),
        table2=seeded(fewer, lambda seed: (vgg(at, **deep, seed=seed) for at in ((), (1, 3, 5)))),
        table4=photos(**TINY_PHOTOS, generated=True),
        pairs=(
            *pairs("cifar10", several, **whole),
            *pairs("cifar10-sgd", fewer, **by_sgd),
            *pairs("cifar100", fewer, **hundred),
        ),
        photo_pair=photo_pair(**TINY_PHOTOS, generated=True),
        missing={
            "table1": "By SGD, without shifts and on CIFAR-100, only the ReLU baseline and CReLU (half) are planned; "
            "Average and Vote of both on CIFAR-10, with a quarter of the widths and five epochs",
            "table2": "CIFAR-10 only, half of the widths, two networks; no Average and Vote",
            "table4": NO_PHOTOGRAPHS,
        },
        controls=controls(several, fewer, 5, **whole),  # of ReLU: as long as 8 of CReLU (half)
        invariance=1000,
        ratios=300,
    )


def full(seeds: int | None = None) -> Scale:
    asked: list[dict[str, Any]] = [
        {"dataset": dataset, "recipe": "paper", "protocol": protocol}
        for protocol in ("single", "folds")
        for dataset in ("cifar10", "cifar100")
    ]

    def of_table1(options: dict[str, Any]) -> tuple[Training, ...]:
        several = seeds if seeds and options["protocol"] == "single" else 1
        return seeded(several, lambda seed: (convpool(*model, **options, seed=seed) for model in MODELS))

    return Scale(
        name="full",
        what="the paper's settings, for GPUs: full widths, 300 and 350 epochs, Single, Average and Vote, ImageNet",
        meaning=(
            "The paper's networks, trained as its citations describe; the paper itself gives no learning rate, batch "
            "size or number of epochs for CIFAR."
        ),
        table1=tuple(one for options in asked for one in of_table1(options)),
        table2=tuple(vgg(at, **options) for options in asked for at in DEEP),
        table4=photos(),
        pairs=tuple(pair for one in asked[:2] for pair in pairs(one["dataset"], seeds or 1, **one)),
        photo_pair=photo_pair(),
        missing={},
        generated=False,
    )


SCALES: dict[str, Callable[[int | None], Scale]] = {
    "smoke": smoke,
    "cpu": cpu,
    "hours": hours,
    "full": full,
}
