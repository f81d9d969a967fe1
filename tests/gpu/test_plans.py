"""A launch that comes again is started from a plan: with the arrays and numbers of now, not those of the first time."""

import threading

import numpy as np
import pytest

from minicnn import backend
from minicnn.fast.cuda import kernels
from minicnn.fast.cuda.kernels import launch

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
        launch("dropout.dropout", (y, words), x, None, *numbers, 1 << 15, 2.0, 16, 1, count=2)
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
