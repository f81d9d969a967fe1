"""The comparison itself notices what it must notice."""

import numpy as np
import pytest

from minicnn import ops
from tests.torch_parity.convert import F, assert_close_to_largest, compare, nchw, nhwc, normal, oihw, torch

ONES = torch.ones(2, 3, dtype=torch.float64)
NAN, INF = torch.full((2,), torch.nan), torch.full((2,), torch.inf)


@pytest.mark.parametrize(("name", "off"), [("float64", 1e-10), ("float32", 1e-4)])
def test_tolerance_is_relative_to_the_largest_value(name, off):
    theirs = torch.tensor([0.001, 100.0]).to(getattr(torch, name))
    step = np.array([100 * off, 0])
    assert_close_to_largest((theirs.numpy() + 0.9 * step).astype(name), theirs, np.dtype(name))
    with pytest.raises(AssertionError, match="off by"):
        assert_close_to_largest((theirs.numpy() + 1.1 * step).astype(name), theirs, np.dtype(name))


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        pytest.param(np.ones((3, 2)), ONES, "shape", id="transposed"),
        pytest.param(np.ones(3), ONES, "shape", id="would-broadcast"),
        pytest.param(np.ones((2, 3), np.float32), ONES, "float32", id="dtype"),
        pytest.param(np.full((2, 3), np.nan), ONES, "off by nan", id="nan-only-here"),
        pytest.param(np.full((2, 3), np.inf), ONES, "off by inf", id="inf-only-here"),
        pytest.param(np.ones(2), NAN.double(), "other NaNs", id="nan-only-in-torch"),
        pytest.param(np.ones(2), INF.double(), "other NaNs", id="inf-only-in-torch"),
        pytest.param(-INF.double().numpy(), INF.double(), "other NaNs", id="sign-of-infinity"),
        pytest.param(np.full((2, 3), 1e-300), 0 * ONES, "off by", id="zero-is-zero"),
        pytest.param(None, ONES, "NoneType here", id="no-gradient-here"),
        pytest.param(np.ones((2, 3)), None, "NoneType in PyTorch", id="no-gradient-in-torch"),
    ],
)
def test_difference_is_noticed(ours, theirs, message):
    with pytest.raises(AssertionError, match=message):
        assert_close_to_largest(ours, theirs, np.dtype("float64"))


def test_same_nans_and_infinities_are_equal():
    theirs = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0])
    assert_close_to_largest(theirs.numpy().copy(), theirs, np.dtype("float32"))


def test_wrong_gradient_is_noticed(dtype):
    with pytest.raises(AssertionError, match="gradient of argument 1"):
        compare(ops.multiply, lambda a, b: a * (2 * b - b.detach()), *normal(dtype, (3,), (3,)))


def test_layouts():
    images, filters = torch.arange(24).reshape(1, 2, 3, 4), torch.arange(24).reshape(2, 3, 4, 1)
    assert nchw(images)[0, 3, 1, 2] == images[0, 1, 2, 3]
    assert torch.equal(nhwc(nchw(images)), images)
    assert oihw(filters)[0, 3, 1, 2] == filters[1, 2, 3, 0]


def test_permuting_inside_the_graph_gives_gradients_in_our_layout():
    x, w = torch.ones(1, 4, 5, 2, requires_grad=True), torch.ones(3, 3, 2, 6, requires_grad=True)
    F.conv2d(nchw(x), oihw(w)).sum().backward()
    assert (x.grad.shape, w.grad.shape) == (x.shape, w.shape)
