"""The architectures of the CReLU paper as the supplement prints them: Tables S2 to S13, one Layer per row.

Nothing is corrected here: architectures.py does that, and says where and why. Where one table prints two networks,
"192/96" for CReLU/AVR, each gets its own rows.
"""

from dataclasses import dataclass, replace

Kernel = tuple[int | str, ...]


@dataclass(frozen=True)
class Layer:
    """One row of a table.

    kind        conv, max, avg, dropout or linear
    kernel      (kh, kw, c_in, c_out) of a convolution, (kh, kw) of a pool, (in, out) of a linear layer; "classes"
                stands where the paper prints 10/100
    stride, pad None where none is printed
    activation  relu, avr, crelu, bn+relu or nothing
    note        ours
    rate        of dropout, 0 where the paper prints "no dropout"
    """

    name: str
    kind: str
    kernel: Kernel = ()
    stride: int | None = None
    pad: int | None = None
    activation: str = ""
    note: str = ""
    rate: float | None = None

    def sizes(self, classes: int) -> tuple[int, ...]:
        """The kernel for a number of classes."""
        return tuple(classes if size == "classes" else int(size) for size in self.kernel)


Rows = tuple[Layer, ...]


def dropout(rate: float) -> Layer:
    return Layer("", "dropout", rate=rate)


PAD = "E2: padding a 1x1 kernel is odd, but without it the map would not be 10x10"
MAP = 'E3: printed "10x10 (100 for CIFAR-100)"; the map is 10x10 for both'
POOL = "the table prints no kind"
DOTS = "the table prints dots: as in Table S4"


def s2_left(act: str) -> Rows:
    """Baseline/AVR: act is relu or avr."""
    return (
        Layer("conv1", "conv", (3, 3, 3, 96), 1, 1, act),
        Layer("conv2", "conv", (3, 3, 96, 96), 1, 1, act),
        Layer("pool1", "max", (3, 3), 2, 0),
        Layer("conv3", "conv", (3, 3, 96, 192), 1, 1, act),
        Layer("conv4", "conv", (3, 3, 192, 192), 1, 1, act),
        Layer("conv5", "conv", (3, 3, 192, 192), 1, 1, act),
        Layer("pool2", "max", (3, 3), 2, 0),
        Layer("conv6", "conv", (3, 3, 192, 192), 1, 1, act),
        Layer("conv7", "conv", (1, 1, 192, 192), 1, 1, act, PAD),
        Layer("conv8", "conv", (1, 1, 192, "classes"), 1, 0, act),
        Layer("pool3", "avg", (10, 10), note=MAP),
    )


# Baseline (double).
S2_RIGHT = (
    Layer("conv1", "conv", (3, 3, 3, 192), 1, 1, "relu"),
    Layer("conv2", "conv", (3, 3, 192, 192), 1, 1, "relu"),
    Layer("pool1", "max", (3, 3), 2, 0),
    Layer("conv3", "conv", (3, 3, 192, 384), 1, 1, "relu"),
    Layer("conv4", "conv", (3, 3, 384, 384), 1, 1, "relu"),
    Layer("conv5", "conv", (3, 3, 384, 384), 1, 1, "relu"),
    Layer("pool2", "max", (3, 3), 2, 0),
    Layer("conv6", "conv", (3, 3, 384, 384), 1, 1, "relu"),
    Layer("conv7", "conv", (1, 1, 384, 384), 1, 1, "relu", PAD),
    Layer("conv8", "conv", (1, 1, 384, "classes"), 1, 0, "relu"),
    Layer("pool3", "avg", (10, 10), note=MAP),
)

# CReLU.
S3_LEFT = (
    Layer("conv1", "conv", (3, 3, 3, 96), 1, 1, "crelu"),
    Layer("conv2", "conv", (3, 3, 192, 96), 1, 1, "crelu"),
    Layer("pool1", "max", (3, 3), 2, 0),
    Layer("conv3", "conv", (3, 3, 192, 192), 1, 1, "crelu"),
    Layer("conv4", "conv", (3, 3, 384, 192), 1, 1, "crelu"),
    Layer("conv5", "conv", (3, 3, 384, 192), 1, 1, "crelu"),
    Layer("pool2", "max", (3, 3), 2, 0),
    Layer("conv6", "conv", (3, 3, 384, 192), 1, 1, "crelu"),
    Layer("conv7", "conv", (1, 1, 384, 192), 1, 1, "crelu", PAD),
    Layer("conv8", "conv", (1, 1, 384, "classes"), 1, 0, "relu"),
    Layer("pool3", "avg", (10, 10), note=MAP),
)

# CReLU (half).
S3_RIGHT = (
    Layer("conv1", "conv", (3, 3, 3, 48), 1, 1, "crelu"),
    Layer("conv2", "conv", (3, 3, 96, 48), 1, 1, "crelu"),
    Layer("pool1", "max", (3, 3), 2, 0),
    Layer("conv3", "conv", (3, 3, 96, 48), 1, 1, "crelu"),
    Layer("conv4", "conv", (3, 3, 96, 96), 1, 1, "crelu"),
    Layer("conv5", "conv", (3, 3, 192, 96), 1, 1, "crelu"),
    Layer("pool2", "max", (3, 3), 2, 0),
    Layer("conv6", "conv", (3, 3, 192, 96), 1, 1, "crelu"),
    Layer("conv7", "conv", (1, 1, 192, 96), 1, 1, "crelu", PAD),
    Layer("conv8", "conv", (1, 1, 192, "classes"), 1, 0, "relu"),
    Layer("pool3", "avg", (10, 10), note=MAP),
)

# VGG.
S4 = (
    Layer("conv1", "conv", (3, 3, 3, 64), 1, 1, "bn+relu"),
    dropout(0.3),
    Layer("conv2", "conv", (3, 3, 64, 64), 1, 1, "bn+relu"),
    Layer("pool1", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv3", "conv", (3, 3, 64, 128), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv4", "conv", (3, 3, 128, 128), 1, 1, "bn+relu"),
    Layer("pool2", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv5", "conv", (3, 3, 128, 256), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv6", "conv", (3, 3, 256, 256), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv7", "conv", (3, 3, 256, 256), 1, 1, "bn+relu"),
    Layer("pool3", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv8", "conv", (3, 3, 256, 512), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv9", "conv", (3, 3, 512, 512), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv10", "conv", (3, 3, 512, 512), 1, 1, "bn+relu"),
    Layer("pool4", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv11", "conv", (3, 3, 512, 512), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv12", "conv", (3, 3, 512, 512), 1, 1, "bn+relu"),
    dropout(0.4),
    Layer("conv13", "conv", (3, 3, 512, 512), 1, 1, "bn+relu"),
    Layer("pool5", "max", (2, 2), 2, 0, note=POOL),
    dropout(0.5),
    Layer("fc14", "linear", (512, 512), activation="bn+relu"),
    dropout(0.5),
    Layer("fc15", "linear", (512, "classes")),
)


def rest_of_s4(start: str) -> Rows:
    """The rows of Table S4 from the one named start, for which Tables S5 to S7 print dots."""
    first = [layer.name for layer in S4].index(start)
    return tuple(replace(layer, note=DOTS) for layer in S4[first:])


# VGG + (conv1).
S5 = (
    Layer("conv1", "conv", (3, 3, 3, 32), 1, 1, "crelu"),
    dropout(0.1),
    *rest_of_s4("conv2"),
)

# VGG + (conv1, 3).
S6 = (
    Layer("conv1", "conv", (3, 3, 3, 32), 1, 1, "crelu"),
    dropout(0.1),
    Layer("conv2", "conv", (3, 3, 64, 64), 1, 1, "bn+relu"),
    Layer("pool1", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv3", "conv", (3, 3, 64, 64), 1, 1, "crelu"),
    dropout(0.2),
    *rest_of_s4("conv4"),
)

# VGG + (conv1, 3, 5).
S7 = (
    Layer("conv1", "conv", (3, 3, 3, 32), 1, 1, "crelu"),
    dropout(0.1),
    Layer("conv2", "conv", (3, 3, 64, 64), 1, 1, "bn+relu"),
    Layer("pool1", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv3", "conv", (3, 3, 64, 64), 1, 1, "crelu"),
    dropout(0.2),
    Layer("conv4", "conv", (3, 3, 128, 128), 1, 1, "bn+relu"),
    Layer("pool2", "max", (2, 2), 2, 0, note=POOL),
    Layer("conv5", "conv", (3, 3, 128, 128), 1, 1, "crelu"),
    dropout(0.2),
    Layer("conv6", "conv", (3, 3, 256, 256), 1, 1, "bn+relu"),
    dropout(0.2),
    *rest_of_s4("conv7"),
)

# Baseline for ImageNet.
S8 = (
    Layer("conv1", "conv", (11, 11, 3, 96), 4, 0, "relu"),
    Layer("conv2", "conv", (1, 1, 96, 96), 1, 0, "relu"),
    Layer("conv3", "conv", (3, 3, 96, 96), 2, 0, "relu"),
    Layer("conv4", "conv", (5, 5, 96, 256), 1, 2, "relu"),
    Layer("conv5", "conv", (1, 1, 256, 256), 1, 0, "relu"),
    Layer("conv6", "conv", (3, 3, 256, 256), 2, 0, "relu"),
    Layer("conv7", "conv", (3, 3, 256, 384), 1, 1, "relu"),
    Layer("conv8", "conv", (1, 1, 384, 384), 1, 0, "relu"),
    Layer("conv9", "conv", (3, 3, 384, 384), 2, 1, "relu"),
    dropout(0),
    Layer("conv10", "conv", (3, 3, 384, 1024), 1, 1, "relu"),
    Layer("conv11", "conv", (1, 1, 1024, 1024), 1, 0, "relu"),
    Layer("conv12", "conv", (1, 1, 1024, 1000), 1, None, "relu"),
    Layer("pool", "avg", (6, 6)),
)


def s9(act: str) -> Rows:
    """CReLU/AVR (conv1-4) for ImageNet: act is crelu or avr."""
    c96, c256 = (192, 512) if act == "crelu" else (96, 256)  # printed 192/96, 512/256
    return (
        Layer("conv1", "conv", (11, 11, 3, 96), 4, 0, act),
        Layer("conv2", "conv", (1, 1, c96, 96), 1, 0, act),
        Layer("conv3", "conv", (3, 3, c96, 96), 2, 0, act),
        Layer("conv4", "conv", (5, 5, c96, 256), 1, 2, act),
        Layer("conv5", "conv", (1, 1, c256, 256), 1, 0, "relu"),
        Layer("conv6", "conv", (3, 3, 256, 256), 2, 0, "relu"),
        Layer("conv7", "conv", (3, 3, 256, 384), 1, 1, "relu"),
        Layer("conv8", "conv", (1, 1, 384, 384), 1, 0, "relu"),
        Layer("conv9", "conv", (3, 3, 384, 384), 2, 1, "relu"),
        dropout(0),
        Layer("conv10", "conv", (3, 3, 384, 1024), 1, 1, "relu"),
        Layer("conv11", "conv", (1, 1, 1024, 1024), 1, 0, "relu"),
        Layer("conv12", "conv", (1, 1, 1024, 1000), 1, None, "relu"),
        Layer("pool", "avg", (6, 6)),
    )


def s10(act: str) -> Rows:
    """CReLU/AVR (conv1-7) for ImageNet: act is crelu or avr."""
    c96, c256, c384 = (192, 512, 768) if act == "crelu" else (96, 256, 384)  # printed 192/96, 512/256, 768/384
    return (
        Layer("conv1", "conv", (11, 11, 3, 96), 4, 0, act),
        Layer("conv2", "conv", (1, 1, c96, 96), 1, 0, act),
        Layer("conv3", "conv", (3, 3, c96, 96), 2, 0, act),
        Layer("conv4", "conv", (5, 5, c96, 256), 1, 2, act),
        Layer("conv5", "conv", (1, 1, c256, 256), 1, 0, act),
        Layer("conv6", "conv", (3, 3, c256, 256), 2, 0, act),
        Layer("conv7", "conv", (3, 3, c256, 384), 1, 1, act),
        Layer("conv8", "conv", (1, 1, c384, 384), 1, 0, "relu"),
        Layer("conv9", "conv", (3, 3, 384, 384), 2, 1, "relu"),
        dropout(0.25),
        Layer("conv10", "conv", (3, 3, 384, 1024), 1, 1, "relu"),
        Layer("conv11", "conv", (1, 1, 1024, 1024), 1, 0, "relu"),
        Layer("conv12", "conv", (1, 1, 1024, 1000), 1, None, "relu"),
        Layer("pool", "avg", (6, 6)),
    )


def s11(act: str) -> Rows:
    """CReLU/AVR (conv1-9) for ImageNet: act is crelu or avr."""
    c96, c256, c384 = (192, 512, 768) if act == "crelu" else (96, 256, 384)  # printed 192/96, 512/256, 768/384
    return (
        Layer("conv1", "conv", (11, 11, 3, 96), 4, 0, act),
        Layer("conv2", "conv", (1, 1, c96, 96), 1, 0, act),
        Layer("conv3", "conv", (3, 3, c96, 96), 2, 0, act),
        Layer("conv4", "conv", (5, 5, c96, 256), 1, 2, act),
        Layer("conv5", "conv", (1, 1, c256, 256), 1, 0, act),
        Layer("conv6", "conv", (3, 3, c256, 256), 2, 0, act),
        Layer("conv7", "conv", (3, 3, c256, 384), 1, 1, act),
        Layer("conv8", "conv", (1, 1, c384, 384), 1, 0, act),
        Layer("conv9", "conv", (3, 3, c384, 384), 2, 1, act),
        dropout(0.25),
        Layer("conv10", "conv", (3, 3, c384, 1024), 1, 1, "relu"),
        Layer("conv11", "conv", (1, 1, 1024, 1024), 1, 0, "relu"),
        Layer("conv12", "conv", (1, 1, 1024, 1000), 1, None, "relu"),
        Layer("pool", "avg", (6, 6)),
    )


# CReLU (all) for ImageNet.
S12 = (
    Layer("conv1", "conv", (11, 11, 3, 48), 4, 0, "crelu"),
    Layer("conv2", "conv", (1, 1, 96, 48), 1, 0, "crelu"),
    Layer("conv3", "conv", (3, 3, 96, 48), 2, 0, "crelu"),
    Layer("conv4", "conv", (5, 5, 96, 128), 1, 2, "crelu"),
    Layer("conv5", "conv", (1, 1, 256, 128), 1, 0, "crelu"),
    Layer("conv6", "conv", (3, 3, 256, 128), 2, 0, "crelu"),
    Layer("conv7", "conv", (3, 3, 256, 192), 1, 1, "crelu"),
    Layer("conv8", "conv", (1, 1, 384, 192), 1, 0, "crelu"),
    Layer("conv9", "conv", (3, 3, 384, 192), 2, 1, "crelu"),
    dropout(0.25),
    Layer("conv10", "conv", (3, 3, 384, 512), 1, 1, "crelu"),
    Layer("conv11", "conv", (1, 1, 512, 512), 1, 0, "crelu"),
    Layer("conv12", "conv", (1, 1, 512, 1000), 1, None, "crelu"),
    Layer("pool", "avg", (6, 6)),
)

# CReLU (conv1,4,7) for ImageNet.
S13 = (
    Layer("conv1", "conv", (11, 11, 3, 48), 4, 0, "crelu"),
    Layer("conv2", "conv", (1, 1, 96, 96), 1, 0, "relu"),
    Layer("conv3", "conv", (3, 3, 96, 96), 2, 0, "relu"),
    Layer("conv4", "conv", (5, 5, 96, 128), 1, 2, "crelu"),
    Layer("conv5", "conv", (1, 1, 256, 256), 1, 0, "relu"),
    Layer("conv6", "conv", (3, 3, 256, 256), 2, 0, "relu"),
    Layer("conv7", "conv", (3, 3, 256, 192), 1, 1, "crelu"),
    Layer("conv8", "conv", (1, 1, 384, 384), 1, 0, "relu"),
    Layer("conv9", "conv", (3, 3, 384, 384), 2, 1, "relu"),
    dropout(0.25),
    Layer("conv10", "conv", (3, 3, 384, 1024), 1, 1, "relu"),
    Layer("conv11", "conv", (1, 1, 1024, 1024), 1, 0, "relu"),
    Layer("conv12", "conv", (1, 1, 1024, 1000), 1, None, "relu"),
    Layer("pool", "avg", (6, 6)),
)
