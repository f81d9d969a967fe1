"""A convolution as a matrix in four forms, its adjoint, and the approximate inverse by tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.backend import CPU
from minicnn.gradcheck import check_adjoint
from minicnn.theory.operators import Convolution, TileInverse
from tests import draw
from tests.devices import STANDIN, on_devices


@st.composite
def convolutions(drawn):
    """A Convolution of any stride and pad, and a batch of images."""
    (x, w, *_), static = draw.conv(drawn)
    return Convolution(w, x.shape[1:3], **static), x, static


@st.composite
def covering_convolutions(drawn):
    """A Convolution with pad < k, so that every window meets the image, and images."""
    kh, kw = drawn(st.integers(1, 3)), drawn(st.integers(1, 3))
    generator = draw.rng(drawn)
    w = generator.normal(size=(kh, kw, drawn(st.integers(1, 2)), drawn(st.integers(1, 5))))
    size = drawn(st.integers(kh, kh + 4)), drawn(st.integers(kw, kw + 4))
    conv = Convolution(w, size, stride=draw.sizes(drawn, 1, 3), pad=draw.padding(drawn, min(kh, kw) - 1))
    return conv, generator.normal(size=(2, *conv.input_shape))


# --- the matrix of a convolution ---


@given(convolutions())
def test_dense_sparse_and_matrix_free_are_the_convolution(drawn):
    conv, x, static = drawn
    expected = ops.conv2d(x, conv.w, **static)
    flat, rows = x.reshape(len(x), -1), expected.reshape(len(x), -1)
    operator = conv.linear_operator()
    np.testing.assert_allclose(conv.analysis(x), expected)
    np.testing.assert_allclose(conv.dense() @ flat.T, rows.T, atol=1e-12)
    np.testing.assert_allclose(conv.sparse() @ flat.T, rows.T, atol=1e-12)
    np.testing.assert_allclose(operator @ flat.T, rows.T, atol=1e-12)
    np.testing.assert_allclose(operator @ flat[0], rows[0], atol=1e-12)
    np.testing.assert_array_equal(conv.sparse().toarray() != 0, conv.dense() != 0)
    back = conv.synthesis(expected).reshape(len(x), -1)
    np.testing.assert_allclose(conv.dense().T @ rows.T, back.T, atol=1e-12)
    np.testing.assert_allclose(operator.H @ rows.T, back.T, atol=1e-12)
    np.testing.assert_allclose(operator.rmatvec(rows[0]), back[0], atol=1e-12)


@given(convolutions())
def test_synthesis_is_the_adjoint_of_analysis(drawn):
    conv, x, _ = drawn
    check_adjoint(conv.analysis, conv.synthesis, x)
    check_adjoint(conv.analysis, conv.synthesis, x[:1])  # another batch size
    check_adjoint(conv.frame_operator, conv.frame_operator, x)


@given(covering_convolutions(), st.integers(1, 3))
def test_the_tile_inverse_is_symmetric_and_positive(drawn, tile):
    conv, x = drawn
    inverse = TileInverse(conv, tile)
    r = conv.frame_operator(x)  # as in an iteration: nothing where no window looks
    a, b, (ma, mb) = r[0], r[-1], inverse(r)[[0, -1]]
    size = np.linalg.norm(a) * np.linalg.norm(mb) + np.linalg.norm(b) * np.linalg.norm(ma)
    np.testing.assert_allclose((a * mb).sum(), (b * ma).sum(), atol=1e-3 * size)  # a tile may be nearly singular
    assert (a * ma).sum() >= 0
    assert (inverse(x) != 0).all()  # every pixel is in a tile


def test_one_tile_is_the_inverse_and_smaller_ones_approximate_it():
    generator = np.random.default_rng(0)
    conv = Convolution(generator.normal(size=(3, 3, 2, 20)), (8, 7), stride=2, pad=1)
    x = generator.normal(size=(2, 8, 7, 2))
    np.testing.assert_allclose(TileInverse(conv, 8)(conv.frame_operator(x)), x, atol=1e-7)
    square = np.stack([conv.frame_operator(e[None])[0].ravel() for e in np.eye(112).reshape(-1, 8, 7, 2)])
    inverse = np.stack([TileInverse(conv, 4)(e[None])[0].ravel() for e in np.eye(112).reshape(-1, 8, 7, 2)])
    with_tiles = np.linalg.eigvals(inverse @ square).real
    assert with_tiles.max() / with_tiles.min() < np.linalg.cond(square) / 4


def test_neighbouring_tiles_overlap_by_half():
    """With a huge damping each tile is the identity / damping, so the sum counts the tiles over a pixel."""
    conv = Convolution(np.ones((1, 1, 1, 1)), 8)
    counts = 1e9 * TileInverse(conv, 4, damping=1e9)(np.ones((1, 8, 8, 1)))[0, :, :, 0]
    along = np.array([1, 1, 2, 2, 2, 2, 1, 1])  # tiles begin at 0, 2 and 4
    np.testing.assert_allclose(counts, np.outer(along, along), rtol=1e-6)


@pytest.mark.parametrize("damping", [0.0, 3.0])
def test_one_tile_inverts_the_damped_operator(damping):
    generator = np.random.default_rng(0)
    conv = Convolution(generator.normal(size=(3, 3, 2, 20)), (8, 7), stride=2, pad=1)
    x = generator.normal(size=(2, 8, 7, 2))
    damped = conv.frame_operator(x) + damping * x
    np.testing.assert_allclose(TileInverse(conv, 8, damping=damping)(damped), x, atol=1e-7)


# --- devices and bad input ---


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_device(device, dtype):
    generator, rtol = np.random.default_rng(0), 100 * np.finfo(dtype).eps
    conv = Convolution(device.put(generator.normal(size=(3, 3, 2, 12)).astype(dtype)), (6, 7), pad=1)
    image = device.put(generator.normal(size=(2, 6, 7, 2)).astype(dtype))
    flat = device.get(image).reshape(2, -1).T
    np.testing.assert_allclose(device.get(conv.dense()), conv.sparse().toarray(), rtol=rtol)
    np.testing.assert_allclose(conv.linear_operator() @ flat, conv.sparse() @ flat, rtol=rtol, atol=rtol)
    inverse = TileInverse(conv, 7)
    solved = device.get(inverse(conv.frame_operator(image)))
    np.testing.assert_allclose(solved, device.get(image), rtol=0, atol=max(1000 * rtol, 1e-8))
    np.testing.assert_allclose(inverse.linear_operator() @ flat, device.get(inverse(image)).reshape(2, -1).T, rtol=rtol)


IMAGE_FILTERS = np.ones((3, 3, 2, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Convolution(np.ones((3, 3, 2)), 5), r"Convolution: w must be filters of shape \(kh, kw, C, F\)"),
        (lambda: Convolution(np.zeros((3, 3, 2, 4)), 5), "all filters are zero"),
        (lambda: Convolution(np.full((3, 3, 2, 4), np.nan), 5), "NaN or infinite"),
        (lambda: TileInverse(Convolution(IMAGE_FILTERS, 5), 0), "tile must be at least 1"),
        (lambda: Convolution(IMAGE_FILTERS, 2), "the kernel .3. is larger than the padded image"),
        (lambda: Convolution(IMAGE_FILTERS, (5, 0)), "size must be an integer >= 1"),
        (lambda: Convolution(IMAGE_FILTERS, 5).analysis(np.ones((1, 4, 5, 2))), r"expected shape \(N, 5, 5, 2\)"),
        (lambda: Convolution(IMAGE_FILTERS, 5).synthesis(np.ones((3, 3, 4))), r"expected shape \(N, 3, 3, 4\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_half_precision_is_refused():
    with pytest.raises(TypeError, match="w has dtype float16"):
        Convolution(IMAGE_FILTERS.astype(np.float16), 5)


def test_devices_do_not_mix():
    conv = Convolution(STANDIN.put(IMAGE_FILTERS), 5)
    with pytest.raises(TypeError, match="different devices"):
        conv.analysis(CPU.put(np.ones((1, 5, 5, 2))))
