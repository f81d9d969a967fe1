"""The results of the CReLU paper (ICML 2016), transcribed: Tables 1 to 6, and S1 of the supplement.

Numbered as LaTeX numbers them, in the order of the source: 1 CIFAR, 2 CIFAR with VGG, 3 others on CIFAR, 4 ImageNet,
5 others on ImageNet, 6 correlations. Every table is a tuple of rows. `label` is what the paper prints (with a hyphen
for its dashes), the fields beside it are for looking up, and `*_error` is the number after a plus-minus sign. Error
rates are in percent. E26 and the like are entries of docs/errata.md.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CifarRow:
    """ConvPool-CNN-C on one data set: `average_error` is the standard error of the mean over ten folds.

    `train` and `single` are the training and test error of one network trained on all of the training set, `vote` is
    the test error of the ten networks together.
    """

    label: str
    act: str
    width: str
    dataset: str
    train: float
    single: float
    average: float
    average_error: float
    vote: float
    params_millions: float


# The paper prints the two data sets side by side, with one column of parameter counts (E6: see sizes.py).
TABLE_1 = (
    CifarRow("Baseline", "relu", "base", "cifar10", 1.09, 9.17, 10.20, 0.09, 7.55, 1.4),
    CifarRow("+ (double)", "relu", "double", "cifar10", 0.47, 8.65, 9.87, 0.09, 7.28, 5.6),
    CifarRow("AVR", "avr", "base", "cifar10", 4.10, 8.32, 10.26, 0.10, 7.76, 1.4),
    CifarRow("CReLU", "crelu", "base", "cifar10", 4.23, 8.43, 9.39, 0.11, 7.09, 2.8),
    CifarRow("+ (half)", "crelu", "half", "cifar10", 4.73, 8.37, 9.44, 0.09, 7.09, 0.7),
    CifarRow("Baseline", "relu", "base", "cifar100", 13.68, 36.30, 38.52, 0.12, 31.26, 1.4),
    CifarRow("+ (double)", "relu", "double", "cifar100", 6.03, 34.77, 36.73, 0.15, 28.34, 5.6),
    CifarRow("AVR", "avr", "base", "cifar100", 19.35, 35.00, 37.24, 0.20, 29.77, 1.4),
    CifarRow("CReLU", "crelu", "base", "cifar100", 14.25, 31.48, 33.76, 0.12, 27.60, 2.8),
    CifarRow("+ (half)", "crelu", "half", "cifar100", 21.01, 33.68, 36.20, 0.18, 29.93, 0.7),
)


@dataclass(frozen=True)
class VggRow:
    """The deeper network on one data set; `at` are the convolutions that CReLU follows, with half the filters."""

    label: str
    at: tuple[int, ...]
    dataset: str
    single: float
    average: float
    average_error: float
    vote: float


TABLE_2 = (
    VggRow("VGG", (), "cifar10", 6.35, 6.90, 0.03, 5.43),
    VggRow("(conv1)", (1,), "cifar10", 6.18, 6.45, 0.05, 5.22),
    VggRow("(conv1,3)", (1, 3), "cifar10", 5.94, 6.45, 0.02, 5.09),
    VggRow("(conv1,3,5)", (1, 3, 5), "cifar10", 6.06, 6.45, 0.07, 5.16),
    VggRow("VGG", (), "cifar100", 28.99, 30.27, 0.09, 26.85),
    VggRow("(conv1)", (1,), "cifar100", 27.29, 28.43, 0.11, 24.67),
    VggRow("(conv1,3)", (1, 3), "cifar100", 26.52, 27.79, 0.08, 23.93),
    VggRow("(conv1,3,5)", (1, 3, 5), "cifar100", 26.16, 27.67, 0.07, 23.66),
)


@dataclass(frozen=True)
class CifarComparisonRow:
    """A method on CIFAR-10 and CIFAR-100; `label` is the key of the citation where the paper prints a citation."""

    label: str
    model: str
    cifar10: float
    cifar100: float


# What other people's methods in Tables 3 and 5 are called; the paper prints citations, or names of its own.
METHODS = {
    "rippel2015": "Spectral pooling (Rippel et al., 2015)",
    "snoek2015": "Scalable Bayesian optimisation (Snoek et al., 2015)",
    "liang2015": "Recurrent CNN (Liang and Hu, 2015)",
    "lee2015": "Generalised pooling (Lee et al., 2015)",
    "srivastava2015": "Highway network (Srivastava et al., 2015)",
    "alexnet": "AlexNet (Krizhevsky et al., 2012)",
    "friednet": "Deep Fried Convnets (Yang et al., 2015)",
    "prunednet": "Pruned AlexNet (Han et al., 2015)",
    "baseline": "All-CNN-B (Springenberg et al., 2014)",
}


# E26: the two VGG rows are votes of ten networks, the others are single networks. The single networks of VGG + CReLU
# are at 5.94 and 26.16. Its two numbers belong to two models, (conv1,3) and (conv1,3,5).
TABLE_3 = (
    CifarComparisonRow("rippel2015spectral", "rippel2015", 8.60, 31.60),
    CifarComparisonRow("snoek2015scalable", "snoek2015", 6.37, 27.40),
    CifarComparisonRow("liang2015recurrent", "liang2015", 7.09, 31.75),
    CifarComparisonRow("lee2015generalizing", "lee2015", 6.05, 32.37),
    CifarComparisonRow("srivastava2015training", "srivastava2015", 7.60, 32.24),
    CifarComparisonRow("VGG", "vgg", 5.43, 26.85),
    CifarComparisonRow("VGG + CReLU", "vgg-crelu", 5.09, 23.66),
)


@dataclass(frozen=True)
class ImagenetRow:
    """Validation errors on ImageNet, of the centre crop and (`_ten`) of the mean score of ten crops."""

    label: str
    model: str
    top1: float
    top5: float
    top1_ten: float
    top5_ten: float


# E30: the text calls conv1-4 the best, which holds for one crop; with ten crops conv1,4,7 is.
# E29: (all) and (conv1,4,7) were trained differently from the rest (training.py).
TABLE_4 = (
    ImagenetRow("Baseline", "baseline", 41.81, 19.74, 38.03, 17.17),
    ImagenetRow("AVR (conv1-4)", "avr-conv1-4", 41.12, 19.25, 37.32, 16.49),
    ImagenetRow("AVR (conv1-7)", "avr-conv1-7", 42.36, 20.05, 38.21, 17.42),
    ImagenetRow("AVR (conv1-9)", "avr-conv1-9", 43.33, 21.05, 39.70, 18.39),
    ImagenetRow("CReLU (conv1,4,7)", "crelu-conv1,4,7", 40.45, 18.58, 35.70, 15.32),
    ImagenetRow("CReLU (conv1-4)", "crelu-conv1-4", 39.82, 18.28, 36.20, 15.72),
    ImagenetRow("CReLU (conv1-7)", "crelu-conv1-7", 39.97, 18.33, 36.53, 16.01),
    ImagenetRow("CReLU (conv1-9)", "crelu-conv1-9", 40.15, 18.58, 36.50, 16.14),
    ImagenetRow("CReLU (all)", "crelu-all", 40.93, 19.39, 37.28, 16.72),
)


@dataclass(frozen=True)
class ImagenetComparisonRow:
    """A method on ImageNet, None where the paper prints a dash; `model` is the key of Table 4 where that has it."""

    label: str
    model: str
    top1: float
    top5: float | None
    top1_ten: float | None
    top5_ten: float | None
    params_millions: float


# E5: the text says 4.6M where this table says 4.7M for (all).
TABLE_5 = (
    ImagenetComparisonRow("AlexNet", "alexnet", 42.6, 19.6, 40.7, 18.2, 61.0),
    ImagenetComparisonRow("FriedNet", "friednet", 41.93, None, None, None, 32.8),
    ImagenetComparisonRow("PrunedNet", "prunednet", 42.77, 19.67, None, None, 6.7),
    ImagenetComparisonRow("AllConvB", "baseline", 41.81, 19.74, 38.03, 17.17, 9.4),
    ImagenetComparisonRow("CReLU (all)", "crelu-all", 40.93, 19.39, 37.28, 16.72, 4.7),
    ImagenetComparisonRow("(conv1,4,7)", "crelu-conv1,4,7", 40.45, 18.58, 35.70, 15.32, 8.6),
    ImagenetComparisonRow("(conv1-4)", "crelu-conv1-4", 39.82, 18.28, 36.20, 15.72, 10.1),
)


@dataclass(frozen=True)
class CorrelationRow:
    """Mean correlation of the outgoing weights of the two phases of a filter (pair), and of others (non-pair).

    The model is crelu-conv1-7 on ImageNet; `label` is the layer. The paper does not say what follows its plus-minus
    sign.
    """

    label: str
    pair: float
    pair_error: float
    non_pair: float
    non_pair_error: float


# E27: "marginally higher" is a factor of 3.9 at conv3; the two equal numbers at conv1 look like a slip.
TABLE_6 = (
    CorrelationRow("conv1", 0.372, 0.372, 0.165, 0.154),
    CorrelationRow("conv2", 0.180, 0.149, 0.157, 0.137),
    CorrelationRow("conv3", 0.462, 0.249, 0.120, 0.120),
    CorrelationRow("conv4", 0.175, 0.146, 0.119, 0.100),
    CorrelationRow("conv5", 0.206, 0.136, 0.105, 0.093),
    CorrelationRow("conv6", 0.256, 0.124, 0.086, 0.080),
    CorrelationRow("conv7", 0.131, 0.122, 0.080, 0.070),
)


@dataclass(frozen=True)
class ReconstructionRow:
    """Mean of ||x - x'|| / ||x||, x' reconstructed after CReLU and max pooling, with learned and random filters.

    The model is ("crelu", "half"); `label` is the layer. The paper does not say what follows its plus-minus sign.
    """

    label: str
    dataset: str
    learned: float
    learned_error: float
    random: float
    random_error: float


# E24: the text's "random filters only recover 1%" is 2% of the energy, as 0.92 is 15% of it: 1 - ratio^2.
TABLE_S1 = (
    ReconstructionRow("conv2", "cifar10", 0.92, 0.0002, 0.99, 0.00005),
    ReconstructionRow("conv5", "cifar10", 0.96, 0.0003, 0.99, 0.00005),
    ReconstructionRow("conv2", "cifar100", 0.93, 0.0002, 0.99, 0.00005),
    ReconstructionRow("conv5", "cifar100", 0.96, 0.0001, 0.99, 0.00005),
)


def cifar_result(act: str, width: str, dataset: str) -> CifarRow | None:
    """The row of Table 1: act relu, avr or crelu, width base, double or half, dataset cifar10 or cifar100."""
    return next((row for row in TABLE_1 if (row.act, row.width, row.dataset) == (act, width, dataset)), None)


def vgg_result(at: tuple[int, ...], dataset: str) -> VggRow | None:
    """The row of Table 2: at (), (1,), (1, 3) or (1, 3, 5), dataset cifar10 or cifar100."""
    return next((row for row in TABLE_2 if (row.at, row.dataset) == (at, dataset)), None)


def imagenet_result(model: str) -> ImagenetRow | None:
    """The row of Table 4: model "baseline", "crelu-conv1-4", ..., a key of architectures.IMAGENET."""
    return next((row for row in TABLE_4 if row.model == model), None)
