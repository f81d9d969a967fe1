"""Activations against PyTorch's, kinks included; PyTorch differentiates those it does not have from their formula."""

import pytest

from minicnn import ops
from tests.torch_parity.convert import F, compare, integers, normal, torch


def antirectifier(x):
    d = x - x.mean(-1, keepdim=True)
    u = d / (d * d).sum(-1, keepdim=True).clamp_min(1e-12).sqrt()
    return torch.cat((F.relu(u), F.relu(-u)), -1)


def concatenated(function, dim=-1):
    return lambda x: torch.cat((function(x), function(-x)), dim)


SAME_AT_THE_KINK = {  # name: (ours, theirs)
    "relu": (ops.relu, F.relu),
    "leaky_relu": (ops.leaky_relu, F.leaky_relu),
    "leaky_relu-0.3": (lambda x: ops.leaky_relu(x, slope=0.3), lambda x: F.leaky_relu(x, 0.3)),
    "avr": (ops.avr, torch.abs),
    "crelu": (ops.crelu, concatenated(F.relu)),
    "crelu-axis0": (lambda x: ops.crelu(x, axis=0), concatenated(F.relu, 0)),
    "crelu-axis1": (lambda x: ops.crelu(x, axis=1), concatenated(F.relu, 1)),
    "concatenated-leaky": (
        lambda x: ops.concatenated(x, activation=ops.leaky_relu, slope=0.1),
        concatenated(lambda x: F.leaky_relu(x, 0.1)),
    ),
    "concatenated-avr-axis1": (lambda x: ops.concatenated(x, activation=ops.avr, axis=1), concatenated(torch.abs, 1)),
    "soft_threshold": (ops.soft_threshold, concatenated(lambda x: F.relu(x - 0.25))),
    "soft_threshold-1": (lambda x: ops.soft_threshold(x, threshold=1.0), concatenated(lambda x: F.relu(x - 1))),
}
OTHERS = {
    "crelu_inverse": (ops.crelu_inverse, lambda y: y.chunk(2, -1)[0] - y.chunk(2, -1)[1]),
    "crelu_inverse-axis1": (lambda y: ops.crelu_inverse(y, axis=1), lambda y: y.chunk(2, 1)[0] - y.chunk(2, 1)[1]),
}
ALL = SAME_AT_THE_KINK | OTHERS

shapes = pytest.mark.parametrize("shape", [(2, 4, 3, 6), (3, 4), (1, 2)], ids=["images", "vectors", "tiny"])


@shapes
@pytest.mark.parametrize(("ours", "theirs"), ALL.values(), ids=ALL.keys())
def test_activation(ours, theirs, shape, dtype):
    compare(ours, theirs, *normal(dtype, shape))


@shapes
@pytest.mark.parametrize(("ours", "theirs"), SAME_AT_THE_KINK.values(), ids=SAME_AT_THE_KINK.keys())
def test_activation_at_its_kink(ours, theirs, shape, dtype):
    compare(ours, theirs, *integers(dtype, shape))


@pytest.mark.parametrize("shape", [(2, 4, 3, 6), (3, 4), (1, 3)], ids=["images", "vectors", "tiny"])
def test_antirectifier(shape, dtype):
    """Of at least three channels: with two, u is (1, -1) / sqrt(2) up to its sign, and the gradient is 0."""
    compare(ops.antirectifier, antirectifier, *normal(dtype, shape))
