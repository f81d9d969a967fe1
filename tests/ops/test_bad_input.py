"""Bad input is refused with a message that names the op, the shapes and the remedy; or its result is documented."""

import numpy as np
import pytest

from minicnn import Stream, Tensor, ops
from tests.devices import STANDIN, on_devices

IMAGE, FILTERS = np.ones((2, 4, 4, 3)), np.ones((3, 3, 3, 5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.conv2d(np.ones((4, 4, 3)), FILTERS), r"conv2d: x must be images of shape \(N, H, W, C\), got"),
        (lambda: ops.conv2d(IMAGE, np.ones((3, 3, 3))), r"conv2d: w must be filters of shape \(kh, kw, C_in, C_out\)"),
        (
            lambda: ops.conv2d(IMAGE, np.ones((3, 3, 2, 5))),
            r"conv2d: x \(2, 4, 4, 3\) has 3 channels, w \(3, 3, 2, 5\) expects 2",
        ),
        (
            lambda: ops.conv2d(IMAGE.transpose(0, 3, 1, 2), FILTERS),
            r"x \(2, 3, 4, 4\) has 4 channels, .*x looks like \(N, C, H, W\): use x.transpose\(0, 2, 3, 1\)",
        ),
        (lambda: ops.conv2d(IMAGE, np.ones((1, 1, 2, 5))), "has 3 channels, w .* expects 2"),
        (lambda: ops.conv2d(IMAGE, FILTERS, np.ones(4)), r"conv2d: b must have shape \(5,\)"),
        (lambda: ops.conv2d(IMAGE, FILTERS, np.ones((1, 5))), r"conv2d: b must have shape \(5,\)"),
        (lambda: ops.conv2d(IMAGE, np.ones((5, 5, 3, 1))), "conv2d: the kernel .5. is larger than the padded image"),
        (lambda: ops.conv2d(np.ones((2, 0, 4, 3)), FILTERS), "conv2d: the images have no pixels or no channels"),
        (lambda: ops.conv2d(np.ones((2, 0, 4, 3)), np.ones((1, 1, 3, 5))), "conv2d: the images have no pixels"),
        (lambda: ops.max_pool2d(np.ones((2, 0, 4, 3)), k=3, pad=2), "max_pool2d: the images have no pixels"),
        (lambda: ops.conv2d(np.ones((2, 4, 4, 0)), np.ones((3, 3, 0, 5))), "conv2d: the images have no .* channels"),
        (lambda: ops.max_pool2d(np.ones((4, 4)), k=2), "max_pool2d: x must be images"),
        (lambda: ops.max_pool2d(IMAGE, k=2, pad=2), "max_pool2d: every pad must be smaller than k"),
        (lambda: ops.avg_pool2d(IMAGE, k=(2, 1), pad=1), "avg_pool2d: every pad must be smaller than k"),
        (lambda: ops.avg_pool2d(IMAGE, k=9), "avg_pool2d: the kernel"),
        (lambda: ops.global_avg_pool(np.ones((2, 3))), "global_avg_pool: x must be images"),
        (lambda: ops.global_avg_pool(np.ones((2, 0, 3, 1))), "global_avg_pool: x must be images"),
        (lambda: ops.matmul(np.ones((2, 3)), np.ones((2, 3))), r"matmul: expected shapes \(M, K\) and \(K, N\)"),
        (lambda: ops.linear(IMAGE, np.ones((3, 2))), "linear: expected x .* flatten x first"),
        (lambda: ops.linear(np.ones((2, 3)), np.ones((3, 2)), np.ones(3)), r"linear: b must have shape \(2,\)"),
        (lambda: ops.add(np.ones(2), np.ones(3)), r"add: shapes \(2,\) and \(3,\) do not broadcast"),
        (lambda: ops.divide(np.ones((2, 1)), np.ones((3, 2))), "divide: shapes .* do not broadcast"),
        (
            lambda: ops.reshape(np.ones(4), shape=(3, -1)),
            r"reshape: x of shape \(4,\) does not fill the shape \(3, -1\)",
        ),
        (lambda: ops.concat(np.ones((2, 3)), np.ones((3, 3))), "concat: the shapes .* differ in other axes than 1"),
        (lambda: ops.concat(np.ones((2, 3)), np.ones(3), axis=0), "concat: the shapes .* differ in other axes than 0"),
        (lambda: ops.concat(), "concat: needs at least one array"),
        (lambda: ops.concat(np.ones(2), axis=1), r"concat: axis 1 does not fit x of shape \(2,\)"),
        (lambda: ops.reduce_sum(IMAGE, axis=(0, -4)), r"reduce_sum: axis \(0, -4\) does not fit"),
        (lambda: ops.reduce_mean(np.ones((0, 3)), axis=0), "reduce_mean: the mean of nothing"),
        (lambda: ops.crelu(IMAGE, axis=4), r"crelu: axis 4 does not exist in an array of shape \(2, 4, 4, 3\)"),
        (lambda: ops.crelu(np.ones(())), "crelu: axis -1 does not exist"),
        (lambda: ops.crelu_inverse(IMAGE), "crelu_inverse: axis -1 .* so be even"),
        (lambda: ops.concatenated(IMAGE, activation=ops.crelu), "concatenated: crelu is not elementwise"),
        (lambda: ops.soft_threshold(IMAGE, threshold=-1.0), "soft_threshold: threshold must not be negative"),
        (lambda: ops.dropout(IMAGE, rate=1.0, stream=Stream(0)), r"dropout: rate must be in \[0, 1\), got 1\.0"),
        (lambda: ops.dropout(np.ones(()), rate=0.5, stream=Stream(0)), "dropout: x needs a batch axis"),
        (lambda: ops.batch_moments(np.ones((0, 3))), "batch_moments: .* not be empty"),
        (lambda: ops.batch_moments(np.ones(3)), r"batch_moments: x must have shape \(N, \.\.\., C\)"),
        (lambda: ops.batch_norm(np.ones(3), np.ones(3), np.ones(3)), r"batch_norm: expected x \(N, \.\.\., C\)"),
        (lambda: ops.batch_norm(IMAGE, np.ones(2), np.ones(3)), "batch_norm: expected"),
        (lambda: ops.batch_norm(IMAGE, np.ones(3), np.ones(3), fixed=True), "fixed=True needs moments"),
        (
            lambda: ops.batch_norm(IMAGE, np.ones(3), np.ones(3), moments=(np.ones(3), np.ones(2))),
            r"moments must be two arrays of shape \(3,\)",
        ),
        (lambda: ops.softmax(np.ones((2, 0))), "softmax: the last axis must hold at least one class"),
        (lambda: ops.softmax_cross_entropy(np.ones(3), np.array([1])), "logits must have shape"),
        (
            lambda: ops.softmax_cross_entropy(np.ones((1, 3)), np.array([1]), smoothing=1.0),
            r"smoothing must be in \[0, 1\)",
        ),
        (lambda: ops.softmax_cross_entropy(np.ones((0, 3)), np.zeros(0, int)), "neither zero"),
        (lambda: ops.softmax_cross_entropy(np.ones((2, 3)), np.array([1])), r"labels must have shape \(2,\)"),
        (lambda: ops.softmax_cross_entropy(np.ones((2, 3)), np.array([[1], [1]])), r"labels must have shape \(2,\)"),
        (
            lambda: ops.softmax_cross_entropy(np.ones((2, 3)), np.array([0, 3])),
            r"labels must be in 0 \.\. 2, got 0 \.\. 3",
        ),
        (lambda: ops.softmax_cross_entropy(np.ones((2, 3)), np.array([-1, 0])), r"labels must be in 0 \.\. 2, got -1"),
    ],
)
def test_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("labels", [np.array([0.0, 1.0]), np.array([True, False]), [0, 1]])
def test_labels_must_be_integers(labels):
    with pytest.raises(TypeError, match="labels must be an array"):
        ops.softmax_cross_entropy(np.ones((2, 3)), labels)


@pytest.mark.parametrize("at", [[0, 1], np.array([0, 1]), np.array([True, False]), True, 1.0, (0, [1])])
def test_tensors_are_indexed_by_numbers_and_slices(at):
    with pytest.raises(
        TypeError, match="getitem: x is indexed by numbers, slices, ... and None, got a .*multiply by zeros"
    ):
        Tensor(np.ones((2, 3)))[at]


@pytest.mark.parametrize("at", [2, -3, (0, 3), (0, 0, 0)])
def test_an_index_beyond_the_end(at):
    with pytest.raises(IndexError, match=r"getitem: .*; x has shape \(2, 3\)"):
        Tensor(np.ones((2, 3)))[at]


def test_the_remedy_for_a_list_of_labels_is_right():
    with pytest.raises(TypeError, match=r"labels must be an array, got list; use numpy.asarray\(..., 'int64'\)"):
        ops.softmax_cross_entropy(np.ones((2, 3)), [0, 1])
    ops.softmax_cross_entropy(np.ones((2, 3)), np.asarray([0, 1], "int64"))


def test_labels_out_of_range_on_a_device_make_the_loss_nan():
    """Looking at them would make the program wait for the GPU; CuPy itself would wrap the index silently."""
    logits = STANDIN.put(np.ones((2, 3)))
    assert np.isnan(STANDIN.get(ops.softmax_cross_entropy(logits, STANDIN.put(np.array([0, 3])))))
    _, vjp = ops.softmax_cross_entropy.pair(logits, STANDIN.put(np.array([0, 3])))
    np.testing.assert_array_equal(np.isnan(STANDIN.get(vjp(STANDIN.put(np.ones(())))[0])).all(axis=1), [False, True])
    with pytest.raises(TypeError, match="logits are on cpu, labels on standin; move the labels"):
        ops.softmax_cross_entropy(np.ones((2, 3)), STANDIN.put(np.array([0, 1])))
    host_labels = ops.softmax_cross_entropy(logits, np.array([0, 2]))
    np.testing.assert_allclose(STANDIN.get(host_labels), np.log(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.leaky_relu(x, slope=np.float64(0.1)),
        lambda x: ops.soft_threshold(x, threshold=np.float64(0.1)),
    ],
)
def test_no_option_changes_the_dtype(call):
    with pytest.raises(
        TypeError, match="the result has dtype float64, the input float32; give options as Python numbers"
    ):
        call(np.ones((2, 3), np.float32))


def test_moments_on_another_device():
    with pytest.raises(TypeError, match="batch_norm: x is on cpu, its moments on standin; move them"):
        ops.batch_norm(np.ones((2, 3)), np.ones(3), np.ones(3), moments=(STANDIN.put(np.ones(3)),) * 2)


@pytest.mark.parametrize("rows", [2, 20_000], ids=["textbook", "fast"])
@on_devices
def test_moments_of_another_dtype(device, rows):
    """A kernel would take them for numbers of the width of x."""
    x, one = device.put(np.ones((rows, 3), np.float32)), device.put(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="batch_norm: x has dtype float32, its moments float32 and float64; convert"):
        ops.batch_norm(x, one, one, moments=(one, one.astype(np.float64)), fixed=True)


def test_too_many_arrays():
    with pytest.raises(TypeError, match="relu: takes 1 arrays, got 2; other options are keywords"):
        ops.relu(np.ones(2), np.ones(2))


@on_devices
def test_an_empty_batch_gives_an_empty_result_and_zero_weight_gradients(device):
    x = device.put(np.ones((0, 4, 4, 3)))
    for w in (FILTERS, np.ones((1, 1, 3, 5))):
        y, vjp = ops.conv2d.pair(x, device.put(w), device.put(np.ones(5)))
        gx, gw, gb = vjp(y)
        assert (y.shape[0], gx.shape) == (0, x.shape)
        assert not device.get(gw).any()
        assert not device.get(gb).any()
    for f in (ops.relu, ops.crelu, ops.global_avg_pool, lambda a: ops.max_pool2d(a, k=2)):
        assert f(x).shape[0] == 0


@pytest.mark.parametrize("f", [ops.relu, ops.leaky_relu, ops.avr, ops.crelu, ops.antirectifier, ops.softmax], ids=str)
def test_nan_propagates(f):
    assert np.isnan(f(np.array([[1.0, np.nan, 2.0]]))).any()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy says so too
def test_nan_and_inf_go_through_layers():
    x = IMAGE.copy()
    x[0, 1, 1, 0] = np.nan
    assert np.isnan(ops.conv2d(x, FILTERS)[0]).all()
    assert not np.isnan(ops.conv2d(x, FILTERS)[1]).any()
    for pool in (ops.max_pool2d, ops.avg_pool2d):
        np.testing.assert_array_equal(np.isnan(pool(x, k=2))[0, :, :, 0], [[True, False], [False, False]])
    assert np.isnan(ops.softmax_cross_entropy(np.array([[np.nan, 0.0]]), np.array([0])))
    np.testing.assert_array_equal(ops.crelu(np.array([np.inf, -np.inf])), [np.inf, 0, 0, np.inf])
    assert ops.softmax_cross_entropy(np.array([[0.0, -np.inf]]), np.array([1])) == np.inf
    _, vjp = ops.relu.pair(np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(vjp(np.array([np.inf, 2.0]))[0], [0, 2])  # not inf * 0


def test_large_logits_do_not_overflow():
    logits = np.array([[1e4, 0.0], [-1e30, 1e30]])
    np.testing.assert_allclose(ops.softmax_cross_entropy(logits, np.array([0, 1])), 0)
    np.testing.assert_allclose(ops.softmax(logits), [[1, 0], [0, 1]])
