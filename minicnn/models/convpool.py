"""The CIFAR networks of the paper's Table 1 (supplement, S2 and S3).

    name    kernel, stride, pad             as printed, for the baseline
    conv1   3x3x3x96,    1, 1
    conv2   3x3x96x96,   1, 1
    pool1   3x3,         2, 0   max         ceil mode: 32 -> 16
    conv3   3x3x96x192,  1, 1
    conv4   3x3x192x192, 1, 1
    conv5   3x3x192x192, 1, 1
    pool2   3x3,         2, 0   max         ceil mode: 16 -> 8
    conv6   3x3x192x192, 1, 1
    conv7   1x1x192x192, 1, 1               the pad of 1 makes 8 -> 10 (E2)
    conv8   1x1x192x10,  1, 0
    pool3   10x10               average     global: every geometry works

For "half" the paper prints 48 filters at conv3 (and 96 channels into conv4), which is a quarter of the 192 of its CReLU
network and makes 0.52M parameters; we build half of them, 96, which makes 0.64M (E1; the paper says 0.7M).
The printed table lacks one 96-96 convolution of ConvPool-CNN-C (E6; Springenberg et al. 2014); arch="convpool-c" is
that network, with nine convolutions, of which conv7 has no pad, and 6x6 features at the end.
E1, E2, ... are entries of docs/errata.md.
"""

from __future__ import annotations

from minicnn.models.table import Conv, Drop, GlobalAverage, MaxPool, Row, build, check_activation, scaled
from minicnn.nn import Sequential, init

WIDTHS = {"half": 0.5, "base": 1.0, "double": 2.0}
DROPOUT = (0.2, 0.5, 0.5)  # on the input, after pool1, after pool2: Springenberg et al.; this paper's are unpublished


def convpool(
    act: str = "relu",
    width: str = "base",
    *,
    arch: str = "table",
    classes: int = 10,
    scale: float = 1.0,
    dropout: tuple[float, float, float] = DROPOUT,
    logits_act: bool = False,
    looks_linear: bool = False,
    centred: bool = False,
    gain: float = init.HE,
    seed: int = 0,
) -> Sequential:
    """ConvPool for 32x32x3 images, initialised from `seed` (He, fan-in).

    act           "relu", "avr", "crelu", ... after every convolution but the last
    width         "half", "base" or "double": the paper's numbers of filters; `scale` multiplies them further
    arch          "table": 8 convolutions, as printed;  "convpool-c": 9, as in the network it is named after
    dropout       rates on the input, after pool1 and after pool2
    logits_act    a ReLU (AVR in an AVR network) on the logits, as printed.  Off by default: with all logits negative
                  it gives no gradient, and such networks never learn
    looks_linear  convolutions behind CReLU start by init.looks_linear, so that the network starts as a linear one but
                  for its pools; networks with another activation start as ever
    centred       convolutions behind an activation start by init.he_centred, unless by init.looks_linear
    gain          they start with weights of variance gain^2 / fan-in; He's is sqrt 2
    """
    check_activation("convpool", act)
    if width not in WIDTHS:
        raise ValueError(f"convpool: unknown width {width!r}; choose from {', '.join(WIDTHS)}")
    a, b = (scaled(96 * WIDTHS[width], scale), scaled(192 * WIDTHS[width], scale))
    last = None if not logits_act else "avr" if act == "avr" else "relu"
    drop_input, drop_pool1, drop_pool2 = dropout
    tables: dict[str, list[Row]] = {
        "table": [
            Drop("drop0", drop_input),
            Conv("conv1", a, k=3, pad=1, act=act),
            Conv("conv2", a, k=3, pad=1, act=act),
            MaxPool("pool1", k=3, stride=2),
            Drop("drop1", drop_pool1),
            Conv("conv3", b, k=3, pad=1, act=act),
            Conv("conv4", b, k=3, pad=1, act=act),
            Conv("conv5", b, k=3, pad=1, act=act),
            MaxPool("pool2", k=3, stride=2),
            Drop("drop2", drop_pool2),
            Conv("conv6", b, k=3, pad=1, act=act),
            Conv("conv7", b, k=1, pad=1, act=act),
            Conv("conv8", classes, k=1, act=last),
            GlobalAverage("pool3"),
        ],
        "convpool-c": [
            Drop("drop0", drop_input),
            Conv("conv1", a, k=3, pad=1, act=act),
            Conv("conv2", a, k=3, pad=1, act=act),
            Conv("conv3", a, k=3, pad=1, act=act),
            MaxPool("pool1", k=3, stride=2),
            Drop("drop1", drop_pool1),
            Conv("conv4", b, k=3, pad=1, act=act),
            Conv("conv5", b, k=3, pad=1, act=act),
            Conv("conv6", b, k=3, pad=1, act=act),
            MaxPool("pool2", k=3, stride=2),
            Drop("drop2", drop_pool2),
            Conv("conv7", b, k=3, act=act),
            Conv("conv8", b, k=1, act=act),
            Conv("conv9", classes, k=1, act=last),
            GlobalAverage("pool3"),
        ],
    }
    if arch not in tables:
        raise ValueError(f"convpool: unknown arch {arch!r}; choose from {', '.join(tables)}")
    scheme = init.looks_linear if looks_linear and act == "crelu" else init.he_centred if centred else init.he_normal
    return build(tables[arch], channels=3, behind={act: init.with_gain(scheme, gain)}).initialise(seed)
