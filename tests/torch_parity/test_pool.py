"""Pooling against torch.nn.functional: sizes, values, and where the gradient goes."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from minicnn import ops
from tests.torch_parity.convert import F, assert_close_to_largest, compare, integers, leaf, nchw, nhwc, normal, torch

pytestmark = pytest.mark.usefixtures("version")


class Case(NamedTuple):
    k: Any
    stride: Any
    pad: Any
    size: tuple[int, int]  # (H, W)

    def label(self):
        k, stride, pad, size = ("x".join(map(str, v)) if isinstance(v, tuple) else v for v in self)
        return f"k{k}-s{stride}-p{pad}-{size}"


CASES = [
    Case(k, stride, pad, size)
    for k in (1, 2, 3, 4, 5)
    for stride in (None, 1, 2, 3)
    for pad in range(k // 2 + 1)  # PyTorch's limit
    for size in ((1, 1), (2, 5), (7, 8))
    if k <= min(size) + 2 * pad and stride != k  # None means k
] + [
    Case((2, 3), None, 0, (5, 7)),
    Case((3, 1), 2, 0, (7, 6)),
    Case((1, 4), (3, 2), (0, 2), (5, 3)),
    Case((5, 2), (2, 1), (2, 1), (6, 5)),
    Case((3, 3), (1, 4), (1, 0), (4, 9)),
    Case((4, 4), (4, 5), (2, 1), (9, 2)),
    Case(2, 4, 0, (5, 6)),  # pixels that no window covers
    Case(2, 5, 1, (6, 9)),
    Case(17, 3, 8, (4, 11)),  # more than 256 cells a window
]
ASYMMETRIC = {
    "bottom-right": ((0, 1), (0, 1)),
    "top-left": ((1, 0), (1, 0)),
    "all-different": ((0, 2), (1, 2)),
}

cases = pytest.mark.parametrize("case", CASES, ids=Case.label)
ceil_modes = pytest.mark.parametrize("ceil", [False, True], ids=["floor", "ceil"])
countings = pytest.mark.parametrize("count_include_pad", [False, True], ids=["count-image", "count-pad"])


def compare_max(x, *, k, stride, pad, ceil):
    compare(
        lambda x: ops.max_pool2d(x, k=k, stride=stride, pad=pad, ceil=ceil),
        lambda x: nhwc(F.max_pool2d(nchw(x), k, stride, pad, ceil_mode=ceil)),
        x,
    )


@cases
@ceil_modes
@pytest.mark.parametrize("draw", [normal, integers], ids=["distinct", "ties"])
def test_max_pool2d(case, ceil, draw, dtype):
    (x,) = draw(dtype, (2, *case.size, 3))
    compare_max(x, k=case.k, stride=case.stride, pad=case.pad, ceil=ceil)


@cases
@ceil_modes
@countings
def test_avg_pool2d(case, ceil, count_include_pad, dtype):
    k, stride, pad, size = case
    (x,) = normal(dtype, (2, *size, 3))
    compare_avg(x, k=k, stride=stride, pad=pad, ceil=ceil, count_include_pad=count_include_pad)


def compare_avg(x, *, k, stride, pad, ceil, count_include_pad):
    compare(
        lambda x: ops.avg_pool2d(x, k=k, stride=stride, pad=pad, ceil=ceil, count_include_pad=count_include_pad),
        lambda x: nhwc(F.avg_pool2d(nchw(x), k, stride, pad, ceil_mode=ceil, count_include_pad=count_include_pad)),
        x,
    )


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 5, 5, 1), (1, 4, 7, 3)], ids=lambda s: "x".join(map(str, s)))
def test_one_image_one_channel(shape, dtype):
    (x,) = normal(dtype, shape)
    for ceil in (False, True):
        compare_max(x, k=3, stride=2, pad=1, ceil=ceil)


@pytest.mark.parametrize("pad", ASYMMETRIC.values(), ids=ASYMMETRIC.keys())
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_max_pool2d_asymmetric_pad(pad, stride, dtype):
    (top, bottom), (left, right) = pad

    def theirs(x):
        return nhwc(F.max_pool2d(F.pad(nchw(x), (left, right, top, bottom), value=-torch.inf), 3, stride))

    compare(lambda x: ops.max_pool2d(x, k=3, stride=stride, pad=pad), theirs, *integers(dtype, (2, 5, 6, 3)))


@pytest.mark.parametrize("pad", ASYMMETRIC.values(), ids=ASYMMETRIC.keys())
@pytest.mark.parametrize("stride", [1, 2, 3])
@countings
def test_avg_pool2d_asymmetric_pad(pad, stride, count_include_pad, dtype):
    (top, bottom), (left, right) = pad

    def padded_mean(x):
        return F.avg_pool2d(F.pad(x, (left, right, top, bottom)), 3, stride)

    def theirs(x):
        share_in_image = 1 if count_include_pad else padded_mean(torch.ones_like(nchw(x)))
        return nhwc(padded_mean(nchw(x)) / share_in_image)

    compare(
        lambda x: ops.avg_pool2d(x, k=3, stride=stride, pad=pad, count_include_pad=count_include_pad),
        theirs,
        *normal(dtype, (2, 5, 6, 3)),
    )


def test_max_pool2d_of_nan(dtype):
    (x,) = normal(dtype, (2, 6, 6, 3))
    x[:, ::3, 1::3] = np.nan  # one in each window
    compare_max(x, k=3, stride=None, pad=0, ceil=False)


@ceil_modes
def test_max_pool2d_of_minus_infinity(ceil, dtype):
    """Even then the gradient goes to a pixel of the image, not to the padding, which is -inf as well."""
    x = np.full((2, 4, 7, 3), -np.inf, dtype)
    y, vjp = ops.max_pool2d.pair(x, k=3, stride=2, pad=1, ceil=ceil)
    other = leaf(x)
    expected = nhwc(F.max_pool2d(nchw(other), 3, 2, 1, ceil_mode=ceil))
    (weights,) = normal(dtype, y.shape)
    expected.backward(torch.tensor(weights))
    assert_close_to_largest(y, expected, dtype)
    assert_close_to_largest(vjp(weights)[0], other.grad, dtype, "gx")


@pytest.mark.parametrize(("size", "stride"), [((2, 2), 2), ((1, 7), 3)], ids=["2x2-s2", "1x7-s3"])
def test_kernel_larger_than_the_image_in_ceil_mode(size, stride, dtype):
    """PyTorch computes the one window there is: 1 + (size - 3) / stride, rounded up, is 1."""
    (x,) = normal(dtype, (2, *size, 3))
    compare_max(x, k=3, stride=stride, pad=0, ceil=True)
    compare_avg(x, k=3, stride=stride, pad=0, ceil=True, count_include_pad=False)
    compare_avg(x, k=3, stride=stride, pad=0, ceil=True, count_include_pad=True)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 1, 5, 3), (3, 7, 4, 2)], ids=lambda s: "x".join(map(str, s)))
def test_global_avg_pool(shape, dtype):
    compare(
        ops.global_avg_pool,
        lambda x: F.adaptive_avg_pool2d(nchw(x), 1).flatten(1),
        *normal(dtype, shape),
    )
