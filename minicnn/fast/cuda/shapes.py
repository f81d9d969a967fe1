"""Starting kernels about images and windows over them: how a thread finds its place, and how many channels it takes.

A thread has one number, and makes a place of it (image, row, column, channel) by divisions, for which the host computes
reciprocals.  Where it can, it takes neighbouring channels at once, as many as 16 bytes hold: fewer threads, each with
the same divisions and accesses to memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import geometry, launch
from minicnn.ops.windows import Windows

VECTOR_BYTES = 16  # the most that a thread reads or writes at once

Arrays = tuple[Array, ...]


@lru_cache(4096)  # shapes come again and again
def reciprocal(d: int) -> np.uint64:
    """What `quotient` in common.cuh needs to divide by d: m = ceil(2^(31 + s) / d), and s = ceil(log2 d) above 32 bits.

    For 0 <= i < 2^31, i // d is i m >> 31 + s: m d exceeds 2^(31 + s) by less than d <= 2^s, so i m / 2^(31 + s)
    exceeds i / d by less than 1 / d, which is not enough to reach the next whole number.
    """
    s = (d - 1).bit_length()
    return np.uint64(s << 32 | -(-(1 << 31 + s) // d))


def reciprocals(*divisors: int) -> tuple[np.uint64, ...]:
    return tuple(map(reciprocal, divisors))


def lanes(channels: int, *arrays: Array) -> int:
    """How many channels a thread takes at once: as many as 16 bytes hold, if they divide the channels; otherwise one.

    The first of the arrays says how large a number is.  All must lie at multiples of what is read of them at once: a
    view may start anywhere.
    """
    most = VECTOR_BYTES // arrays[0].dtype.itemsize
    if channels % most or any(array.data.ptr % (most * array.dtype.itemsize) for array in arrays):
        return 1
    return most


def launch_lanes(kernel: str, at_once: int, outputs: Arrays, inputs: Arrays, *numbers: Any) -> None:
    """Start the variant of a kernel for so many lanes (WITH_LANES in common.cuh), a thread for that many outputs."""
    name = kernel if at_once == 1 else f"{kernel}_vector"
    launch(name, outputs, *inputs, *numbers, count=outputs[0].size // at_once)


def each_window(kernel: str, outputs: Arrays, x: Array, windows: Windows, *numbers: int) -> None:
    """Start a kernel with a thread for each window of x (N, H, W, C) and channel, or vector of channels."""
    x, (oh, ow) = array_module(x).ascontiguousarray(x), windows.out
    at_once = lanes(x.shape[3], x, *outputs)
    c = x.shape[3] // at_once
    launch_lanes(kernel, at_once, outputs, (x,), *geometry(windows, c), *numbers, *reciprocals(c, ow, oh))


def each_cell(kernel: str, rows: Array, x: Array, windows: Windows) -> None:
    """Start a kernel with a thread for each cell of each window of x (N, H, W, C) and channel, or vector of them."""
    x, (oh, ow), (kh, kw) = array_module(x).ascontiguousarray(x), windows.out, windows.k
    at_once = lanes(x.shape[3], x, rows)
    c = x.shape[3] // at_once
    launch_lanes(kernel, at_once, (rows,), (x,), *geometry(windows, c), *reciprocals(kw * c, kh, ow, oh))


def each_pixel(kernel: str, gx: Array, inputs: Arrays, windows: Windows, *numbers: int) -> None:
    """Start a kernel with a thread for each pixel of gx (N, H, W, C) and channel, or vector of channels."""
    inputs, (h, w) = tuple(map(array_module(gx).ascontiguousarray, inputs)), windows.size
    at_once = lanes(gx.shape[3], gx, *inputs)
    c = gx.shape[3] // at_once
    divisors = (c, w, h, *windows.stride)
    launch_lanes(kernel, at_once, (gx,), inputs, *geometry(windows, c), *numbers, *reciprocals(*divisors))
