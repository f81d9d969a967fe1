"""Softmax and cross entropy, for ordinary logits and for those that would overflow an unprotected exp."""

import numpy as np
import pytest

from minicnn import ops
from tests.torch_parity.convert import F, compare, integers, normal, torch

SHAPES = {"batch": (6, 10), "one-sample": (1, 4), "two-classes": (5, 2), "one-class": (3, 1)}
SOFTMAXES = {"softmax": (ops.softmax, F.softmax), "log_softmax": (ops.log_softmax, F.log_softmax)}

shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
scales = pytest.mark.parametrize("scale", [1, 30, 1000])
softmaxes = pytest.mark.parametrize(("ours", "theirs"), SOFTMAXES.values(), ids=SOFTMAXES.keys())


def compare_cross_entropy(logits, labels, smoothing=0.0):
    compare(
        lambda x: ops.softmax_cross_entropy(x, labels, smoothing=smoothing),
        lambda x: F.cross_entropy(x, torch.tensor(labels), label_smoothing=smoothing),
        logits,
    )


@shapes
@scales
@softmaxes
def test_softmax(ours, theirs, shape, scale, dtype):
    (x,) = normal(dtype, shape)
    compare(ours, lambda x: theirs(x, dim=-1), scale * x)


@softmaxes
def test_softmax_of_images(ours, theirs, dtype):
    compare(ours, lambda x: theirs(x, dim=-1), *normal(dtype, (2, 3, 4, 5)))


@shapes
@scales
def test_softmax_cross_entropy(shape, scale, dtype):
    (logits,) = normal(dtype, shape)
    (labels,) = integers(np.int64, shape[:1], least=0, most=shape[1] - 1)
    compare_cross_entropy(scale * logits, labels)
    compare_cross_entropy(scale * logits, labels, 0.2)


@pytest.mark.parametrize("label", [0, 1], ids=["finite-loss", "infinite-loss"])
def test_impossible_class(label, dtype):
    """A logit of -inf gives its class probability 0."""
    compare_cross_entropy(np.array([[1, -np.inf, 2]], dtype), np.array([label]))
