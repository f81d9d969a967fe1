"""The arithmetic of launches, and what a launch makes of its arguments."""

import numpy as np
import pytest

from minicnn.fast.cuda import elementwise, kernels
from tests.cuda_shim.device import ShimCuda
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.standin import launches


class Recorder(ShimCuda):
    """Notes launches and runs nothing; a huge array can be pretended."""

    def __init__(self):
        self.modules, self.calls = [], []

    def module(self, source, options):
        self.modules.append(options)
        return self

    def get_function(self, name):
        return lambda grid, block, arguments: self.calls.append((name, grid, block, arguments))


@pytest.mark.parametrize(
    ("count", "blocks"),
    [
        *((1, 1), (255, 1), (256, 1), (257, 2), (256 * 65_535, 65_535), (256 * 65_535 + 1, 65_535)),
        *((2**31 - 1, 65_535), (2**31, 65_535), (2**40, 65_535)),
    ],
)
def test_blocks(count, blocks):
    """As many as are needed, and never more than any dimension of any GPU takes."""
    assert kernels.blocks(count) == blocks


def test_32_bit_indices_cannot_overflow():
    """EACH adds the number of threads to an index below WIDE before it compares."""
    assert kernels.WIDE + kernels.MOST_BLOCKS * kernels.THREADS < 2**31


@pytest.mark.parametrize(("count", "index"), [(2**30 - 1, "int"), (2**30, "long long"), (2**33, "long long")])
def test_large_launches_have_64_bit_indices(count, index):
    with standin_with_kernels(cuda=Recorder()) as device:
        x = device.put(np.ones(3, np.float32))
        kernels.launch("elementwise.relu", (x,), x, count=count)
        ((name, grid, block, arguments),) = device.cuda.calls
    assert device.cuda.modules == [("-DREAL=float", f"-DINDEX={index}")]
    assert (name, grid, block) == ("relu", (65_535,), (256,))
    assert arguments[-1] == count
    assert arguments[-1].dtype == ("int32" if index == "int" else "int64")


@pytest.mark.parametrize(("total", "index"), [(2**30 - 1, "int"), (2**30, "long long"), (2**33, "long long")])
def test_large_numbers_are_64_bits_wide(total, index):
    """The norm of all gradients: few threads, which count to the number of all parameters."""
    with standin_with_kernels(cuda=Recorder()) as device:
        x = device.put(np.ones(3, np.float32))
        kernels.launch("update.squares", (x,), x, 1, total)
        *_, there, count = device.cuda.calls[0][3]
    assert device.cuda.modules == [("-DREAL=float", f"-DINDEX={index}")]
    assert (there, count) == (total, 3)
    assert there.dtype == count.dtype == ("int32" if index == "int" else "int64")


@needs_compiler
def test_nothing_is_launched_for_nothing():
    with standin_with_kernels() as device:
        launches.clear()
        y, vjp = elementwise.relu(device.put(np.ones((0, 3))))
        (gx,) = vjp(y)
        assert (y.shape, gx.shape, launches) == ((0, 3), (0, 3), [])


@needs_compiler
def test_inputs_are_brought_into_c_order():
    x = np.arange(-6.0, 6.0).reshape(3, 4)
    with standin_with_kernels() as device:
        for view in (lambda a: a.T, lambda a: a[:, ::-1], lambda a: a[::2, 1:3]):
            y, vjp = elementwise.avr(view(device.put(x)))
            np.testing.assert_array_equal(y.get(), np.abs(view(x)))
            g = device.xp.broadcast_to(device.put(np.array(2.0)), y.shape)
            np.testing.assert_array_equal(vjp(g)[0].get(), 2 * np.sign(view(x)))


def test_outputs_must_be_in_c_order():
    with standin_with_kernels(cuda=Recorder()) as device:
        x = device.put(np.ones((3, 4)))
        with pytest.raises(ValueError, match=r"relu: an output of shape \(4, 3\) is not in C order"):
            kernels.launch("elementwise.relu", (x.T,), x)
        assert not device.cuda.calls


def test_arguments_get_the_types_of_the_kernel():
    with standin_with_kernels(cuda=Recorder()) as device:
        for dtype in ("float32", "float64"):
            x = device.put(np.ones(3, dtype))
            kernels.launch("elementwise.leaky_relu", (x,), x, 0.5, 2, None, np.uint64(2**63))
            *_, number, integer, null, word, count = device.cuda.calls[-1][3]
            assert [a.dtype for a in (number, integer, null, word, count)] == [dtype, "i4", "u8", "u8", "i4"]
            assert (number, integer, null, word, count) == (0.5, 2, 0, 2**63, 3)


def test_a_file_is_compiled_once_for_each_precision():
    with standin_with_kernels(cuda=Recorder()) as device:
        for dtype in ("float32", "float64", "float32"):
            elementwise.relu(device.put(np.ones(3, dtype)))
            elementwise.avr(device.put(np.ones(3, dtype)))
    assert [options[0] for options in device.cuda.modules] == ["-DREAL=float", "-DREAL=double"]


@needs_compiler
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x, n: (x, x), "2 arguments, it takes 3"),
        (lambda x, n: (x, x.astype("float32"), n), "argument 1: float32 for double"),
        (lambda x, n: (x, x[::2], n), "argument 1: not in C order"),
        (lambda x, n: (x, x, np.int64(3)), "argument 2: int64 for int"),
        (lambda x, n: (x, n, n), "argument 1: np.int32"),
    ],
)
def test_the_shim_is_strict(arguments, message):
    """What CUDA would take in silence."""
    with standin_with_kernels() as device:
        x = device.put(np.ones(3))
        module = device.cuda.module(kernels.source("elementwise"), kernels.options("f8", "i4"))
        with pytest.raises(AssertionError, match=message):
            module.get_function("avr")((1,), (1,), arguments(x, np.int32(3)))
