"""Every fast version equals its op, over drawn shapes, on one thread and on several."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Stream, ops, parallel
from minicnn.fast.cpu import elementwise, im2col, linear, norm, pool, taps, winograd, winograd_wide
from minicnn.fast.dispatch import TABLE
from minicnn.ops.windows import as_pad
from tests import draw


def draw_winograd(d):
    """A 3x3 or 5x5 convolution with stride 1 and any pad; of images smaller than the kernel too."""
    n, c, f, k = d(st.integers(1, 6)), d(draw.SMALL), d(draw.SMALL), d(st.sampled_from([3, 5]))
    pad = draw.padding(d, k)
    h, w = (d(st.integers(max(1, k - sum(sides)), 11)) for sides in as_pad("conv2d", pad))
    generator = draw.rng(d)
    arrays = (draw.distinct(generator, n, h, w, c), draw.distinct(generator, k, k, c, f))
    return arrays + ((draw.distinct(generator, f),) if d(st.booleans()) else ()), {"pad": pad}


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
    (x,), static = draw.pool(d)
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
}


def test_every_row_of_the_table_for_the_cpu_is_here():
    table = {version for _, _, version in TABLE if ".cpu." in version.__module__}
    assert table == {version for _, version, _ in VERSIONS.values()}


@pytest.mark.parametrize("name", VERSIONS)
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
        patch.setenv("MINICNN_THREADS", str(data.draw(st.integers(1, 3))))
        y, vjp = version(*arrays, **static)
        expected, expected_vjp = op.textbook(*arrays, **static)
        g = data.draw(st.composite(draw.view)(draw.distinct(np.random.default_rng(0), *y.shape)))
        for ours, theirs in zip((y, *vjp(g)), (expected, *expected_vjp(g)), strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def check_needs(op, version, arrays, static, put=lambda x: x, get=lambda x: x):
    """A version of a selective op gives the gradients that are needed, and no others."""
    y, vjp = version(*map(put, arrays), **static)
    g = np.random.default_rng(0).normal(size=y.shape)
    everything = op.textbook(*arrays, **static)[1](g)
    for needs in itertools.product([False, True], repeat=3):
        found = vjp(put(g), needs)
        assert [gx is not None for gx in found] == [
            n and full is not None for n, full in zip(needs, everything, strict=True)
        ]
        for gx, full in zip(found, everything, strict=True):
            if gx is not None:
                np.testing.assert_allclose(get(gx), full, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", [name for name, (op, *_) in VERSIONS.items() if op.selective])
@pytest.mark.parametrize("bias", [True, False])
def test_only_the_gradients_that_are_needed(name, bias):
    op, version, _ = VERSIONS[name]
    rng, k = np.random.default_rng(1), 1 if name == "im2col 1x1" else 3
    if op is ops.linear:
        arrays, static = (rng.normal(size=(4, 5)), rng.normal(size=(5, 2)), rng.normal(size=2)), {}
    else:
        arrays = (rng.normal(size=(2, 5, 5, 3)), rng.normal(size=(k, k, 3, 4)), rng.normal(size=4))
        static = {"pad": 1}
    check_needs(op, version, arrays[: 2 + bias], static)


@given(data=st.data())
def test_max_pool_sends_gradients_where_the_textbook_does(data):
    x, static = data.draw(st.composite(draw_pool_of_few_values)())
    y, vjp = pool.max_pool2d(x, **static)
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


@pytest.mark.parametrize("name", ["textbook", "im2col", "winograd", "taps"])
def test_a_convolution_can_be_forced(monkeypatch, name):
    used = []
    monkeypatch.setattr(
        ops.conv2d,
        "faster",
        [(fits, lambda *a, f=f, **s: used.append(f.__module__) or f(*a, **s)) for fits, f in ops.conv2d.faster],
    )
    size = 2 if name == "taps" else 8
    x, w = np.ones((2, size, size, 32)), np.ones((3, 3, 32, 32))
    monkeypatch.setenv("MINICNN_CONV", name)
    ops.conv2d(x, w, pad=1)
    assert used == ([] if name == "textbook" else [f"minicnn.fast.cpu.{name}"])


def test_a_convolution_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv("MINICNN_CONV", "im2row")
    with pytest.raises(ValueError, match="MINICNN_CONV must be one of textbook, im2col, winograd, taps, got 'im2row'"):
        ops.conv2d(np.ones((1, 3, 3, 1)), np.ones((3, 3, 1, 1)))


def test_the_rule_that_chooses():
    """Winograd for wide 3x3 layers with stride 1, tap by tap for tiny images, im2col for the rest."""
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
