"""The networks of the CReLU paper: the rows as printed (tables.py), what is wrong in them, and the rows corrected.

Four families, each a mapping from a key that says where CReLU is to an Architecture:

CONVPOOL    (act, width)  Tables S2 and S3, eight convolutions, CIFAR
CONVPOOL_C  (act, width)  ConvPool-CNN-C with its nine convolutions (Springenberg 2014): not printed in this paper
VGG         layers with CReLU, () to (1, 3, 5)  Tables S4 to S7, CIFAR
IMAGENET    "baseline", "crelu-conv1-4", ...    Tables S8 to S13

E1, E2, ... are entries of docs/errata.md. How many parameters each network has, and how large its maps are, is in
sizes.py.
"""

from dataclasses import dataclass, replace
from typing import Any

from reference.paper import tables
from reference.paper.tables import Kernel, Layer, Rows

Key = tuple[str, str] | tuple[int, ...] | str


@dataclass(frozen=True)
class Correction:
    """One entry of one row that the paper cannot mean.

    `field` is the field of Layer, `breaks` the layer whose number of input channels does not fit as printed ("output"
    for the number of classes), "" where the channels fit and something else tells.
    """

    erratum: str
    layer: str
    field: str
    printed: Kernel | str | int | None
    corrected: Kernel | str | int | None
    reason: str
    breaks: str = ""

    def __str__(self) -> str:
        printed = "not printed" if self.printed is None else f"printed {_shown(self.printed)}"
        return (
            f"{self.layer}: {self.field} {printed}, corrected {_shown(self.corrected)} ({self.erratum}: {self.reason})"
        )


def _shown(value: Kernel | str | int | None) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Architecture:
    """`table` is its place in the supplement, None (and `printed` empty) if it is not in this paper."""

    family: str
    key: Key
    table: str | None
    label: str
    printed: Rows
    corrected: Rows


# As printed, the channels of the half model fit: conv3 has 48 filters, conv4 takes 96 channels. But then it is not half
# of the CReLU model, nor has it "the same number of neurons" as the baseline; and 0.52M is far from the paper's 0.7M.
_HALF = (
    Correction("E1", "conv3", "kernel", (3, 3, 96, 48), (3, 3, 96, 96), "half of 192 filters is 96"),
    Correction("E1", "conv4", "kernel", (3, 3, 96, 96), (3, 3, 192, 96), "conv3 with 96 filters gives 192 channels"),
)
_ALL = (
    Correction(
        "E4", "conv11", "kernel", (1, 1, 512, 512), (1, 1, 1024, 512), "conv10 gives 2 x 512 channels", breaks="conv11"
    ),
    Correction(
        "E4", "conv11", "activation", "crelu", "relu", "conv12 takes 512 channels, and 4.7M fits", breaks="conv12"
    ),
    Correction(
        "E4", "conv12", "activation", "crelu", "relu", "CReLU would give 2000 scores for 1000 classes", breaks="output"
    ),
)
_PAD = Correction("E33", "conv12", "pad", None, 0, "not printed in any of the tables; 6x6 stays 6x6")

_IMAGENET = (
    ("baseline", "S8", "Baseline", tables.S8),
    ("crelu-conv1-4", "S9", "CReLU (conv1-4)", tables.s9("crelu")),
    ("avr-conv1-4", "S9", "AVR (conv1-4)", tables.s9("avr")),
    ("crelu-conv1-7", "S10", "CReLU (conv1-7)", tables.s10("crelu")),
    ("avr-conv1-7", "S10", "AVR (conv1-7)", tables.s10("avr")),
    ("crelu-conv1-9", "S11", "CReLU (conv1-9)", tables.s11("crelu")),
    ("avr-conv1-9", "S11", "AVR (conv1-9)", tables.s11("avr")),
    ("crelu-all", "S12", "CReLU (all)", tables.S12),
    ("crelu-conv1,4,7", "S13", "CReLU (conv1,4,7)", tables.S13),
)

# By family and key; networks that are not here are printed right.
CORRECTIONS: dict[tuple[str, Key], tuple[Correction, ...]] = {
    ("convpool", ("crelu", "half")): _HALF,
    **{("imagenet", key): (*(_ALL if key == "crelu-all" else ()), _PAD) for key, *_ in _IMAGENET},
}


def _corrected(rows: Rows, corrections: tuple[Correction, ...]) -> Rows:
    """The rows with the corrections made, and named in the notes."""
    for correction in corrections:
        at = [layer.name for layer in rows].index(correction.layer)
        change: dict[str, Any] = {correction.field: correction.corrected}
        note = f"{correction.erratum}: {correction.field} was {correction.printed}"
        change["note"] = f"{rows[at].note}; {note}".removeprefix("; ")
        rows = (*rows[:at], replace(rows[at], **change), *rows[at + 1 :])
    return rows


def _printed(family: str, key: Key, table: str, label: str, rows: Rows) -> Architecture:
    return Architecture(family, key, table, label, rows, _corrected(rows, CORRECTIONS.get((family, key), ())))


def _nine(key: tuple[str, str], label: str, narrow: int, wide: int) -> Architecture:
    """ConvPool-CNN-C with `narrow` filters in its first block and `wide` ones after it."""
    act, _ = key
    n, w = (2 * narrow, 2 * wide) if act == "crelu" else (narrow, wide)  # channels after the activation
    last = "relu" if act == "crelu" else act
    rows = (
        Layer("conv1", "conv", (3, 3, 3, narrow), 1, 1, act),
        Layer("conv2", "conv", (3, 3, n, narrow), 1, 1, act),
        Layer("conv3", "conv", (3, 3, n, narrow), 1, 1, act),
        Layer("pool1", "max", (3, 3), 2, 0),
        Layer("conv4", "conv", (3, 3, n, wide), 1, 1, act),
        Layer("conv5", "conv", (3, 3, w, wide), 1, 1, act),
        Layer("conv6", "conv", (3, 3, w, wide), 1, 1, act),
        Layer("pool2", "max", (3, 3), 2, 0),
        Layer("conv7", "conv", (3, 3, w, wide), 1, 0, act),
        Layer("conv8", "conv", (1, 1, w, wide), 1, 0, act),
        Layer("conv9", "conv", (1, 1, w, "classes"), 1, 0, last),
        Layer("pool3", "avg", (6, 6)),
    )
    return Architecture("convpool-c", key, None, label, (), rows)


CONVPOOL: dict[tuple[str, str], Architecture] = {
    key: _printed("convpool", key, table, label, rows)
    for key, table, label, rows in (
        (("relu", "base"), "S2 (left)", "Baseline", tables.s2_left("relu")),
        (("relu", "double"), "S2 (right)", "Baseline (double)", tables.S2_RIGHT),
        (("avr", "base"), "S2 (left)", "AVR", tables.s2_left("avr")),
        (("crelu", "base"), "S3 (left)", "CReLU", tables.S3_LEFT),
        (("crelu", "half"), "S3 (right)", "CReLU (half)", tables.S3_RIGHT),
    )
}

CONVPOOL_C: dict[tuple[str, str], Architecture] = {
    key: _nine(key, label, narrow, wide)
    for key, label, narrow, wide in (
        (("relu", "base"), "Baseline", 96, 192),
        (("relu", "double"), "Baseline (double)", 192, 384),
        (("avr", "base"), "AVR", 96, 192),
        (("crelu", "base"), "CReLU", 96, 192),
        (("crelu", "half"), "CReLU (half)", 48, 96),
    )
}

VGG: dict[tuple[int, ...], Architecture] = {
    key: _printed("vgg", key, table, label, rows)
    for key, table, label, rows in (
        ((), "S4", "VGG", tables.S4),
        ((1,), "S5", "VGG + (conv1)", tables.S5),
        ((1, 3), "S6", "VGG + (conv1, 3)", tables.S6),
        ((1, 3, 5), "S7", "VGG + (conv1, 3, 5)", tables.S7),
    )
}

IMAGENET: dict[str, Architecture] = {
    key: _printed("imagenet", key, table, label, rows) for key, table, label, rows in _IMAGENET
}

ARCHITECTURES: tuple[Architecture, ...] = (
    *CONVPOOL.values(),
    *CONVPOOL_C.values(),
    *VGG.values(),
    *IMAGENET.values(),
)
