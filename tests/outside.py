"""Files that are not ours to distribute.  Tests that need one skip where it is missing, and say what is missing.

They are sought in the folder that MINICNN_SHARED names, or in `shared` beside the repository.
"""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("MINICNN_SHARED", Path(__file__).parents[2] / "shared"))
PAPER = SHARED / "paper" / "crelu_icml2016.tex"  # the source of the paper: arXiv 1603.05201
CIFAR100 = SHARED / "data" / "cifar-100-python.tar.xz"  # the files of the official archive, packed again
ALEXNET = SHARED / "data" / "alexnet_conv.npz"  # conv1_w ... conv5_w of an AlexNet trained on ImageNet, as OIHW
WHAT = {PAPER: "the source of arXiv 1603.05201", CIFAR100: "CIFAR-100", ALEXNET: "the filters of an AlexNet"}


def needs(path):
    reason = f"needs {WHAT[path]}, which is not ours to distribute: CONTRIBUTING.md, MINICNN_SHARED"
    return pytest.mark.skipif(not path.exists(), reason=reason)
