"""Every CUDA version equals its op: the same source as on a GPU, run by the shim, over drawn shapes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Stream, ops, parallel
from minicnn.fast.cuda import elementwise, im2col, kernels, linear, loss, norm, pool, sums, winograd
from minicnn.fast.dispatch import GPU_TABLE
from minicnn.fast.fused import conv2d_activated
from minicnn.ops.norm import update_running
from tests import draw
from tests.cuda_shim.shim import needs_compiler
from tests.devices import cast, put, put_spread, standin_with_kernels
from tests.fast.test_versions import check_needs, draw_dropout, draw_pool_of_few_values, draw_winograd, on_last_axis
from tests.standin import launches, no_synchronisation

pytestmark = needs_compiler


def draw_leaky(d):
    return draw.one_array(d)[0], {"slope": d(st.sampled_from([0.0, 0.1, -1.0]))}


def draw_logits(d):
    (x, labels), static = draw.logits(d)
    return (x, labels.astype(d(st.sampled_from(["int64", "int32", "uint8"])))), static


VERSIONS = {
    "im2col": (ops.conv2d, im2col.conv2d, draw.any_conv),
    "im2col, activated": (conv2d_activated, im2col.conv2d, draw.activated(draw.any_conv)),
    "winograd": (ops.conv2d, winograd.conv2d, draw_winograd),
    "winograd, activated": (conv2d_activated, winograd.conv2d, draw.activated(draw_winograd)),
    "linear": (ops.linear, linear.linear, draw.linear),
    "relu": (ops.relu, elementwise.relu, draw.one_array),
    "leaky_relu": (ops.leaky_relu, elementwise.leaky_relu, draw_leaky),
    "avr": (ops.avr, elementwise.avr, draw.one_array),
    "crelu": (ops.crelu, elementwise.crelu, on_last_axis),
    "dropout": (ops.dropout, elementwise.dropout, draw_dropout),
    "max_pool2d": (ops.max_pool2d, pool.max_pool2d, draw.pool),
    "avg_pool2d": (ops.avg_pool2d, pool.avg_pool2d, draw.avg_pool),
    "global_avg_pool": (ops.global_avg_pool, pool.global_avg_pool, draw.images),
    "batch_norm": (ops.batch_norm, norm.batch_norm, draw.norm),
    "softmax_cross_entropy": (ops.softmax_cross_entropy, loss.softmax_cross_entropy, draw_logits),
}


def test_every_row_of_the_table_for_cuda_is_here():
    table = {version for _, _, version in GPU_TABLE}
    assert table == {version for _, version, _ in VERSIONS.values()}


def compare(device, op, version, arrays, static, dtype, move=put):
    """version on a device against the textbook in float64: values and gradients, without a wait."""
    expected, expected_vjp = op.textbook(*arrays, **static)
    g = np.asarray(draw.distinct(np.random.default_rng(0), *np.shape(expected)))
    there, options = move(device, cast(dtype, arrays)), {n: put(device, cast(dtype, v)) for n, v in static.items()}
    with no_synchronisation():
        y, vjp = version(*there, **options)
        grads = vjp(move(device, cast(dtype, g)))
    tolerance = 1e-11 if dtype == "float64" else 1e-4
    for ours, theirs in zip((y, *grads), (expected, *expected_vjp(g)), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.shape == theirs.shape
            assert ours.dtype == dtype
            scale = 1 + np.abs(theirs).max(initial=0)
            np.testing.assert_allclose(device.get(ours), theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", VERSIONS)
@given(data=st.data())
def test_equals_the_textbook(name, data):
    op, version, drawing = VERSIONS[name]
    arrays, static = data.draw(st.composite(drawing)())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "DEVICE_PIECE_BYTES", data.draw(st.sampled_from([1, 3000, 4 << 20]), label="budget"))
        patch.setattr(kernels, "MOST_BLOCKS", data.draw(st.sampled_from([1, 2, 65_535]), label="blocks"))
        patch.setattr(kernels, "THREADS", data.draw(st.sampled_from([1, 32, 256]), label="threads"))
        patch.setattr(kernels, "WIDE", data.draw(st.sampled_from([0, 1 << 30]), label="64-bit indices from"))
        with standin_with_kernels() as device:
            move = data.draw(st.sampled_from([put, put_spread]), label="strides")
            compare(device, op, version, arrays, static, data.draw(st.sampled_from(["float32", "float64"])), move)


def test_sums_in_chunks():
    """More rows than chunks, the last chunk shorter: of a batch normalisation, its moments and a bias."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(7, 5, 3))
    with pytest.MonkeyPatch.context() as patch, standin_with_kernels() as device:
        patch.setattr(sums, "MOST_CHUNKS", 4)
        patch.setattr(sums, "FEW_ROWS", 0)
        compare(device, ops.batch_norm, norm.batch_norm, (x, np.ones(3), np.zeros(3)), {}, "float64")
        launches.clear()
        mean, var = ops.batch_moments(device.put(x))
        assert launches == ["kernel sum_rows", "sum", "truediv", "kernel sum_squares", "sum", "truediv"]
        np.testing.assert_allclose(mean.get(), x.mean(axis=(0, 1)), rtol=1e-13)
        np.testing.assert_allclose(var.get(), x.var(axis=(0, 1)), rtol=1e-13)
        np.testing.assert_allclose(sums.sum_rows(device.put(x)).get(), x.sum(axis=(0, 1)), rtol=1e-13)


@pytest.mark.parametrize("channels", [48, 96, 192, 512])
def test_sums_over_a_batch_of_images_have_blocks_enough(channels):
    """128 images; and what is left to CuPy is little."""
    for side in (32, 16, 8):
        rows = 128 * side * side
        chunks = -(-rows // sums.chunk_length(rows, channels))
        assert kernels.blocks(chunks * channels) >= 64
        assert chunks <= 1024


@given(data=st.data())
def test_max_pool_sends_gradients_where_the_textbook_does(data):
    x, static = data.draw(st.composite(draw_pool_of_few_values)())
    expected, expected_vjp = ops.max_pool2d.textbook(x, **static)
    g = draw.distinct(np.random.default_rng(0), *expected.shape)
    with standin_with_kernels() as device:
        y, vjp = pool.max_pool2d(device.put(x), **static)
        np.testing.assert_array_equal(y.get(), expected)
        np.testing.assert_allclose(vjp(device.put(g))[0].get(), expected_vjp(g)[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "avr", "crelu"])
def test_nan_and_inf_as_in_the_textbook(name):
    op, version, _ = VERSIONS[name]
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]])
    expected, expected_vjp = op.textbook(x)
    g = np.full(expected.shape, 2.0)
    with standin_with_kernels() as device:
        y, vjp = version(device.put(x))
        np.testing.assert_array_equal(y.get(), expected)
        np.testing.assert_array_equal(vjp(device.put(g))[0].get(), expected_vjp(g)[0])


def test_labels_out_of_range_and_nan_logits_as_in_the_textbook():
    logits = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, -np.inf], [5.0, 5.0]])
    for labels in (np.array([0, 1, 1, 0]), np.array([0, 0, 0, 1])):
        for wrong in (0, 7, -1):
            some = labels.copy()
            with standin_with_kernels() as device, np.errstate(all="ignore"):
                some[3] = wrong
                there = device.put(some)  # on the host it would be refused
                y, vjp = ops.softmax_cross_entropy.textbook(device.put(logits), there)
                ours, our_vjp = loss.softmax_cross_entropy(device.put(logits), there)
                one = device.put(np.ones(()))
                np.testing.assert_allclose(ours.get(), y.get())
                np.testing.assert_allclose(our_vjp(one)[0].get(), vjp(one)[0].get(), atol=1e-15)


def test_dropout_bits_are_those_of_the_reference():
    """Bit by bit, from the loops of reference/philox.py."""
    import reference.philox

    stream = Stream(3).child("x").at(step=2**33, first=5)
    key = tuple(int(word) for word in stream.key)
    expected = reference.philox.uniform16(key, 2**33, 5, samples=3, size=35) >= round(0.4 * 65536)
    with standin_with_kernels() as device:
        y, _ = elementwise.dropout(device.put(np.ones((3, 5, 7))), rate=0.4, stream=stream)
    np.testing.assert_array_equal(y.get().reshape(3, 35) != 0, expected)


def test_dropout_keeps_what_equals_the_threshold():
    """A threshold that is one of the numbers drawn."""
    stream = Stream(1)
    drawn = stream.uniform16(1, 50)[0]
    with standin_with_kernels() as device:
        y, _ = elementwise.dropout(device.put(np.ones((1, 50))), rate=int(drawn[7]) / 65536, stream=stream)
    np.testing.assert_array_equal(y.get()[0] != 0, drawn >= drawn[7])


def test_wrong_answers():
    """In a tie the first answer counts, and a NaN is the largest; labels that no class has are wrong."""
    nan = np.nan
    logits = [[1, 3, 2], [2, 2, 1], [2, 2, 1], [0, nan, nan], [0, nan, nan], [nan, 1, 2], [5, 1, 2], [5, 1, 2]]
    labels = [1, 0, 1, 1, 2, 0, -1, 3]
    with standin_with_kernels() as device:
        for dtype, integers in (("float32", "int64"), ("float64", "int32")):
            there = device.put(np.array(logits, dtype)), device.put(np.array(labels, integers))
            launches.clear()
            assert int(ops.wrong_answers(*there)) == 4
            assert "kernel wrong_answers" in launches
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MINICNN_FAST", "0")
                assert int(ops.wrong_answers(*there)) == 4


def test_running_moments():
    mean, var = np.array([1.0, 2.0]), np.array([4.0, 6.0])
    with standin_with_kernels() as device:
        running = device.put(np.array([3.0, 0.0])), device.put(np.array([1.0, 8.0]))
        launches.clear()
        update_running(running, (device.put(mean), device.put(var)), 0.25, 1.5)
        assert launches == ["kernel update_running"]
        np.testing.assert_array_equal(running[0].get(), [2.5, 0.5])
        np.testing.assert_array_equal(running[1].get(), [0.75 + 1.5, 6 + 2.25])


@pytest.mark.parametrize(("filters", "small"), [((1, 1, 2, 3), True), ((1, 1, 3, 2), False), ((3, 3, 2, 3), False)])
def test_small_columns_are_built_once(filters, small):
    """They are kept for the derivative, which may find less memory than the forward pass: nothing goes wrong then."""
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(20, 4, 4, filters[2])), rng.normal(size=filters)
    expected, vjp = ops.conv2d.textbook(x, w, pad=1)
    g = rng.normal(size=expected.shape)
    with standin_with_kernels() as device, pytest.MonkeyPatch.context() as patch:
        launches.clear()
        _, our_vjp = im2col.conv2d(device.put(x), device.put(w), pad=1)
        patch.setattr(parallel, "_share", 1 << 18)  # from now on, one image at a time
        ours = our_vjp(device.put(g), (False, True, False))[1]
        np.testing.assert_allclose(ours.get(), vjp(g)[1], rtol=1e-10, atol=1e-12)
        assert len([name for name in launches if name.startswith("kernel unfold")]) == (1 if small else 1 + len(x))


def test_dispatch_chooses_them():
    """On a device with kernels; not without, and not with MINICNN_FAST=0."""
    x = np.ones((2, 3))
    with standin_with_kernels() as device:
        launches.clear()
        ops.relu(device.put(x))
        assert launches == ["kernel relu"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MINICNN_FAST", "0")
            launches.clear()
            ops.relu(device.put(x))
            assert launches == ["maximum"]


@pytest.mark.parametrize("version", [im2col.conv2d, winograd.conv2d])
@pytest.mark.parametrize("bias", [True, False])
def test_only_the_gradients_that_are_needed(version, bias):
    rng = np.random.default_rng(1)
    arrays = (rng.normal(size=(2, 5, 5, 3)), rng.normal(size=(3, 3, 3, 4)), rng.normal(size=4))[: 2 + bias]
    with standin_with_kernels() as device:
        check_needs(ops.conv2d, version, arrays, {"pad": 1}, device.put, device.get)
