"""How many parameters the networks of architectures.py have, and how large their maps are.

The paper's counts are rounded; the exact ones are ours, and follow from the rows.
"""

from dataclasses import dataclass

from reference.paper.architectures import Key


@dataclass(frozen=True)
class Parameters:
    """All that a network learns: weights, biases, and scale and shift of every batch normalisation (bn+relu).

    `printed` counts the rows as printed, None where the paper prints none; `published_millions` is what the paper
    says, in Tables 1 and 5.
    """

    family: str
    key: Key
    dataset: str
    corrected: int
    printed: int | None
    published_millions: float | None


# E6: 1.4M and 0.7M are the nine convolutions of ConvPool-CNN-C, where the tables print eight; 5.6M and 2.8M are four
# and two times 1.4M, not counted.
# VGG: as printed, there is no batch normalisation where CReLU is. E33: the "reduced number" is 1.2 % at the most.
# ImageNet, (all): 4.7M as corrected, without its 3 128 biases exactly half of the baseline. As printed it would have
# 4.4M; with CReLU after conv11, and so 1024 channels into conv12, 5 198 920. E5: the text says 4.6M.
PARAMETERS = (
    Parameters("convpool", ("relu", "base"), "cifar10", 1_286_698, 1_286_698, 1.4),
    Parameters("convpool", ("relu", "double"), "cifar10", 5_135_434, 5_135_434, 5.6),
    Parameters("convpool", ("avr", "base"), "cifar10", 1_286_698, 1_286_698, 1.4),
    Parameters("convpool", ("crelu", "base"), "cifar10", 2_569_642, 2_569_642, 2.8),
    Parameters("convpool", ("crelu", "half"), "cifar10", 644_314, 519_850, 0.7),
    Parameters("convpool", ("relu", "base"), "cifar100", 1_304_068, 1_304_068, 1.4),
    Parameters("convpool", ("relu", "double"), "cifar100", 5_170_084, 5_170_084, 5.6),
    Parameters("convpool", ("avr", "base"), "cifar100", 1_304_068, 1_304_068, 1.4),
    Parameters("convpool", ("crelu", "base"), "cifar100", 2_604_292, 2_604_292, 2.8),
    Parameters("convpool", ("crelu", "half"), "cifar100", 661_684, 537_220, 0.7),
    Parameters("convpool-c", ("relu", "base"), "cifar10", 1_369_738, None, 1.4),
    Parameters("convpool-c", ("relu", "double"), "cifar10", 5_467_402, None, 5.6),
    Parameters("convpool-c", ("avr", "base"), "cifar10", 1_369_738, None, 1.4),
    Parameters("convpool-c", ("crelu", "base"), "cifar10", 2_735_626, None, 2.8),
    Parameters("convpool-c", ("crelu", "half"), "cifar10", 685_834, None, 0.7),
    Parameters("convpool-c", ("relu", "base"), "cifar100", 1_387_108, None, 1.4),
    Parameters("convpool-c", ("relu", "double"), "cifar100", 5_502_052, None, 5.6),
    Parameters("convpool-c", ("avr", "base"), "cifar100", 1_387_108, None, 1.4),
    Parameters("convpool-c", ("crelu", "base"), "cifar100", 2_770_276, None, 2.8),
    Parameters("convpool-c", ("crelu", "half"), "cifar100", 703_204, None, 0.7),
    Parameters("vgg", (), "cifar10", 14_991_946, 14_991_946, None),
    Parameters("vgg", (1,), "cifar10", 14_990_922, 14_990_922, None),
    Parameters("vgg", (1, 3), "cifar10", 14_953_738, 14_953_738, None),
    Parameters("vgg", (1, 3, 5), "cifar10", 14_805_642, 14_805_642, None),
    Parameters("vgg", (), "cifar100", 15_038_116, 15_038_116, None),
    Parameters("vgg", (1,), "cifar100", 15_037_092, 15_037_092, None),
    Parameters("vgg", (1, 3), "cifar100", 14_999_908, 14_999_908, None),
    Parameters("vgg", (1, 3, 5), "cifar100", 14_851_812, 14_851_812, None),
    Parameters("imagenet", "baseline", "imagenet", 9_372_840, 9_372_840, 9.4),
    Parameters("imagenet", "crelu-conv1-4", "imagenet", 10_144_936, 10_144_936, 10.1),
    Parameters("imagenet", "avr-conv1-4", "imagenet", 9_372_840, 9_372_840, None),
    Parameters("imagenet", "crelu-conv1-7", "imagenet", 11_766_952, 11_766_952, None),
    Parameters("imagenet", "avr-conv1-7", "imagenet", 9_372_840, 9_372_840, None),
    Parameters("imagenet", "crelu-conv1-9", "imagenet", 16_633_000, 16_633_000, None),
    Parameters("imagenet", "avr-conv1-9", "imagenet", 9_372_840, 9_372_840, None),
    Parameters("imagenet", "crelu-all", "imagenet", 4_686_920, 4_424_776, 4.7),
    Parameters("imagenet", "crelu-conv1,4,7", "imagenet", 8_605_480, 8_605_480, 8.6),
)


@dataclass(frozen=True)
class Geometry:
    """The maps of a family, for square images of side `image`.

    `sides` has the side of the map after every convolution and max pool, in the order of the rows. `ceil` says how
    the pools divide by their stride; convolutions round down. `final` is the side of the average pool in the rows,
    None for VGG, which has none.
    """

    family: str
    image: int
    ceil: bool
    sides: tuple[int, ...]
    final: int | None


# Those that fit: the last map is as large as the average pool. VGG's is the same with pools that round down.
GEOMETRIES: dict[str, Geometry] = {
    "convpool": Geometry("convpool", 32, True, (32, 32, 16, 16, 16, 16, 8, 8, 10, 10), 10),
    "convpool-c": Geometry("convpool-c", 32, True, (32, 32, 32, 16, 16, 16, 16, 8, 6, 6, 6), 6),
    "vgg": Geometry("vgg", 32, True, (32, 32, 16, 16, 16, 8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2, 1), None),
    "imagenet": Geometry("imagenet", 224, False, (54, 54, 26, 26, 26, 12, 12, 12, 6, 6, 6, 6), 6),
}

# Those that do not: pools that round down, and the 227 pixels of Caffe's AlexNet.
MISFITS: tuple[Geometry, ...] = (
    Geometry("convpool", 32, False, (32, 32, 15, 15, 15, 15, 7, 7, 9, 9), 10),
    Geometry("imagenet", 227, False, (55, 55, 27, 27, 27, 13, 13, 13, 7, 7, 7, 7), 6),
)


def parameter_counts(family: str, key: Key, dataset: str) -> Parameters | None:
    """The counts of an Architecture, by its family and key, for cifar10, cifar100 or imagenet."""
    return next((row for row in PARAMETERS if (row.family, row.key, row.dataset) == (family, key, dataset)), None)
