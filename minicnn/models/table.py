"""Networks as tables: one row per layer, as the paper prints them.

    build([Conv("conv1", 96, k=3, pad=1, act="crelu"), MaxPool("pool1", k=3, stride=2), ...], channels=3)

The number of input channels of each row follows from the rows before it, doubled by activations that concatenate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from minicnn import nn, ops
from minicnn.nn import init
from minicnn.nn.init import Scheme

# name: (layer, how many channels come out for each that goes in)
ACTIVATIONS: dict[str, tuple[Callable[[], nn.Activation], int]] = {
    "relu": (nn.ReLU, 1),
    "leaky": (nn.LeakyReLU, 1),
    "avr": (nn.AVR, 1),
    "crelu": (nn.CReLU, 2),
    "crelu-leaky": (lambda: nn.CReLU(ops.leaky_relu), 2),
    "antirectifier": (nn.Antirectifier, 2),
}


@dataclass(frozen=True)
class Conv:
    """A convolution with `filters` filters, then batch normalisation if `bn` (its eps) is given, then `act`."""

    name: str
    filters: int
    k: int
    stride: int = 1
    pad: int = 0
    act: str | None = None
    bn: float | None = None


@dataclass(frozen=True)
class MaxPool:
    name: str
    k: int
    stride: int


@dataclass(frozen=True)
class Drop:
    """Dropout; with a rate of 0 there is no layer."""

    name: str
    rate: float


@dataclass(frozen=True)
class GlobalAverage:
    name: str


@dataclass(frozen=True)
class Dense:
    """A fully connected layer on the flattened features."""

    name: str
    units: int
    act: str | None = None
    bn: float | None = None


Row = Conv | MaxPool | Drop | GlobalAverage | Dense


def build(
    rows: Iterable[Row],
    *,
    channels: int,
    scheme: Scheme = init.he_normal,
    bn_scheme: Scheme = init.ones,
    behind: Mapping[str, Scheme] | None = None,
) -> nn.Sequential:
    """The network of a table.  `channels` is what enters the first row; a Dense row must see 1x1 features.

    `behind` has the scheme of convolutions behind an activation, by the name of that, where it is another.
    The layers of row "conv1" are called "conv1", "conv1_bn" and "conv1_act".
    """
    layers: dict[str, nn.Module] = {}
    flat, before = False, ""  # the activation before a row, whatever lies between
    for row in rows:
        if isinstance(row, Conv | Dense):
            if isinstance(row, Conv):
                own = (behind or {}).get(before, scheme)
                layers[row.name] = nn.Conv2d(channels, row.filters, row.k, stride=row.stride, pad=row.pad, scheme=own)
                channels = row.filters
            else:
                if not flat:
                    layers["flatten"], flat = nn.Flatten(), True
                layers[row.name] = nn.Linear(channels, row.units)
                channels = row.units
            if row.bn is not None:
                layers[f"{row.name}_bn"] = nn.BatchNorm(channels, eps=row.bn, scheme=bn_scheme)
            if row.act is not None:
                make, factor = ACTIVATIONS[row.act]
                layers[f"{row.name}_act"] = make()
                channels *= factor
            before = row.act or ""
        elif isinstance(row, MaxPool):
            layers[row.name] = nn.MaxPool2d(row.k, stride=row.stride, ceil=True)
        elif isinstance(row, Drop):
            if row.rate:
                layers[row.name] = nn.Dropout(row.rate)
        else:
            layers[row.name], flat = nn.GlobalAvgPool(), True
    return nn.Sequential(**layers)


def scaled(filters: float, scale: float) -> int:
    """A width from the paper, scaled for a small machine; at least 1."""
    if not 0 < scale < math.inf:
        raise ValueError(f"the scale of a network must be positive, got {scale}")
    return max(1, round(filters * scale))


def check_activation(where: str, act: str) -> None:
    if act not in ACTIVATIONS:
        raise ValueError(f"{where}: unknown activation {act!r}; choose from {', '.join(ACTIVATIONS)}")
