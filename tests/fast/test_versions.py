"""Every fast version equals its op, over drawn shapes, on one thread and on several."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Stream, ops, parallel
from minicnn.fast.cpu import elementwise, im2col, linear, norm, pool, taps, winograd, winograd_wide
from minicnn.fast.dispatch import TABLE
from minicnn.fast.fused import conv2d_activated, conv2d_normalised
from minicnn.fast.native import im2col as native_im2col
from minicnn.fast.native import pool as native_pool
from minicnn.fast.native import winograd as native_winograd
from minicnn.ops.windows import as_pad
from tests import draw
from tests.fast.native.ways import needs_compiler, share_out

MANY = st.one_of(draw.SMALL, st.integers(1, 40))  # channels: less than a vector of the processor, and several panels


def draw_winograd(d):
    """A 3x3 or 5x5 convolution with stride 1 and any pad; of images smaller than the kernel too."""
    n, c, f, k = d(st.integers(1, 6)), d(draw.SMALL), d(draw.SMALL), d(st.sampled_from([3, 5]))
    pad = draw.padding(d, k)
    h, w = (d(st.integers(max(1, k - sum(sides)), 11)) for sides in as_pad("conv2d", pad))
    generator = draw.rng(d)
    arrays = (draw.distinct(generator, n, h, w, c), draw.distinct(generator, k, k, c, f))
    return arrays + ((draw.distinct(generator, f),) if d(st.booleans()) else ()), {"pad": pad}


def draw_tiles(d):
    """A 3x3 or 5x5 convolution with stride 1 of several tiles."""
    n, c, f, pad, k = d(st.integers(1, 5)), d(MANY), d(MANY), draw.padding(d, 2), d(st.sampled_from([3, 5]))
    h, w = (d(st.integers(max(1, k - sum(sides)), 14)) for sides in as_pad("conv2d", pad))
    generator = draw.rng(d)
    arrays = (draw.distinct(generator, n, h, w, c), draw.distinct(generator, k, k, c, f))
    return arrays + ((draw.distinct(generator, f),) if d(st.booleans()) else ()), {"pad": pad}


def draw_columns(d):
    return draw.any_conv(d, MANY)


def draw_pixels(d):
    return draw.pointwise_conv(d, MANY)


def draw_wide_pool(d):
    return draw.pool(d, MANY)


def draw_tiny(d):
    """Images smaller than the kernel, strides and pads of all kinds."""
    n, c, f = d(st.integers(1, 3)), d(draw.SMALL), d(draw.SMALL)
    (h, w), (kh, kw) = ((d(st.integers(1, 3)), d(st.integers(1, 3))) for _ in range(2))
    generator = draw.rng(d)
    arrays = (draw.distinct(generator, n, h, w, c), draw.distinct(generator, kh, kw, c, f))
    arrays += (draw.distinct(generator, f),) if d(st.booleans()) else ()
    return arrays, {"pad": d(st.integers(1, 3)), "stride": d(st.integers(1, 3))}


def on_last_axis(d):
    (x,), _ = draw.one_array(d)
    return (x.reshape(len(x), -1),), {}


def draw_dropout(d):
    """Any rate, step and place in the global batch; samples that do not fill their last block of random bits."""
    (x,), _ = draw.one_array(d)
    stream = Stream(d(st.integers(0, 99))).child("a").at(d(st.integers(0, 2**40)), d(st.integers(0, 2**20)))
    return (x,), {"rate": d(st.sampled_from([0.0, 0.2, 0.5, 0.99999])), "stream": stream}


def draw_pool_of_few_values(d):
    """Ties, NaN, infinities, padding."""
    (x,), static = draw_wide_pool(d)
    values = d(st.sampled_from([[0.0, 1.0], [-np.inf, 0.0], [-np.inf, 0.0, 1.0, np.nan]]))
    return draw.rng(d).choice(values, x.shape), static


VERSIONS = {
    "im2col": (ops.conv2d, im2col.conv2d, draw.any_conv),
    "im2col 1x1": (ops.conv2d, im2col.conv2d, draw.pointwise_conv),
    "linear": (ops.linear, linear.linear, draw.linear),
    "winograd": (ops.conv2d, winograd.conv2d, draw_winograd),
    "winograd, wide": (ops.conv2d, winograd_wide.conv2d, draw_winograd),
    "taps": (ops.conv2d, taps.conv2d, draw_tiny),
    "relu": (ops.relu, elementwise.relu, on_last_axis),
    "crelu": (ops.crelu, elementwise.crelu, on_last_axis),
    "dropout": (ops.dropout, elementwise.dropout, draw_dropout),
    "max_pool2d": (ops.max_pool2d, pool.max_pool2d, draw.pool),
    "batch_norm": (ops.batch_norm, norm.batch_norm, draw.norm),
    "C: winograd by tiles": (ops.conv2d, native_winograd.conv2d, draw_tiles),
    "C: winograd by places": (ops.conv2d, native_winograd.conv2d, draw_tiles),
    "C: im2col": (ops.conv2d, native_im2col.conv2d, draw_columns),
    "C: im2col 1x1": (ops.conv2d, native_im2col.conv2d, draw_pixels),
    "C: winograd by tiles, activated": (conv2d_activated, native_winograd.conv2d, draw.activated(draw_tiles)),
    "C: winograd by places, activated": (conv2d_activated, native_winograd.conv2d, draw.activated(draw_tiles)),
    "C: im2col, activated": (conv2d_activated, native_im2col.conv2d, draw.activated(draw_columns)),
    "C: im2col 1x1, activated": (conv2d_activated, native_im2col.conv2d, draw.activated(draw_pixels)),
    "C: winograd by tiles, normalised": (
        conv2d_normalised,
        native_winograd.conv2d_normalised,
        draw.normalised(draw_tiles),
    ),
    "C: winograd by places, normalised": (
        conv2d_normalised,
        native_winograd.conv2d_normalised,
        draw.normalised(draw_tiles),
    ),
    "C: im2col, normalised": (conv2d_normalised, native_im2col.conv2d_normalised, draw.normalised(draw_columns)),
    "C: im2col 1x1, normalised": (conv2d_normalised, native_im2col.conv2d_normalised, draw.normalised(draw_pixels)),
    "C: max_pool2d": (ops.max_pool2d, native_pool.max_pool2d, draw_wide_pool),
}


def rows(names):
    """For parametrize; kernels in C need a compiler."""
    return [pytest.param(name, marks=needs_compiler if name.startswith("C:") else ()) for name in names]


def test_every_row_of_the_table_for_the_cpu_is_here():
    table = {(op, version) for op, _, version in TABLE}
    assert table == {(op, version) for op, version, _ in VERSIONS.values()}


@pytest.fixture
def _textbook_all_through(monkeypatch):
    """The textbook of conv2d_activated calls ops, which may choose fast versions of their own."""
    monkeypatch.setenv("MINICNN_FAST", "0")


@pytest.mark.usefixtures("_textbook_all_through")
@pytest.mark.parametrize("name", rows(VERSIONS))
@given(data=st.data())
def test_equals_the_textbook(name, data):
    op, version, drawing = VERSIONS[name]
    arrays, static = data.draw(st.composite(drawing)())
    arrays = tuple(data.draw(st.composite(draw.view)(a)) for a in arrays)
    pieces = data.draw(st.sampled_from([1, 3000, 4 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "HOST_PIECE_BYTES", pieces)
        patch.setattr(winograd, "PIECE_BYTES", pieces)
        patch.setattr(winograd, "LEAST_TILES", 1)
        patch.setattr(winograd_wide, "BLOCK_BYTES", pieces)
        if name.startswith("C:"):
            tiles, pixels, blocks = (
                data.draw(st.sampled_from(some)) for some in ([1, 7, 64], [1, 5, 48], [1, 1 << 20])
            )
            share_out(patch, by_places="places" in name, tiles=tiles, pixels=pixels, blocks=blocks)
        patch.setenv("MINICNN_THREADS", str(data.draw(st.integers(1, 3))))
        y, vjp = version(*arrays, **static)
        expected, expected_vjp = op.textbook(*arrays, **static)
        g = data.draw(st.composite(draw.view)(draw.distinct(np.random.default_rng(0), *y.shape)))
        for ours, theirs in zip((y, *vjp(g)), (expected, *expected_vjp(g)), strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12 * max(1, np.abs(theirs).max()))


def check_needs(op, version, arrays, static, put=lambda x: x, get=lambda x: x):
    """A version of a selective op gives the gradients that are needed, and no others."""
    y, vjp = version(*map(put, arrays), **static)
    g = np.random.default_rng(0).normal(size=y.shape)
    everything = op.textbook(*arrays, **static)[1](g)
    for needs in itertools.product([False, True], repeat=len(everything)):
        found = vjp(put(g), needs)
        assert [gx is not None for gx in found] == [
            n and full is not None for n, full in zip(needs, everything, strict=True)
        ]
        for gx, full in zip(found, everything, strict=True):
            if gx is not None:
                np.testing.assert_allclose(get(gx), full, rtol=1e-10, atol=1e-11)


@pytest.mark.usefixtures("_textbook_all_through")
@pytest.mark.parametrize("name", rows(name for name, (op, *_) in VERSIONS.items() if op.selective))
@pytest.mark.parametrize("bias", [True, False])
def test_only_the_gradients_that_are_needed(monkeypatch, name, bias):
    op, version, _ = VERSIONS[name]
    rng, k = np.random.default_rng(1), 1 if "1x1" in name else 3
    share_out(monkeypatch, by_places="places" in name)
    if op is ops.linear:
        arrays, static = (rng.normal(size=(4, 5)), rng.normal(size=(5, 2)), rng.normal(size=2)), {}
    else:
        arrays = (rng.normal(size=(2, 5, 5, 3)), rng.normal(size=(k, k, 3, 4)), rng.normal(size=4))
        static = {"pad": 1} | ({} if op is ops.conv2d else {"activation": "crelu"})
    arrays = (*arrays, rng.normal(size=4)) if op is conv2d_normalised else arrays[: 2 + bias]
    check_needs(op, version, arrays, static)


@pytest.mark.parametrize("name", rows(["max_pool2d", "C: max_pool2d"]))
@given(data=st.data())
def test_max_pool_sends_gradients_where_the_textbook_does(name, data):
    x, static = data.draw(st.composite(draw_pool_of_few_values)())
    y, vjp = VERSIONS[name][1](x, **static)
    expected, expected_vjp = ops.max_pool2d.textbook(x, **static)
    np.testing.assert_array_equal(y, expected)
    g = draw.distinct(np.random.default_rng(0), *y.shape)
    np.testing.assert_allclose(vjp(g)[0], expected_vjp(g)[0], rtol=1e-13, atol=1e-15)  # added in another order


def test_nan_and_inf_as_in_the_textbook():
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]])
    for op, version in ((ops.relu, elementwise.relu), (ops.crelu, elementwise.crelu)):
        (y, vjp), (expected, expected_vjp) = version(x), op.textbook(x)
        np.testing.assert_array_equal(y, expected)
        g = np.full(y.shape, np.inf)
        np.testing.assert_array_equal(vjp(g)[0], expected_vjp(g)[0])


@needs_compiler
@pytest.mark.usefixtures("_textbook_all_through")
@pytest.mark.parametrize("activation", ["relu", "crelu"])
def test_nan_and_inf_in_an_activated_convolution_as_in_the_textbook(activation):
    """A filter that leaves every pixel as it is."""
    x, w = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0]).reshape(1, 2, 4, 1), np.ones((1, 1, 1, 1))
    y, vjp = native_im2col.conv2d(x, w, activation=activation)
    expected, expected_vjp = conv2d_activated.textbook(x, w, activation=activation)
    np.testing.assert_array_equal(y, expected)
    of_x = (True, False, False)
    for value in (np.inf, -np.inf, np.nan, 1.0):
        g = np.full(y.shape, value)
        np.testing.assert_array_equal(vjp(g, of_x)[0], expected_vjp(g, of_x)[0])


@needs_compiler
@pytest.mark.parametrize("activation", ["relu", "crelu"])
def test_at_the_kink_and_for_nan_by_winograd_too(activation):
    x, w = np.zeros((2, 8, 8, 9)), np.ones((3, 3, 9, 10))
    x[1] = np.nan
    y, vjp = native_winograd.conv2d(x, w, pad=1, activation=activation)
    assert (y[0] == 0).all()
    assert np.isnan(y[1]).all()
    assert (vjp(np.ones_like(y))[0] == 0).all()  # as in the textbook: neither 0 nor NaN is positive


def used_versions(monkeypatch, op):
    """The modules of the versions of an op, as they are called from now on."""
    used = []
    noted = [(fits, lambda *a, f=f, **s: used.append(f.__module__) or f(*a, **s)) for fits, f in op.faster]
    monkeypatch.setattr(op, "faster", noted)
    return used


NATIVE = [pytest.param("1", marks=needs_compiler, id="C"), pytest.param("0", id="NumPy")]


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("name", ["textbook", "im2col", "winograd", "taps"])
def test_a_convolution_can_be_forced(monkeypatch, name, native):
    monkeypatch.setenv("MINICNN_NATIVE", native)
    used, both = used_versions(monkeypatch, ops.conv2d), used_versions(monkeypatch, conv2d_activated)
    size = 2 if name == "taps" else 8
    x, w = np.ones((2, size, size, 32)), np.ones((3, 3, 32, 32))
    monkeypatch.setenv("MINICNN_CONV", name)
    ops.conv2d(x, w, pad=1)
    folder = "native" if native == "1" and name != "taps" else "cpu"
    assert used == ([] if name == "textbook" else [f"minicnn.fast.{folder}.{name}"])
    alone = list(used)
    conv2d_activated(x, w, pad=1, activation="relu")
    assert (used[1:] + both) == alone  # the same convolution, with the activation or before it
    assert bool(both) == (folder == "native" and name != "textbook")


def test_a_convolution_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv("MINICNN_CONV", "im2row")
    with pytest.raises(ValueError, match="MINICNN_CONV must be one of textbook, im2col, winograd, taps, got 'im2row'"):
        ops.conv2d(np.ones((1, 3, 3, 1)), np.ones((3, 3, 1, 1)))


def test_the_rule_that_chooses(monkeypatch):
    """Among those in NumPy: Winograd for wide 3x3 layers, tap by tap for tiny images, im2col for the rest."""
    monkeypatch.setenv("MINICNN_NATIVE", "0")
    wide, narrow = np.ones((2, 8, 8, 96), np.float32), np.ones((2, 8, 8, 3), np.float32)
    wider, tiny = np.ones((2, 4, 4, 512), np.float32), np.ones((2, 2, 2, 96), np.float32)

    def chosen(x, k, stride=1, pad=0):
        w = np.ones((k, k, x.shape[3], 96), np.float32)
        return next(f for fits, f in ops.conv2d.faster if fits(x, w, stride=stride, pad=pad))

    assert chosen(wide, 3, pad=1) is winograd.conv2d
    assert chosen(wider, 3, pad=1) is winograd_wide.conv2d
    assert chosen(tiny, 3, pad=1) is taps.conv2d
    assert chosen(tiny, 2) is im2col.conv2d
    assert chosen(wide, 3, stride=2) is im2col.conv2d
    assert chosen(narrow, 3, pad=1) is im2col.conv2d
    assert chosen(wide, 1) is im2col.conv2d
    assert chosen(wide, 1, pad=1) is im2col.conv2d
    assert chosen(wide, 5) is winograd.conv2d
    assert chosen(wide, 7) is im2col.conv2d


@needs_compiler
def test_pooling_in_c_of_an_image_smaller_than_its_rows_of_windows():
    """Sixteen rows of windows around four bytes."""
    x = np.ones((1, 1, 1, 1), np.float32)
    static = {"k": 16, "stride": 1, "pad": 15}
    for ours, theirs in zip(native_pool.max_pool2d(x, **static), ops.max_pool2d.textbook(x, **static), strict=True):
        g = np.ones((1, 16, 16, 1), np.float32)
        np.testing.assert_array_equal(*((a(g)[0] if callable(a) else a) for a in (ours, theirs)))


@needs_compiler
def test_the_rule_that_chooses_among_kernels_in_c():
    """Winograd for 3x3 and 5x5 layers with stride 1 and some channels, taps for tiny images, im2col for the rest."""

    def chosen(size, c, k, stride=1, pad=0, op=ops.conv2d, dtype=np.float32, n=16, **static):
        x, w = np.ones((n, size, size, c), dtype), np.ones((k, k, c, 96), dtype)
        return next((f for fits, f in op.faster if fits(x, w, stride=stride, pad=pad, **static)), None)

    for dtype in (np.float32, np.float64):
        for static in ({"op": ops.conv2d}, {"op": conv2d_activated, "activation": "relu"}):
            static["dtype"] = dtype
            for c in (8, 96, 512):
                assert chosen(8, c, 3, pad=1, **static) is native_winograd.conv2d
            assert chosen(8, 3, 3, pad=1, **static) is native_im2col.conv2d
            assert chosen(8, 96, 3, stride=2, **static) is native_im2col.conv2d
            assert chosen(8, 96, 5, pad=2, **static) is native_winograd.conv2d
            for k in (1, 7):
                assert chosen(8, 96, k, **static) is native_im2col.conv2d
    assert chosen(2, 96, 3, pad=1) is taps.conv2d
    assert chosen(2, 96, 3, pad=1, n=2) is native_im2col.conv2d  # which reads each weight once
    assert chosen(2, 96, 3, pad=1, op=conv2d_activated, activation="relu") is None  # taps, then the activation


@needs_compiler
@pytest.mark.parametrize("name", [name for name in VERSIONS if name.startswith("C:")])
def test_kernels_in_c_give_the_same_bits_on_1_2_and_4_threads(monkeypatch, name):
    op, version, _ = VERSIONS[name]
    share_out(monkeypatch, by_places="places" in name, blocks=1 << 20)
    monkeypatch.setattr(parallel, "HOST_PIECE_BYTES", 1)
    rng, k = np.random.default_rng(0), 1 if "1x1" in name else 3
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((9, 13, 11, 19), (k, k, 19, 21), (21,))]
    static = {"pad": 1} | ({} if op is ops.conv2d else {"activation": "crelu"})
    if op is conv2d_normalised:
        arrays.append(arrays[2] + 1)
    if op is ops.max_pool2d:
        arrays, static = arrays[:1], {"k": 3, "stride": 2, "pad": 1}
    results = []
    for count in (1, 2, 4):
        monkeypatch.setenv("MINICNN_THREADS", str(count))
        y, vjp = version(*arrays, **static)
        results.append((y, *vjp(y)))
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
