"""Winograd's matrices, and the accuracy in single precision on the networks' shapes."""

import numpy as np
import pytest

from minicnn import ops, parallel
from minicnn.fast.cpu import winograd
from minicnn.fast.fused import conv2d_activated
from minicnn.fast.native import winograd as native
from minicnn.fast.winograd import ALGORITHMS, B_T
from minicnn.gradcheck import check_adjoint
from minicnn.models import convpool, vgg
from minicnn.nn import Conv2d, describe
from tests.fast.native.ways import COMPILER, needs_compiler

every_version = pytest.mark.parametrize(
    "conv2d", [pytest.param(winograd.conv2d, id="NumPy"), pytest.param(native.conv2d, id="C", marks=needs_compiler)]
)

NETWORKS = [
    convpool("relu"),
    convpool("relu", "double"),
    convpool("crelu"),
    convpool("crelu", "half"),
    vgg("relu", ()),
    vgg("crelu", (1, 3, 5)),
]


def convolutions(model):
    """(size, kernel shape, pad) of the convolutions of a CIFAR network."""
    size = 32
    for (_, layer), row in zip(model.children(), describe(model, (32, 32, 3)).rows, strict=True):
        if isinstance(layer, Conv2d):
            yield size, layer.weight.shape, layer.pad
        size = row.output[0]


SHAPES = sorted({shape for model in NETWORKS for shape in convolutions(model)} | {(28, (5, 5, 96, 256), 2)})


@pytest.mark.parametrize("taps", [3, 5])
def test_the_algorithm_in_one_dimension(taps):
    rng = np.random.default_rng(0)
    d, g, algorithm = rng.normal(size=6), rng.normal(size=taps), ALGORITHMS[taps]
    y = algorithm.output_matrix @ ((algorithm.filter_matrix @ g) * (B_T @ d))
    np.testing.assert_allclose(y, np.correlate(d, g, "valid"), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_error_in_single_precision_is_below_3e_5_of_the_largest_value(monkeypatch, shape):
    """On all convolutions of all CIFAR networks, whichever version is chosen; against the textbook in float64."""
    size, (kh, kw, c, f), pad = shape
    rng = np.random.default_rng(0)
    x, w = np.maximum(rng.normal(size=(1, size, size, c)), 0), rng.normal(size=(kh, kw, c, f)) * np.sqrt(2 / (9 * c))
    y, vjp = ops.conv2d.textbook(x, w, pad=pad)
    g = rng.normal(size=y.shape)
    exact = (y, *vjp(g)[:2])
    x, w, g = (a.astype(np.float32) for a in (x, w, g))
    for native_too in "01" if COMPILER else "0":
        monkeypatch.setenv("MINICNN_NATIVE", native_too)
        single, single_vjp = ops.conv2d.pair(x, w, pad=pad)
        for ours, theirs in zip((single, *single_vjp(g)[:2]), exact, strict=True):
            assert ours.dtype == np.float32
            assert np.abs(ours - theirs).max() <= 3e-5 * np.abs(theirs).max()
    both, _ = conv2d_activated.pair(x, w, pad=pad, activation="crelu")
    np.testing.assert_allclose(both, ops.crelu.textbook(single)[0], atol=1e-6 * np.abs(single).max())


@every_version
def test_the_gradients_are_exact_adjoints(conv2d):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 9, 6, 5)), rng.normal(size=(3, 3, 5, 4))
    _, vjp = conv2d(x, w, pad=1)
    check_adjoint(lambda a: conv2d(a, w, pad=1)[0], lambda r: vjp(r)[0], x)
    check_adjoint(lambda a: conv2d(x, a, pad=1)[0], lambda r: vjp(r)[1], w)


@every_version
def test_gradients_that_are_not_needed_are_not_computed(conv2d):
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


@every_version
def test_one_precision_after_the_other(conv2d):
    """Scratch memory of one dtype, its zeros around the image included, is not taken for that of another."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 8, 8, 24)), rng.normal(size=(3, 3, 24, 24))
    expected, _ = conv2d(x, w, pad=1)
    single, _ = conv2d(x.astype(np.float32), w.astype(np.float32), pad=1)
    np.testing.assert_allclose(single, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(conv2d(x, w, pad=1)[0], expected)


@every_version
def test_images_of_many_sizes_take_no_more_scratch_than_the_largest(monkeypatch, conv2d):
    rng = np.random.default_rng(0)
    monkeypatch.setenv("MINICNN_THREADS", "1")
    w = rng.normal(size=(3, 3, 6, 6))

    def used():
        return {name: block.size for name, block in parallel._here.scratch.items()}

    for size in (41, *range(9, 41, 5)):  # 41 is no whole number of tiles
        y, vjp = conv2d(rng.normal(size=(2, size, size, 6)), w, pad=1)
        vjp(y)
        if size == 41:
            largest = used()
    assert used() == largest


@every_version
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_spoils_its_tiles_and_no_others(conv2d):
    """docs/conventions.md says so: the loops would spoil the 9 pixels around it."""
    x, w = np.ones((1, 12, 12, 8)), np.ones((3, 3, 8, 8))
    x[0, 5, 5, 0] = np.inf
    spoilt = ~np.isfinite(conv2d(x, w, pad=1)[0]).all(axis=3)[0]
    expected = ~np.isfinite(ops.conv2d.textbook(x, w, pad=1)[0]).all(axis=3)[0]
    assert expected.sum() == 9
    assert (spoilt >= expected).all()
    tiles = spoilt.reshape(3, 4, 3, 4).any(axis=(1, 3))
    assert spoilt.sum() == 16 * tiles.sum() < 144
