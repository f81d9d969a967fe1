"""The ImageNet networks of the paper's Table 4, after All-CNN-B of Springenberg et al. 2014 (supplement, S8 to S13).

    name     kernel, stride, pad              as printed, for the baseline; maps of a 224x224 image
    conv1    11x11x3x96,    4, 0              54
    conv2    1x1x96x96,     1, 0              54
    conv3    3x3x96x96,     2, 0              26
    conv4    5x5x96x256,    1, 2              26
    conv5    1x1x256x256,   1, 0              26
    conv6    3x3x256x256,   2, 0              12
    conv7    3x3x256x384,   1, 1              12
    conv8    1x1x384x384,   1, 0              12
    conv9    3x3x384x384,   2, 1              6
    dropout                                   0 for the baseline and conv1-4, 0.25 for the others
    conv10   3x3x384x1024,  1, 1              6
    conv11   1x1x1024x1024, 1, 0              6
    conv12   1x1x1024x1000, 1, 0              6     the pad is not printed (E33)
    pool     6x6   average                    global: images of 35 pixels or more work

The tables fit images of 224 pixels and divisions that round down; the 227 of Caffe's AlexNet would give 7x7 at the end.

Two corrections of "CReLU (all)", marked below (E4): conv11 reads the 2 x 512 channels that conv10 gives, not 512; and
ReLU follows it, not CReLU, since conv12 reads 512 channels.  So it has half the weights of the baseline, as published.
E4 and E33 are entries of docs/errata.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from minicnn.models.table import Conv, Drop, GlobalAverage, Row, build, scaled
from minicnn.nn import Sequential

SMALLEST = 35  # pixels: conv6 then sees 3x3


@dataclass(frozen=True)
class Variant:
    """Where `act` stands instead of ReLU, which layers have half the filters, and the dropout before conv10."""

    act: str
    at: tuple[int, ...] = ()
    halved: tuple[int, ...] = ()
    dropout: float = 0.25


def _first(n: int) -> tuple[int, ...]:
    return tuple(range(1, n + 1))


# As printed in S8 to S13.  What reads a CReLU layer has twice the weights, or as many as before if that is halved.
VARIANTS: dict[str, Variant] = {
    "baseline": Variant("relu", dropout=0.0),
    "crelu-conv1-4": Variant("crelu", _first(4), dropout=0.0),
    "avr-conv1-4": Variant("avr", _first(4), dropout=0.0),
    "crelu-conv1-7": Variant("crelu", _first(7)),
    "avr-conv1-7": Variant("avr", _first(7)),
    "crelu-conv1-9": Variant("crelu", _first(9)),
    "avr-conv1-9": Variant("avr", _first(9)),
    "crelu-all": Variant("crelu", _first(10), halved=_first(11)),  # E4: printed as CReLU at 11 and 12 too
    "crelu-conv1,4,7": Variant("crelu", (1, 4, 7), halved=(1, 4, 7)),
}


def allcnn_b(
    variant: str = "baseline",
    *,
    classes: int = 1000,
    scale: float = 1.0,
    dropout: float | None = None,
    logits_act: bool = False,
    seed: int = 0,
) -> Sequential:
    """All-CNN-B for images of 224x224x3, initialised from `seed` (He, fan-in).

    variant     a key of VARIANTS
    scale       multiplies every width
    dropout     the rate before conv10; None for the printed one
    logits_act  a ReLU on the logits, as printed.  Off by default: with all logits negative it gives no gradient
    """
    if variant not in VARIANTS:
        raise ValueError(f"allcnn_b: unknown variant {variant!r}; choose from {', '.join(VARIANTS)}")
    chosen = VARIANTS[variant]

    def conv(number: int, filters: int, *, k: int, stride: int = 1, pad: int = 0) -> Conv:
        width = scaled(filters / (2 if number in chosen.halved else 1), scale)
        act = chosen.act if number in chosen.at else "relu"
        return Conv(f"conv{number}", width, k=k, stride=stride, pad=pad, act=act)

    rows: list[Row] = [
        conv(1, 96, k=11, stride=4),
        conv(2, 96, k=1),
        conv(3, 96, k=3, stride=2),
        conv(4, 256, k=5, pad=2),
        conv(5, 256, k=1),
        conv(6, 256, k=3, stride=2),
        conv(7, 384, k=3, pad=1),
        conv(8, 384, k=1),
        conv(9, 384, k=3, stride=2, pad=1),
        Drop("drop9", chosen.dropout if dropout is None else dropout),
        conv(10, 1024, k=3, pad=1),
        conv(11, 1024, k=1),
        Conv("conv12", classes, k=1, act="relu" if logits_act else None),
        GlobalAverage("pool"),
    ]
    return build(rows, channels=3).initialise(seed)
