"""Reconstruction with max pooling, in every region of feature maps: against loops, on every device."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.theory.pooled_maps import PooledConvolution, PooledMaps
from minicnn.theory.pooling import pool_signal, reconstruct_signal
from reference.windows import normalise_pad, normalise_pair
from tests import draw
from tests.devices import on_devices
from tests.theory.test_pooling import signal_ratio, signals


@st.composite
def pooled_convolutions(drawn):
    """Any geometry, small integers (ties, dependent and zero filters, dead regions), with and without bias."""
    kh, kw, c, f = (drawn(st.integers(1, n)) for n in (3, 3, 2, 4))
    k = draw.sizes(drawn, 1, 3)
    most_pad = min(normalise_pair(k)) - 1
    generator = draw.rng(drawn)
    w = generator.integers(-2, 3, (kh, kw, c, f)).astype(float)
    w[0, 0, 0, 0] = 1
    b = generator.integers(-3, 4, f).astype(float) if drawn(st.booleans()) else None
    conv = {"stride": draw.sizes(drawn, 1, 2), "pad": draw.padding(drawn, 2)}
    pool = {"k": k, "pool_stride": draw.sizes(drawn, 1, 3), "pool_pad": draw.padding(drawn, most_pad)}
    (sh, sw), (ph, pw) = normalise_pair(conv["stride"]), normalise_pair(k)
    size = (kh + sh * (ph - 1) + drawn(st.integers(0, 4)), kw + sw * (pw - 1) + drawn(st.integers(0, 4)))
    x = generator.integers(-2, 3, (2, *size, c)).astype(float)
    return PooledConvolution(w, b, **conv, **pool, ceil=drawn(st.booleans())), x, conv, pool


def naive_regions(layer, x, conv, pool):
    """Yields region, patch, W^, z: loops over regions, filters and cells, from the responses of conv2d."""
    linear = ops.conv2d(x, layer.w, **conv)  # without the bias
    y = linear if layer.b is None else linear + layer.b
    (kh, kw, c, f), (ph, pw) = layer.w.shape, layer.k
    (sh, sw), (psh, psw) = normalise_pair(conv["stride"]), normalise_pair(pool["pool_stride"])
    ((top, _), (left, _)), ((ptop, _), (pleft, _)) = normalise_pad(conv["pad"]), normalise_pad(pool["pool_pad"])
    n, oh, ow, _ = y.shape
    far = 40  # a large canvas: pixels around, then only those that some response looks at
    canvas = np.zeros((n, x.shape[1] + 2 * far, x.shape[2] + 2 * far, c))
    canvas[:, far : far + x.shape[1], far : far + x.shape[2]] = x
    canvas[:, far - top + (oh - 1) * sh + kh :] = 0
    canvas[:, :, far - left + (ow - 1) * sw + kw :] = 0
    for image, P, Q in np.ndindex(layer.pool(x).values.shape[:3]):
        p0, q0 = P * psh - ptop, Q * psw - pleft  # the first response of the window
        i0, j0 = far - top + p0 * sh, far - left + q0 * sw
        height, width = (ph - 1) * sh + kh, (pw - 1) * sw + kw
        patch = canvas[image, i0 : i0 + height, j0 : j0 + width]
        columns, z = [], []
        for phase in (1, -1):
            for filter_ in range(f):
                cells = [(i, j) for i, j in np.ndindex(ph, pw) if 0 <= p0 + i < oh and 0 <= q0 + j < ow]
                values = [phase * y[image, p0 + i, q0 + j, filter_] for i, j in cells]
                if max(values) > 0:
                    i, j = cells[values.index(max(values))]
                    column = np.zeros((height, width, c))
                    column[i * sh : i * sh + kh, j * sw : j * sw + kw] = layer.w[..., filter_]
                    columns.append(column.ravel())
                    z.append(linear[image, p0 + i, q0 + j, filter_])
        yield (image, P, Q), patch, np.reshape(columns, (-1, patch.size)).T, np.array(z)


@given(pooled_convolutions())
def test_every_region_at_once_is_least_squares_in_each(drawn):
    layer, x, conv, pool = drawn
    ratios, patches, pooled = layer.ratios(x), layer.patches(x), layer.pool(x)
    for region, patch, W_hat, z in naive_regions(layer, x, conv, pool):
        np.testing.assert_array_equal(patches[region], patch)
        np.testing.assert_allclose(W_hat.T @ patch.ravel(), z, atol=1e-12)
        nearest = (W_hat @ np.linalg.lstsq(W_hat, patch.ravel(), rcond=1e-10)[0]).reshape(patch.shape)
        np.testing.assert_allclose(layer.reconstruct(pooled, [region])[0], nearest, atol=1e-8)
        square = (patch**2).sum()
        expected = ((patch - nearest) ** 2).sum() / square if square else 0
        assert ratios[region] ** 2 == pytest.approx(expected, abs=1e-7)


@given(signals(), st.integers(0, 2**32 - 1))
def test_a_signal_is_a_map_of_one_region(drawn, seed):
    filters, c, D, stride = drawn
    x = np.random.default_rng(seed).normal(size=D)
    layer = PooledConvolution(
        filters.reshape(1, -1, 1, filters.shape[1]), stride=(1, stride), k=(1, c.shape[1]), pool_stride=1
    )
    image = x.reshape(1, 1, D, 1)
    assert layer.ratios(image).item() ** 2 == pytest.approx(signal_ratio(filters, x, stride) ** 2, abs=1e-9)
    signal = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    np.testing.assert_allclose(layer.reconstruct(layer.pool(image), [(0, 0, 0)]).ravel(), signal, atol=1e-9)


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_on_every_device(device, dtype):
    generator = np.random.default_rng(0)
    w, b = generator.normal(size=(3, 3, 4, 6)).astype(dtype), generator.normal(size=6).astype(dtype)
    x = generator.normal(size=(3, 9, 8, 4)).astype(dtype)
    x[0, :6] = 0
    here, there = (PooledConvolution(put(w), put(b), pad=1) for put in (np.asarray, device.put))
    ratios = device.get(there.ratios(device.put(x)))
    assert ratios.dtype == np.float64
    assert ratios.shape == (3, 4, 4)
    assert (ratios[0, 0] == 0).all()  # nothing there, nothing lost
    np.testing.assert_allclose(ratios, here.ratios(x), atol=1e-9)
    pooled = there.pool(device.put(x))
    assert pooled.values.dtype == dtype
    found = device.get(there.reconstruct(pooled, [(1, 2, 3), (2, 0, 0)]))
    for patch, x_prime, region in zip(
        here.patches(x)[[1, 2], [2, 0], [3, 0]], found, [(1, 2, 3), (2, 0, 0)], strict=True
    ):
        expected = np.linalg.norm(patch - x_prime) / np.linalg.norm(patch)
        assert ratios[region] == pytest.approx(expected, abs=1e-5 if dtype is np.float32 else 1e-9)


def test_maps_of_signals_signals_of_maps():
    """Scale, order, sign and copies of filters do not matter; more filters never hurt; an empty batch is empty."""
    generator = np.random.default_rng(0)
    w, x = generator.normal(size=(3, 3, 5, 8)), generator.normal(size=(2, 8, 8, 5))
    ratios = PooledConvolution(w, pad=1).ratios(x)
    for other in (w * 3, -w, w[..., ::-1], np.concatenate((w, w), axis=3), np.concatenate((w, 0 * w), axis=3)):
        np.testing.assert_allclose(PooledConvolution(other, pad=1).ratios(x), ratios, atol=1e-9)
    np.testing.assert_allclose(PooledConvolution(w, pad=1).ratios(7 * x), ratios, atol=1e-9)
    assert (PooledConvolution(w[..., :4], pad=1).ratios(x) >= ratios - 1e-12).all()
    assert PooledConvolution(w, pad=1).ratios(x[:0]).shape == (0, 4, 4)


def test_many_regions_are_each_as_if_alone(monkeypatch):
    """Pieces of the list of regions are worked on side by side."""
    monkeypatch.setattr("minicnn.parallel.HOST_PIECE_BYTES", 1)
    rng = np.random.default_rng(0)
    layer, x = PooledConvolution(rng.normal(size=(3, 3, 2, 4))), rng.normal(size=(2, 9, 9, 2))
    pooled = layer.pool(x)
    regions = list(np.ndindex(pooled.values.shape[:3]))
    assert len(regions) > 8
    alone = [layer.reconstruct(pooled, [region])[0] for region in regions]
    np.testing.assert_array_equal(layer.reconstruct(pooled, regions), alone)


def test_one_region_by_hand():
    """w = (1) on four pixels, pooled together: each phase that fires gives its largest pixel back."""
    w, x = np.ones((1, 1, 1, 1)), np.array([3.0, 1.0, 0.0, -2.0]).reshape(1, 2, 2, 1)
    layer = PooledConvolution(w, k=2)
    np.testing.assert_allclose(layer.ratios(x), math.sqrt(1 / 14))  # both phases: 3 and -2 are recovered
    np.testing.assert_allclose(layer.ratios(abs(x)), math.sqrt(5 / 14))  # the negative phase is off: 3 alone
    blind = PooledConvolution(w[:, :, [0, 0]] * np.array([[1.0], [-1.0]]), k=2)  # no response to equal channels
    assert blind.ratios(np.ones((1, 2, 2, 2))).item() == 1
    np.testing.assert_array_equal(blind.reconstruct(blind.pool(np.ones((1, 2, 2, 2))), [(0, 0, 0)]), 0)


def test_the_border_counts_as_zeros():
    """A 1x1 image, a 3x3 filter with pad 1: the patch is the image and a ring of zeros, the filter is not clipped."""
    layer = PooledConvolution(np.ones((3, 3, 1, 1)), pad=1, k=1, pool_stride=1)
    x = np.full((1, 1, 1, 1), 2.0)
    np.testing.assert_array_equal(layer.patches(x)[0, 0, 0, :, :, 0], [[0, 0, 0], [0, 2, 0], [0, 0, 0]])
    assert layer.ratios(x).item() == pytest.approx(math.sqrt(8 / 9))
    np.testing.assert_allclose(layer.reconstruct(layer.pool(x), [(0, 0, 0)]), np.full((1, 3, 3, 1), 2 / 9))


@given(seed=st.integers(0, 2**32 - 1), filters=st.integers(1, 6))
def test_bounds_of_regions(seed, filters):
    """ratio <= sqrt(1 - share l/(mu L)) <= the unconditional bound; the ratio and the share against least squares."""
    generator = np.random.default_rng(seed)
    w, x = generator.normal(size=(2, 2, 2, filters)), generator.normal(size=(1, 5, 5, 2))
    layer = PooledConvolution(w, k=2)
    regions = [(0, 0, 0), (0, 1, 1)]
    for region, found in zip(regions, layer.bounds(x, regions), strict=True):
        assert found.ratio == pytest.approx(layer.ratios(x)[region], abs=1e-5)
        assert found.ratio <= found.shared * (1 + 1e-9) <= found.unconditional * (1 + 1e-8) <= 1 + 1e-8
        assert 1 <= found.mu <= 4
        patch = layer.patches(x)[region].ravel()
        columns = layer.shifts.reshape(len(patch), -1)
        seen = columns @ np.linalg.lstsq(columns, patch, rcond=1e-10)[0]
        assert found.share == pytest.approx((seen @ seen) / (patch @ patch))


def test_bounds_by_hand():
    """w = (1) on four pixels that are 1: all shifts share one pooled value, mu = 4, and the bound is attained."""
    layer = PooledConvolution(np.ones((1, 1, 1, 1)), k=2)
    (found,) = layer.bounds(np.ones((1, 2, 2, 1)), [(0, 0, 0)])
    assert found == pytest.approx((math.sqrt(0.75), math.sqrt(0.75), math.sqrt(0.75), 1, 4))
    with pytest.raises(ValueError, match="a bias can silence a phase"):
        PooledConvolution(np.ones((1, 1, 1, 1)), np.ones(1), k=2).bounds(np.ones((1, 2, 2, 1)), [(0, 0, 0)])


# --- bad input ---

LAYER = PooledConvolution(np.ones((2, 2, 1, 2)), k=2)
MAPS = PooledMaps(np.ones((1, 1, 1, 4)), np.zeros((1, 1, 1, 4), np.uint8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PooledConvolution(np.zeros((2, 2, 1, 2))), "PooledConvolution: all filters are zero"),
        (lambda: PooledConvolution(np.full((2, 2, 1, 2), np.inf)), "NaN or infinite"),
        (lambda: PooledConvolution(np.ones((2, 2, 1)), k=2), "w must be filters"),
        (lambda: PooledConvolution(np.ones((2, 2, 1, 2)), k=0), "k must be an integer >= 1"),
        (lambda: LAYER.ratios(np.ones((1, 4, 4, 2))), "has 2 channels"),
        (lambda: LAYER.ratios(np.ones((1, 1, 4, 1))), "the kernel"),
        (lambda: LAYER.ratios(np.full((1, 4, 4, 1), np.nan)), "x holds NaN or infinite"),
        (lambda: LAYER.ratios(np.ones((4, 4, 1))), "must be images"),
        (lambda: LAYER.reconstruct(MAPS._replace(values=np.ones((1, 1, 1, 2))), [(0, 0, 0)]), r"\(N, PH, PW, 4\)"),
        (lambda: LAYER.reconstruct(MAPS._replace(switches=MAPS.switches + 4), [(0, 0, 0)]), r"integers in 0 \.\. 3"),
        (lambda: LAYER.reconstruct(MAPS._replace(switches=MAPS.switches * 1.0), [(0, 0, 0)]), "switches must be int"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("weak", [1e-9, 1e-12, 0.0])
def test_a_dead_filter_does_no_harm_in_float32(weak):
    """Its response is rounding, which must not be divided by its length."""
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(3, 3, 2, 5)), 0.1 * rng.normal(size=5)
    x = rng.normal(size=(1, 8, 8, 2)).astype(np.float32)
    without = PooledConvolution(w[..., :4], b[:4])
    w[..., 4] *= weak
    layer = PooledConvolution(w, b)
    regions = [(0, 0, 0), (0, 1, 1)]
    expected = without.reconstruct(without.pool(x), regions)
    np.testing.assert_allclose(layer.reconstruct(layer.pool(x), regions), expected, atol=1e-3)
