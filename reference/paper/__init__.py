"""The tables of the CReLU paper as plain data: Shang, Sohn, Almeida, Lee, ICML 2016 (arXiv 1603.05201).

results.py        what the paper measured: Tables 1 to 6 and S1
tables.py         its architectures as printed: Tables S2 to S13, row by row
architectures.py  the same with their errors corrected, each correction an entry of CORRECTIONS
sizes.py          how many parameters these networks have, and how large their maps are
training.py       how the ImageNet networks were trained

Numbers are the paper's unless a docstring says "ours"; `tests/test_paper.py` compares them with the paper's source.
"""

from reference.paper.architectures import (
    ARCHITECTURES,
    CONVPOOL,
    CONVPOOL_C,
    CORRECTIONS,
    IMAGENET,
    VGG,
    Architecture,
    Correction,
    Key,
)
from reference.paper.results import (
    METHODS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_S1,
    CifarComparisonRow,
    CifarRow,
    CorrelationRow,
    ImagenetComparisonRow,
    ImagenetRow,
    ReconstructionRow,
    VggRow,
    cifar_result,
    imagenet_result,
    vgg_result,
)
from reference.paper.sizes import GEOMETRIES, MISFITS, PARAMETERS, Geometry, Parameters, parameter_counts
from reference.paper.tables import Layer
from reference.paper.training import ADAM, SGD, Phase, Recipe, imagenet_recipe

__all__ = [
    "ADAM",
    "ARCHITECTURES",
    "CONVPOOL",
    "CONVPOOL_C",
    "CORRECTIONS",
    "GEOMETRIES",
    "IMAGENET",
    "METHODS",
    "MISFITS",
    "PARAMETERS",
    "SGD",
    "TABLE_1",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "TABLE_5",
    "TABLE_6",
    "TABLE_S1",
    "VGG",
    "Architecture",
    "CifarComparisonRow",
    "CifarRow",
    "Correction",
    "CorrelationRow",
    "Geometry",
    "ImagenetComparisonRow",
    "ImagenetRow",
    "Key",
    "Layer",
    "Parameters",
    "Phase",
    "Recipe",
    "ReconstructionRow",
    "VggRow",
    "cifar_result",
    "imagenet_recipe",
    "imagenet_result",
    "parameter_counts",
    "vgg_result",
]
