"""Winograd's matrices, and the accuracy in single precision on the networks' shapes."""

import numpy as np
import pytest

from minicnn import ops
from minicnn.fast.cpu.winograd import A_T, B_T, G, conv2d
from minicnn.gradcheck import check_adjoint

# (image, channels, filters) of the 3x3 layers of the CIFAR networks
SHAPES = [(32, 96, 96), (32, 192, 192), (16, 96, 192), (16, 192, 96), (16, 384, 192), (8, 192, 192), (4, 512, 512)]


def test_the_algorithm_in_one_dimension():
    rng = np.random.default_rng(0)
    d, g = rng.normal(size=6), rng.normal(size=3)
    np.testing.assert_allclose(A_T @ ((G @ g) * (B_T @ d)), np.correlate(d, g, "valid"), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_error_in_single_precision_is_below_3e_5_of_the_largest_value(shape):
    size, c, f = shape
    rng = np.random.default_rng(0)
    x = np.maximum(rng.normal(size=(2, size, size, c)), 0)
    w, g = rng.normal(size=(3, 3, c, f)) * np.sqrt(2 / (9 * c)), rng.normal(size=(2, size, size, f))
    y, vjp = ops.conv2d.textbook(x, w, pad=1)
    single, single_vjp = conv2d(x.astype(np.float32), w.astype(np.float32), pad=1)
    pairs = zip((single, *single_vjp(g.astype(np.float32))[:2]), (y, *vjp(g)[:2]), strict=True)
    for ours, exact in pairs:
        assert ours.dtype == np.float32
        assert np.abs(ours - exact).max() <= 3e-5 * np.abs(exact).max()


def test_the_gradients_are_exact_adjoints():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 9, 6, 5)), rng.normal(size=(3, 3, 5, 4))
    _, vjp = conv2d(x, w, pad=1)
    check_adjoint(lambda a: conv2d(a, w, pad=1)[0], lambda r: vjp(r)[0], x)
    check_adjoint(lambda a: conv2d(x, a, pad=1)[0], lambda r: vjp(r)[1], w)


def test_gradients_that_are_not_needed_are_not_computed():
    x, w = np.ones((1, 4, 4, 2)), np.ones((3, 3, 2, 2))
    y, vjp = conv2d(x, w, pad=1)
    full = vjp(y)
    for needs in ([True, False, False], [False, True, False], [False, False, True]):
        part = vjp(y, needs)
        for i in (0, 1):
            if needs[i]:
                np.testing.assert_array_equal(part[i], full[i])
            else:
                assert part[i] is None
