"""Reconstruction without pooling: Proposition 2.1 and Algorithm 1, window by window and all at once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.theory.frames import frame_bounds, project
from minicnn.theory.operators import Convolution, TileInverse
from minicnn.theory.reconstruction import (
    Layer,
    NotConverged,
    features,
    invert,
    least_squares,
    psnr,
    ratio,
    recover_regions,
    responses,
)
from reference.windows import normalise_pad, normalise_pair
from tests import draw
from tests.devices import on_devices

EPS = {np.float32: float(np.finfo(np.float32).eps), np.float64: float(np.finfo(np.float64).eps)}
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


# --- CReLU keeps everything ---


@both_precisions
@given(data=st.data())
def test_crelu_is_invertible_to_the_last_bit(dtype, data):
    """Denormal numbers and infinities included; -0.0 comes back as +0.0, and NaN as NaN."""
    width = 8 * np.dtype(dtype).itemsize
    x = np.array(data.draw(st.lists(st.floats(width=width), min_size=1, max_size=8)), dtype)
    y = ops.crelu(x)
    p, n = np.split(y, 2)
    back = ops.crelu_inverse(y)
    np.testing.assert_array_equal(back, x)
    number = x == x
    np.testing.assert_array_equal(np.signbit(back)[number], (np.signbit(x) & (x != 0))[number])
    np.testing.assert_array_equal(np.minimum(p, n)[number], 0)
    np.testing.assert_array_equal(np.maximum(p, n)[number], np.abs(x)[number])
    np.testing.assert_array_equal(np.isnan(p) & np.isnan(n), ~number)


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=1, max_size=8), st.floats(0, 10))
def test_crelu_keeps_norms_and_distances_up_to_a_root_of_two(pairs, a):
    x, y = np.array(pairs).T
    norm = np.linalg.norm
    assert norm(ops.crelu(x)) == pytest.approx(norm(x))
    between, after = norm(x - y), norm(ops.crelu(x) - ops.crelu(y))
    assert between / math.sqrt(2) <= after * (1 + 1e-12) + 1e-150
    assert after <= between * (1 + 1e-12)
    np.testing.assert_array_equal(ops.crelu(-x), np.roll(ops.crelu(x), len(x)))
    np.testing.assert_array_equal(ops.crelu(a * x), a * ops.crelu(x))


# --- Algorithm 1, one window ---


@st.composite
def one_window(drawn):
    """Filters of any rank for one window, images that are this window, a bias."""
    kh, kw, c, f = (drawn(st.integers(1, 3)) for _ in range(4))
    D = kh * kw * c
    rank = drawn(st.integers(1, min(D, f)))
    generator = draw.rng(drawn)
    left, right = (np.linalg.qr(generator.normal(size=(n, rank)))[0] for n in (D, f))
    w = ((left * generator.uniform(0.5, 2, rank)) @ right.T).reshape(kh, kw, c, f)
    return w, generator.normal(size=(2, kh, kw, c)), generator.normal(size=f)


@given(one_window())
def test_proposition_the_pseudoinverse_gives_the_projection_on_the_span(drawn):
    w, x, b = drawn
    W = w.reshape(-1, w.shape[3])
    found = invert(features(x, [Layer(w, b)]), [Layer(w, b)], x.shape[1:3])
    nearest = W @ np.linalg.lstsq(W, x.reshape(2, -1).T, rcond=1e-10)[0]  # (D, 2)
    np.testing.assert_allclose(found.reshape(2, -1).T, nearest, atol=1e-10)
    np.testing.assert_allclose(W.T @ (x - found).reshape(2, -1).T, 0, atol=1e-10)  # x - x' is in ker W'
    again = invert(features(found, [Layer(w, b)]), [Layer(w, b)], x.shape[1:3])
    np.testing.assert_allclose(again, found, atol=1e-10)


@given(one_window(), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_the_projection_depends_on_the_span_alone(drawn, scale, seed):
    w, x, _ = drawn
    generator = np.random.default_rng(seed)

    def recovered(w):
        return recover_regions(ops.conv2d(x, w), w, x.shape[1:3])

    expected = recovered(w)
    mixed = w @ np.linalg.qr(generator.normal(size=(w.shape[3], w.shape[3])))[0]
    for other in (w * scale, -w, generator.permutation(w, axis=3), np.concatenate((w, w[..., :1]), 3), mixed):
        np.testing.assert_allclose(recovered(other), expected, atol=1e-9)


def test_what_the_assumptions_are_for():
    """With ReLU the sign of a response is lost; with the bias left in, or fewer filters than dimensions, so is x."""
    generator = np.random.default_rng(0)
    w, b = generator.normal(size=(3, 3, 1, 12)), generator.normal(size=12)
    x = generator.normal(size=(4, 3, 3, 1))
    assert ratio(x, recover_regions(ops.conv2d(x, w), w, 3)).max() < 1e-12
    assert ratio(x, recover_regions(ops.relu(ops.conv2d(x, w)), w, 3)).min() > 0.1
    assert ratio(x, recover_regions(responses(features(x, [Layer(w, b)])), w, 3)).min() > 0.01
    few = w[..., :4]
    found = recover_regions(ops.conv2d(x, few), few, 3)
    np.testing.assert_allclose(found.reshape(4, 9).T, project(few.reshape(9, 4), x.reshape(4, 9).T), atol=1e-12)
    assert ratio(x, found).min() > 0.1


# --- whole images ---


@both_precisions
@given(data=st.data())
def test_filters_of_full_rank_give_the_image_back(dtype, data):
    """3x3x3 filters of rank 27 with a drawn condition number, CIFAR-sized images: error <= 20 eps cond(W)."""
    generator = draw.rng(data.draw)
    digits = data.draw(st.floats(0, 4 if dtype is np.float32 else 10))
    f = data.draw(st.integers(27, 64))
    left, right = (np.linalg.qr(generator.normal(size=(n, 27)))[0] for n in (27, f))
    w = ((left * 10 ** (-digits * np.linspace(0, 1, 27))) @ right.T).reshape(3, 3, 3, f).astype(dtype)
    layer = Layer(w, generator.normal(size=f).astype(dtype), 1, 1)
    x = generator.uniform(size=(1, 32, 32, 3)).astype(dtype)
    lower, upper, rank = frame_bounds(w.reshape(27, f))
    assert rank == 27
    error = ratio(x, invert(features(x, [layer]), [layer], 32))
    assert error.dtype == dtype
    assert error.max() <= 20 * EPS[dtype] * math.sqrt(upper / lower)


@both_precisions
@on_devices
def test_gaussian_filters_give_the_image_back(device, dtype):
    generator = np.random.default_rng(0)
    w, b = (generator.normal(size=shape).astype(dtype) for shape in ((3, 3, 3, 48), (48,)))
    x = generator.uniform(size=(2, 32, 32, 3)).astype(dtype)
    layer = Layer(device.put(w), device.put(b), 1, 1)
    found = invert(features(device.put(x), [layer]), [layer], 32)
    assert float(ratio(device.put(x), found).max()) < (1e-5 if dtype is np.float32 else 1e-12)


@given(st.data())
def test_overlapping_windows_are_averaged(data):
    """Against a loop over windows; pixels that no window covers stay 0."""
    (x, w, *_), static = draw.conv(data.draw)
    z = ops.conv2d(x, w, **static)
    W = w.reshape(-1, w.shape[3])
    ((top, _), (left, _)), (sh, sw) = normalise_pad(static["pad"]), normalise_pair(static["stride"])
    n, h, width, c = x.shape
    total, count = np.zeros((n, h + 20, width + 20, c)), np.zeros((n, h + 20, width + 20, c))
    for p in range(z.shape[1]):
        for q in range(z.shape[2]):
            here = (slice(None), slice(p * sh, p * sh + w.shape[0]), slice(q * sw, q * sw + w.shape[1]))
            total[here] += (z[:, p, q] @ np.linalg.pinv(W, rcond=1e-12)).reshape(n, *w.shape[:3])
            count[here] += 1
    expected = (total / np.maximum(count, 1))[:, top : top + h, left : left + width]
    np.testing.assert_allclose(recover_regions(z, w, x.shape[1:3], **static), expected, atol=1e-6)


# --- least squares ---


@given(st.data(), st.sampled_from([0.1, 1.0]))
def test_least_squares_solves_the_normal_equations(data, damping):
    """For responses that no image has, too; damping bounds the condition number of any draw."""
    (x, w, *_), static = draw.conv(data.draw)
    conv = Convolution(w, x.shape[1:3], **static)
    z = draw.rng(data.draw).normal(size=(2, *conv.output_shape))
    T = conv.dense()
    expected = np.linalg.solve(T.T @ T + damping * np.eye(T.shape[1]), T.T @ z.reshape(2, -1).T)
    found = least_squares(conv, z, damping=damping, iterations=1000, tolerance=1e-12)
    assert found.converged.all()
    np.testing.assert_allclose(found.x.reshape(2, -1).T, expected, atol=1e-8)


@pytest.mark.parametrize("filters", [1, 3, 12])
def test_least_squares_finds_the_solution_of_least_norm(filters):
    """T+ z: few filters, so many images have the same responses; and many, so most responses have no image."""
    generator = np.random.default_rng(0)
    conv = Convolution(generator.normal(size=(3, 3, 1, filters)), (8, 7), stride=2, pad=1)
    z = generator.normal(size=(2, *conv.output_shape))
    expected = np.linalg.pinv(conv.dense(), rcond=1e-10) @ z.reshape(2, -1).T
    found = least_squares(conv, z, tolerance=1e-13)
    np.testing.assert_allclose(found.x.reshape(2, -1).T, expected, atol=1e-9)


@on_devices
@pytest.mark.parametrize("damping", [0.0, 3.0])
@pytest.mark.parametrize("tiles", [False, True])
def test_least_squares_with_damping_and_tiles(device, damping, tiles):
    """Against the normal equations; a batch with a zero image in it, which must not disturb the others."""
    generator = np.random.default_rng(0)
    w, x = generator.normal(size=(3, 3, 2, 12)), generator.normal(size=(3, 7, 8, 2))
    x[1] = 0
    conv = Convolution(device.put(w), (7, 8), stride=2, pad=1)
    z = conv.analysis(device.put(x))
    inverse = TileInverse(conv, 4, damping=damping) if tiles else None
    seen = []
    found = least_squares(
        conv, z, damping=damping, inverse=inverse, tolerance=1e-13, callback=lambda step, x: seen.append(step)
    )
    T = device.get(conv.dense())
    expected = np.linalg.solve(T.T @ T + damping * np.eye(T.shape[1]), T.T @ device.get(z).reshape(3, -1).T).T
    np.testing.assert_allclose(device.get(found.x), expected.reshape(x.shape), atol=1e-8)
    assert found.converged.all()
    assert seen == list(range(1, len(found.residuals)))
    assert found.residuals.shape == found.gradients.shape == (len(seen) + 1, 3)
    np.testing.assert_array_equal(found.residuals[:, 1], 0)
    assert (np.diff(found.residuals[:, 0]) <= 1e-12).all() or damping
    if not damping:
        np.testing.assert_allclose(device.get(found.x), x, atol=1e-8)


def test_an_iteration_that_stops_early_says_so():
    generator = np.random.default_rng(0)
    conv = Convolution(generator.normal(size=(5, 5, 1, 6)), 12, stride=2)
    x = np.concatenate((generator.normal(size=(1, 12, 12, 1)), np.zeros((1, 12, 12, 1))))
    found = least_squares(conv, conv.analysis(x), iterations=3)
    assert found.converged.tolist() == [False, True]
    assert len(found.residuals) == 4


def test_nan_is_not_convergence():
    conv = Convolution(np.ones((1, 1, 1, 1)), 2)
    found = least_squares(conv, np.ones((1, 2, 2, 1)), inverse=lambda g: np.nan * g)
    assert np.isnan(found.x).all()
    assert not found.converged.any()


@both_precisions
def test_tiles_that_are_singular(dtype):
    """Fewer responses than pixels, one tile: what no filter sees must not drown the rest, in float32 either."""
    generator = np.random.default_rng(0)
    conv = Convolution(generator.normal(size=(5, 5, 3, 12)).astype(dtype), 9, stride=2)
    x = generator.normal(size=(1, 9, 9, 3)).astype(dtype)
    assert conv.shape[0] < conv.shape[1]
    found = least_squares(conv, conv.analysis(x), iterations=100, inverse=TileInverse(conv))
    assert found.converged.all()
    assert found.residuals[-1] < 10 * EPS[dtype]


@pytest.mark.filterwarnings("ignore::minicnn.theory.reconstruction.NotConverged")  # to the last bit of float32
def test_global_recovery_where_no_window_is_enough():
    """ImageNet's conv1 in small: 96 filters for windows of 363 pixels, but 2 responses for each pixel of the image."""
    generator = np.random.default_rng(0)
    layer = Layer(generator.normal(size=(11, 11, 3, 96)).astype(np.float32), None, 4)
    x = generator.uniform(size=(1, 43, 43, 3)).astype(np.float32)
    y = features(x, [layer])
    assert 0.2 < ratio(x, invert(y, [layer], 43)).item() < 0.9
    conv = Convolution(layer.w, 43, stride=4)
    tiles, plain, with_tiles = TileInverse(conv, 16), [], []
    for inverse, errors in ((None, plain), (tiles, with_tiles)):
        least_squares(
            conv,
            responses(y),
            iterations=40,
            inverse=inverse,
            callback=lambda step, found, errors=errors: errors.append(ratio(x, found).item()),
        )
    assert plain[39] < plain[4]
    assert with_tiles[39] < 1e-4 < 1e-2 < plain[39]
    found = invert(y, [layer], 43, method="global", iterations=40, inverse=tiles)
    assert ratio(x, found).item() == pytest.approx(with_tiles[39], rel=1e-3)


@pytest.mark.parametrize("method", ["region", "global"])
def test_through_several_layers(method):
    """With enough filters in every layer: as many as a window has numbers, or for all windows together as a pixel."""
    generator = np.random.default_rng(0)
    widths = (12, 100) if method == "region" else (12, 40)
    layers = [
        Layer(generator.normal(size=(3, 3, 1, widths[0])), generator.normal(size=widths[0]), 1, 1),
        Layer(generator.normal(size=(2, 2, 2 * widths[0], widths[1])), None, 1, 1),
    ]
    x = generator.uniform(size=(2, 8, 9, 1))
    y = features(x, layers)
    assert y.shape == (2, 9, 10, 2 * widths[1])
    assert ratio(x, invert(y, layers, (8, 9), method=method)).max() < 1e-9


# --- how near ---


@on_devices
def test_ratio_and_psnr(device):
    x = device.put(np.array([[[0.0, 4.0]], [[3.0, 4.0]], [[0.0, 0.0]], [[0.0, 0.0]]]))
    y = device.put(np.array([[[0.0, 4.0]], [[3.0, 3.0]], [[0.0, 0.0]], [[0.0, 1.0]]]))
    np.testing.assert_allclose(device.get(ratio(x, y)), [0, 0.2, 0, np.inf])
    np.testing.assert_allclose(
        device.get(psnr(x, y, peak=10.0)), [np.inf, 10 * math.log10(200), np.inf, 10 * math.log10(200)]
    )
    np.testing.assert_allclose(device.get(psnr(x, y))[1], 10 * math.log10(2))  # the range is 1


# --- bad input ---

FILTERS = np.ones((3, 3, 2, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recover_regions(np.ones((1, 3, 3, 5)), FILTERS, 5), r"give responses of shape \(N, 3, 3, 4\), got"),
        (lambda: recover_regions(np.ones((3, 3, 4)), FILTERS, 5), r"z must be responses of shape \(N, OH, OW, F\)"),
        (lambda: recover_regions(np.ones((1, 3, 3, 4)), 0 * FILTERS, 5), "recover_regions: all filters are zero"),
        (lambda: recover_regions(np.ones((1, 3, 3, 4)), np.nan * FILTERS, 5), "NaN or infinite"),
        (lambda: recover_regions(np.full((1, 3, 3, 4), np.inf), FILTERS, 5), "z holds NaN or infinite"),
        (lambda: recover_regions(np.ones((1, 3, 3, 4)), FILTERS, 2), "the kernel"),
        (lambda: least_squares(Convolution(FILTERS, 5), np.ones((1, 3, 3, 5))), r"expected shape \(N, 3, 3, 4\)"),
        (lambda: least_squares(Convolution(FILTERS, 5), np.full((1, 3, 3, 4), np.nan)), "least_squares: z holds NaN"),
        (lambda: least_squares(Convolution(FILTERS, 5), np.ones((1, 3, 3, 4)), damping=-1.0), "damping must be"),
        (lambda: invert(np.ones((1, 3, 3, 8)), [Layer(FILTERS)], 5, iterations=9), "'region' has no options, got iter"),
        (lambda: invert(np.ones((1, 3, 3, 8)), [Layer(FILTERS)], 5, method="pinv"), "method must be 'region' or"),
        (lambda: invert(np.ones((1, 3, 3, 7)), [Layer(FILTERS)], 5), "crelu_inverse: axis -1 .* so be even"),
        (lambda: invert(np.ones((1, 3, 3, 8)), [Layer(FILTERS)], 6), r"give responses of shape \(N, 4, 4, 4\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rank_deficient_filters_give_the_projection():
    """Documented, no error: filters that are all multiples of one see one direction."""
    x = np.random.default_rng(0).normal(size=(1, 3, 3, 2))
    found = recover_regions(ops.conv2d(x, FILTERS), FILTERS, 3)
    np.testing.assert_allclose(found, np.full_like(x, x.mean()), atol=1e-12)


@pytest.mark.parametrize("conditioning", [1, 0.3])
@on_devices
def test_responses_of_no_image_do_not_make_the_iteration_diverge(conditioning, device):
    """The residual stays large, and the gradient comes down to its rounding error only; going on, x grew to 1e14."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(3, 3, 3, 1)) + conditioning * rng.normal(size=(3, 3, 3, 12))
    z = rng.normal(size=(2, 16, 16, 12))
    exact = least_squares(Convolution(w, 16, pad=1), z, iterations=3000, tolerance=1e-11).x
    single = [device.put(a.astype(np.float32)) for a in (w, z)]
    found = least_squares(Convolution(single[0], 16, pad=1), single[1], iterations=400)
    np.testing.assert_allclose(device.get(found.x), exact, atol=1e-5 * np.abs(exact).max())
    assert found.converged.all()


def test_what_has_not_converged_is_said():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 8, 8, 1)), rng.normal(size=(3, 3, 1, 9))
    y = features(x, [Layer(w, None)])
    np.testing.assert_allclose(invert(y, [Layer(w, None)], 8, method="global"), x, atol=1e-6)
    with pytest.warns(NotConverged, match="ended after 2 steps without converging, for 2 of 2 images"):
        invert(y, [Layer(w, None)], 8, method="global", iterations=2)


def test_nan_is_no_decibel():
    x = np.ones((1, 2, 2, 1))
    assert np.isnan(psnr(x, np.nan * x, peak=1.0)).all()
    assert np.isnan(ratio(x, np.nan * x)).all()
