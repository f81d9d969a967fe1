"""The VGG-like CIFAR network of the paper's Table 2, after Zagoruyko's cifar.torch (supplement, S4 to S7).

Blocks of 3x3 convolutions with pad 1, each followed by batch normalisation and ReLU, each block by a 2x2 max pool:

    64 64 | 128 128 | 256 256 256 | 512 512 512 | 512 512 512 | fc 512 | fc 10

At the layers named by `at`, CReLU replaces BN + ReLU and the number of filters is halved.
"""

from __future__ import annotations

from minicnn.models.table import ACTIVATIONS, Conv, Dense, Drop, MaxPool, Row, build, check_activation, scaled
from minicnn.nn import Sequential, init
from minicnn.nn.init import Scheme

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
CONVOLUTIONS = sum(map(len, BLOCKS))


def dropout_rates(at: tuple[int, ...]) -> dict[int, float]:
    """The rate after each convolution that has dropout, by its number.

    Printed: 0.3 after conv1 and 0.4 after the others but the last of each block; 0.1 after a replaced conv1, 0.2 after
    a replaced conv3 or conv5, and with conv5 also 0.2 after conv6.  Other replaced layers take 0.2 here.
    """
    rates: dict[int, float] = {}
    layer = 0
    for block in BLOCKS:
        rates |= {layer + i: 0.4 for i in range(1, len(block))}
        layer += len(block)
    rates[1] = 0.3
    rates |= {number: 0.1 if number == 1 else 0.2 for number in at if number in rates}
    if 5 in at:
        rates[6] = 0.2
    return rates


def vgg(
    act: str = "crelu",
    at: tuple[int, ...] = (1, 3, 5),
    *,
    classes: int = 10,
    scale: float = 1.0,
    bn_before_act: bool = False,
    bn_scheme: Scheme = init.unit_uniform,
    seed: int = 0,
) -> Sequential:
    """VGG for 32x32x3 images, initialised from `seed` (MSR: He with fan-out).

    act            the activation of the layers in `at`, "crelu" or "avr" in the paper; the others have ReLU
    at             convolutions 1 .. 13; () is the baseline
    scale          multiplies every width
    bn_before_act  keep batch normalisation before `act`.  The tables print "CReLU" where the baseline has "BN+ReLU",
                   which may mean either; as printed it is dropped
    bn_scheme      the initial scale of batch normalisation; Torch 7 drew it from U(0, 1)
    """
    check_activation("vgg", act)
    at = tuple(sorted(set(at)))
    if not all(1 <= number <= CONVOLUTIONS for number in at):
        raise ValueError(f"vgg: `at` names convolutions 1 .. {CONVOLUTIONS}, got {at}")
    rates = dropout_rates(at)
    rows: list[Row] = []
    number = 0
    for i, block in enumerate(BLOCKS, start=1):
        for width in block:
            number += 1
            if number in at:
                filters, bn = scaled(width / ACTIVATIONS[act][1], scale), 1e-3 if bn_before_act else None
                rows.append(Conv(f"conv{number}", filters, k=3, pad=1, act=act, bn=bn))
            else:
                rows.append(Conv(f"conv{number}", scaled(width, scale), k=3, pad=1, act="relu", bn=1e-3))
            rows.append(Drop(f"drop{number}", rates.get(number, 0.0)))
        rows.append(MaxPool(f"pool{i}", k=2, stride=2))
    hidden = scaled(512, scale)
    rows += [
        Drop("drop_fc14", 0.5),
        Dense("fc14", hidden, act="relu", bn=1e-5),
        Drop("drop_fc15", 0.5),
        Dense("fc15", classes),
    ]
    return build(rows, channels=3, scheme=init.msr_normal, bn_scheme=bn_scheme).initialise(seed)
