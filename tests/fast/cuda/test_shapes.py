"""Divisions by reciprocals, and channels that a thread takes together."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.fast.cuda import im2col, pool
from minicnn.fast.cuda.shapes import lanes, reciprocal
from tests import draw
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.fast.cuda.test_versions import compare
from tests.standin import launches

MOST = 2**31 - 1


def quotient(i, d):
    """As `quotient` in common.cuh computes it, in 32 bits."""
    multiplier, shift = int(reciprocal(d)) % 2**32, int(reciprocal(d)) >> 32
    assert multiplier >= 2**31  # so it is as exact as 32 bits can be
    assert shift < 32
    return (2 * i % 2**32 * multiplier >> 32) >> shift


@given(d=st.integers(1, MOST), times=st.integers(0, MOST), more=st.integers(-1, 1))
@example(d=1, times=MOST, more=0)
@example(d=MOST, times=1, more=0)
@example(d=3, times=MOST // 3, more=1)
def test_reciprocals_divide(d, times, more):
    """Where the quotient changes, and at both ends."""
    for i in {0, MOST, min(max(times // d * d + more, 0), MOST)}:
        assert quotient(i, d) == i // d


def test_every_small_division():
    for d in range(1, 70):
        assert [quotient(i, d) for i in range(700)] == [i // d for i in range(700)]


@pytest.mark.parametrize(
    ("dtype", "channels", "expected"),
    [("float32", 8, 4), ("float32", 4, 4), ("float32", 6, 1), ("float64", 6, 2), ("float64", 3, 1)],
)
def test_lanes(dtype, channels, expected):
    with standin_with_kernels() as device:
        x = device.put(np.zeros((2, channels), dtype))
        assert lanes(channels, x) == expected
        assert lanes(channels, x, x[1:]) == expected  # rows are multiples of 16 bytes, if channels are


def test_an_array_that_starts_between_vectors_is_taken_number_by_number():
    with standin_with_kernels() as device:
        whole = device.put(np.zeros(9, np.float32))
        assert lanes(4, whole[:8]) == 4
        assert lanes(4, whole[1:]) == 1
        switches = device.put(np.zeros(9, np.uint8))
        assert lanes(4, whole, switches[4:8]) == 4  # four bytes are read of them, not 16
        assert lanes(4, whole, switches[2:6]) == 1


@needs_compiler
def test_each_call_looks_where_its_arrays_are():
    """Whatever was kept of the same pool before."""
    with standin_with_kernels() as device:
        whole = device.put(np.zeros(2 * 5 * 5 * 4 + 1, np.float32))
        for start, name in ((0, "max_pool_vector"), (1, "max_pool"), (0, "max_pool_vector")):
            launches.clear()
            pool.max_pool2d(whole[start:][:200].reshape(2, 5, 5, 4), k=3)
            assert launches == [f"kernel {name}"]


WIDE = st.sampled_from([4, 8])
KERNELS = {
    "max_pool2d": (pool.max_pool2d, lambda d: draw.pool(d, WIDE), {"max_pool", "max_pool_grad"}),
    "avg_pool2d": (pool.avg_pool2d, lambda d: draw.pool(d, WIDE), {"avg_pool", "avg_pool_grad"}),
    "global_avg_pool": (
        pool.global_avg_pool,
        lambda d: (draw.pool(d, WIDE)[0], {}),
        {"global_avg_pool_grad"},
    ),
    "conv2d": (im2col.conv2d, lambda d: draw.any_conv(d, WIDE), {"unfold", "fold"}),
}


@needs_compiler
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("name", KERNELS)
@given(data=st.data())
def test_vectors_equal_the_textbook(name, aligned, data):
    """Every kernel with lanes, and the same on an image that starts between vectors."""
    version, drawing, kernels = KERNELS[name]
    (x, *others), static = data.draw(st.composite(drawing)())
    dtype = data.draw(st.sampled_from(["float32", "float64"]))

    def moved(x, *others, **static):
        """The version, on a copy of x that starts one number after a multiple of 16 bytes."""
        xp = device.xp
        shifted = xp.empty(x.size + 1, x.dtype)[1:].reshape(x.shape)
        shifted[...] = x
        return version(shifted, *others, **static)

    with standin_with_kernels() as device:
        launches.clear()
        compare(device, getattr(ops, name), version if aligned else moved, (x, *others), static, dtype)
        found = {launch.removeprefix("kernel ") for launch in launches if launch.startswith("kernel ")}
    vectors = {kernel.removesuffix("_vector") for kernel in found if kernel.endswith("_vector")}
    forward = {kernel for kernel in kernels if kernel in ("max_pool", "avg_pool", "unfold")}
    if name != "conv2d" or "unfold" in {kernel.removesuffix("_vector") for kernel in found}:  # 1x1 needs none
        assert vectors == (kernels if aligned else kernels - forward)
