"""A launch that comes again is started from a plan: with the arrays and numbers of now, not those of the first time.

And what an op keeps between calls is kept by everything that it depends on.
"""

import threading

import numpy as np
import pytest

from minicnn import backend, ops, parallel
from minicnn.fast.cuda import kernels
from minicnn.fast.cuda.kernels import Launch, launch
from minicnn.precision import PRECISION

if problem := backend.gpu_problem():
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu():
    return backend.device("gpu")


@pytest.fixture
def plans(monkeypatch):
    """The plans that are made during a test."""
    found = {}
    monkeypatch.setattr(kernels, "_plans", found)
    return found


def leaky(gpu, x, slope):
    there = gpu.put(x)
    y = gpu.xp.empty(there.shape, there.dtype)
    launch("elementwise.leaky_relu", (y,), there, slope)
    return gpu.get(y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_arrays_and_numbers(gpu, plans, dtype):
    for k, slope in enumerate((0.5, 0.25, -2.0, 0.0, -0.0)):
        x = np.array([-1.0, k, -k - 1.0], dtype)
        found = leaky(gpu, x, slope)
        expected = np.where(x > 0, x, np.array(slope, dtype) * x)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    assert len(plans) == 1


def test_other_sizes_dtypes_and_integers_have_plans_of_their_own(gpu, plans):
    for dtype, size in (("float32", 6), ("float64", 6), ("float32", 4), ("float32", 6), ("float64", 6)):
        x = np.arange(size, dtype=dtype) - 2
        np.testing.assert_array_equal(leaky(gpu, x, 0.5), np.where(x > 0, x, x / 2))
    assert len(plans) == 3
    x, bias = np.arange(6.0) - 3, np.array([1.0, 0.0, -1.0])
    there, y, there_bias = gpu.put(x), gpu.put(np.zeros(6)), gpu.put(bias)
    for channels in (1, 2, 3, 2):  # an integer
        launch("elementwise.relu", (y,), there, there_bias, channels)
        np.testing.assert_array_equal(gpu.get(y), np.maximum(x + np.resize(bias[:channels], 6), 0))
    launch("elementwise.relu", (y,), there, None, 2)  # a null pointer
    launch("elementwise.relu", (y,), gpu.put(x + 1), None, 2)
    np.testing.assert_array_equal(gpu.get(y), np.maximum(x + 1, 0))
    assert len(plans) == 3 + 3 + 1


def test_words_of_64_bits(gpu, plans):
    """Dropout's step, a NumPy scalar among the arguments."""
    x, results = gpu.put(np.ones((2, 16), np.float32)), []
    for step in (3, 2**63 + 5, 3):
        y, words = gpu.xp.empty(x.shape, x.dtype), gpu.xp.empty(2, np.uint16)
        numbers = [np.uint64(word) for word in (7, 8, step, 0)]
        launch("dropout.dropout", (y, words), x, None, 1 << 15, 2.0, 16, 1, *numbers, count=2)
        results.append(gpu.get(words).tolist())
    assert len(plans) == 1
    assert results[0] == results[2] != results[1]


def test_inputs_in_another_order(gpu, plans):
    """They are brought into C order, whether there is a plan or not; outputs must be in it."""
    there = gpu.put(np.arange(-6.0, 6.0).reshape(3, 4))
    y = gpu.xp.empty((3, 4), np.float64)
    for x in (there, there[::-1], there[:, ::-1], there):
        launch("elementwise.avr", (y,), x)
        np.testing.assert_array_equal(gpu.get(y), np.abs(gpu.get(x)))
    assert len(plans) == 1
    with pytest.raises(ValueError, match="an output of shape .* is not in C order"):
        launch("elementwise.avr", (y.T,), there)


def test_two_threads_use_a_plan(gpu, plans):
    leaky(gpu, np.ones(3), 0.5)
    errors = []

    def work(k):
        with gpu.active():
            for _ in range(200):
                if not (leaky(gpu, np.full(3, -float(k)), 0.5 * k) == -0.5 * k * k).all():
                    errors.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(plans) == 1


def test_plans_do_not_fill_the_memory(gpu, plans, monkeypatch):
    monkeypatch.setattr(kernels, "MOST_PLANS", 3)
    for size in (1, 2, 3, 4, 5, 1, 2):
        np.testing.assert_array_equal(leaky(gpu, np.full(size, -2.0), 0.5), -1)
        assert len(plans) <= 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_launch_takes_the_arrays_and_numbers_of_now(gpu, plans, dtype):
    again = Launch(gpu, "elementwise.leaky_relu", count=3)
    for k, slope in enumerate((0.5, 0.25, -2.0)):
        x = np.array([-1.0, k, -k - 1.0], dtype)
        y = gpu.put(np.zeros(3, dtype))
        again(y, gpu.put(x), numbers=(slope,))
        np.testing.assert_array_equal(gpu.get(y), np.where(x > 0, x, np.array(slope, dtype) * x))
    assert not plans  # it has its own


@pytest.mark.parametrize("first", [True, False])
def test_an_array_that_is_there_only_sometimes(gpu, first):
    x, bias = np.arange(6.0) - 3, np.array([1.0, 0.0, -1.0])
    again, there, y = Launch(gpu, "elementwise.relu", 3, count=6), gpu.put(x), gpu.put(np.zeros(6))
    for with_bias in (first, not first, first):
        again(y, there, gpu.put(bias) if with_bias else None)
        np.testing.assert_array_equal(gpu.get(y), np.maximum(x + np.resize(bias, 6) if with_bias else x, 0))


def test_a_launch_of_nothing(gpu):
    y, again = gpu.put(np.ones(3)), Launch(gpu, "elementwise.avr", count=0)
    for _ in range(2):
        again(y, y)
    np.testing.assert_array_equal(gpu.get(y), 1)


def test_a_pool_of_images_that_begin_elsewhere(gpu):
    """Threads take four channels at once where the images lie at a multiple of 16 bytes, and one where they do not.

    The gradient comes in any order.
    """
    numbers = np.random.default_rng(0).normal(size=2 * 5 * 5 * 4 + 3).astype("float32")
    whole = gpu.put(numbers)
    for start in (0, 1, 0, 3):
        x, there = (a[start:][:200].reshape(2, 5, 5, 4) for a in (numbers, whole))
        expected, vjp = ops.max_pool2d.textbook(x, k=3, stride=2)
        found, found_vjp = ops.max_pool2d.pair(there, k=3, stride=2)
        np.testing.assert_array_equal(gpu.get(found), expected)
        for g in (found, gpu.xp.asfortranarray(found)):
            np.testing.assert_array_equal(gpu.get(*found_vjp(g)), *vjp(expected))


CHANNELS = {"winograd": 16, "im2col": 3}


@pytest.fixture(params=CHANNELS)
def arrays(request):
    """x, w and b of a convolution that the table does by Winograd's algorithm, or as a product."""
    rng, c = np.random.default_rng(0), CHANNELS[request.param]
    return rng.normal(size=(2, 6, 6, c)), rng.normal(size=(3, 3, c, 16)), rng.normal(size=16)


def convolution(gpu, x, w, b=None, *, spread=False, **options):
    """y and the three gradients for g = y, on the host; `spread`: from every other number of arrays twice as long."""
    given = [a if a is None else gpu.put(a) for a in (x, w, b)]
    if spread:
        given = [a if a is None else every_other(gpu.xp, a) for a in given]
    y, vjp = ops.conv2d.pair(*given, **options)
    return [gpu.get(a) for a in (y, *vjp(every_other(gpu.xp, y) if spread else y)) if a is not None]


def every_other(xp, a):
    return xp.repeat(a, 2, axis=-1)[..., ::2]


def test_a_convolution_of_another_kind(gpu, arrays):
    """After one that is kept: other sizes, padding, strides, dtype, and without a bias; and back."""
    x, w, b = arrays
    cases = [
        ((x, w, b), {"pad": 1}),
        ((x, w, b), {"pad": ((0, 1), [2, 0])}),
        ((x, w), {"pad": 1}),
        ((x[:1], w, b), {"pad": 1}),
        ((x, w, b), {"pad": [1, 1], "stride": [2, 1]}),
        ((x, w, b), {"pad": 1, "spread": True}),
        (tuple(a.astype("float32") for a in arrays), {"pad": 1}),
    ]
    for given, options in (*cases, *cases):
        y, vjp = ops.conv2d.textbook(*given, **{name: v for name, v in options.items() if name != "spread"})
        expected = [a for a in (y, *vjp(y)) if a is not None]
        close = {"rtol": 1e-9, "atol": 1e-9} if y.dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-2}
        for ours, theirs in zip(convolution(gpu, *given, **options), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, **close)


def test_options_that_only_equal_those_that_are_kept(gpu, arrays):
    """True == 1 == 1.0, and both are refused all the same."""
    convolution(gpu, *arrays, pad=1, stride=1)
    for options in ({"pad": True}, {"pad": 1.0}, {"pad": (1, True)}, {"stride": True}, {"stride": 1.0}):
        with pytest.raises(ValueError, match="conv2d: (pad|stride) must be"):
            convolution(gpu, *arrays, **options)
    with pytest.raises(ValueError, match="conv2d: b must have shape"):
        convolution(gpu, *arrays[:2], arrays[2][:5], pad=1)


def test_another_precision_from_one_call_to_the_next(gpu, arrays, monkeypatch):
    """The derivative has the precision of its call, whatever is asked for meanwhile."""
    x, w, b = (gpu.put(a.astype("float32")) for a in arrays)
    g, found = gpu.put(np.random.default_rng(1).normal(size=(2, 6, 6, 16)).astype("float32")), {}
    for name in ("float32", "bf16", "float32", "bf16"):
        monkeypatch.setenv(PRECISION, name)
        y, vjp = ops.conv2d.pair(x, w, b, pad=1)
        monkeypatch.setenv(PRECISION, "tf32")
        results = [gpu.get(a) for a in (y, *vjp(g)[:2])]
        for ours, before in zip(results, found.setdefault(name, results), strict=True):
            np.testing.assert_array_equal(ours, before)
    if int(gpu.cuda.card.compute_capability) >= 80:  # older cards have no bf16
        for exact, rounded in zip(found["float32"], found["bf16"], strict=True):
            assert not np.array_equal(exact, rounded)
            assert np.abs(exact - rounded).max() < 0.1 * np.abs(exact).max()


def test_transforms_of_filters_are_exact_in_every_precision(gpu, monkeypatch):
    """In Winograd's algorithm: the precision that is asked for is that of the products between them."""
    asked, product = [], type(gpu.cuda).product

    def noted(self, dtype, rows, inner, columns, **options):
        asked.append((rows, inner, options.get("precision", "float32")))
        return product(self, dtype, rows, inner, columns, **options)

    monkeypatch.setattr(type(gpu.cuda), "product", noted)
    monkeypatch.setenv(PRECISION, "bf16")
    x, w = (gpu.put(np.ones(shape, np.float32)) for shape in ((3, 7, 7, 17), (3, 3, 17, 18)))  # shapes of no other test
    ops.conv2d.pair(x, w, pad=1)[1](gpu.put(np.ones((3, 7, 7, 18), np.float32)))
    assert {(36, 9, "float32"), (9, 36, "float32")} <= set(asked)  # U = G g G' and its derivative
    assert {name for rows, inner, name in asked if (rows, inner) not in ((36, 9), (9, 36))} == {"bf16"}


def test_a_budget_that_shrinks_between_an_op_and_its_derivative(gpu, monkeypatch):
    """As when memory runs out there; 1x1 filters with padding, whose columns are kept."""
    rng = np.random.default_rng(0)
    for k, c, f in ((3, 16, 16), (3, 3, 16), (1, 8, 16)):
        x, w, b = rng.normal(size=(5, 6, 6, c)), rng.normal(size=(k, k, c, f)), rng.normal(size=f)
        expected, vjp = ops.conv2d.textbook(x, w, b, pad=1)
        y, our_vjp = ops.conv2d.pair(*map(gpu.put, (x, w, b)), pad=1)
        np.testing.assert_allclose(gpu.get(y), expected, rtol=1e-9, atol=1e-9)
        with monkeypatch.context() as short:
            short.setattr(parallel, "DEVICE_PIECE_BYTES", 1)  # one image at a time
            for ours, theirs in zip(our_vjp(y), vjp(expected), strict=True):
                np.testing.assert_allclose(gpu.get(ours), theirs, rtol=1e-9, atol=1e-9)
