"""Starting kernels about images and windows over them: how a thread finds its place, and how many channels it takes.

A thread has one number, and makes a place of it (image, row, column, channel) by divisions, for which the host computes
reciprocals.  Where it can, it takes neighbouring channels at once, as many as 16 bytes hold: fewer threads, each with
the same divisions and accesses to memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from minicnn.backend import Array, Device
from minicnn.fast.cuda.kernels import Launch, geometry
from minicnn.ops.windows import Windows
from minicnn.parallel import cut, device_piece_bytes

Kernels = TypeVar("Kernels")

VECTOR_BYTES = 16  # the most that a thread reads or writes at once


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


class LanesLaunch:
    """A Launch of either variant of a kernel (WITH_LANES in common.cuh), as the arrays of each call allow.

    size       of the first output
    numbers    what the kernel is told, by the number of channels, or of vectors of channels
    """

    def __init__(self, where: Device, kernel: str, channels: int, size: int, numbers: Callable[[int], tuple[Any, ...]]):
        self._where, self._kernel, self._channels, self._size, self._numbers = where, kernel, channels, size, numbers
        self._variants: dict[int, Launch] = {}  # by the number of lanes

    def __call__(self, *arrays: Array) -> None:
        at_once = lanes(self._channels, *arrays)
        if at_once not in self._variants:
            name = self._kernel if at_once == 1 else f"{self._kernel}_vector"
            numbers = self._numbers(self._channels // at_once)
            self._variants[at_once] = Launch(self._where, name, *numbers, count=self._size // at_once)
        self._variants[at_once](*arrays)


def each_window(where: Device, kernel: str, n: int, channels: int, windows: Windows, *numbers: int) -> LanesLaunch:
    """A kernel with a thread for each window of n images and channel, or vector of channels.

    It is called with its outputs (N, OH, OW, C), the first of which has the dtype of the images, and the images.
    """
    oh, ow = windows.out
    told = lambda c: (*geometry(windows, c), *numbers, *reciprocals(c, ow, oh))
    return LanesLaunch(where, kernel, channels, n * oh * ow * channels, told)


def each_cell(where: Device, kernel: str, n: int, channels: int, windows: Windows) -> LanesLaunch:
    """A kernel with a thread for each cell of each window of n images and channel, or vector of channels.

    It is called with the cells and the images.
    """
    (oh, ow), (kh, kw) = windows.out, windows.k
    told = lambda c: (*geometry(windows, c), *reciprocals(kw * c, kh, ow, oh))
    return LanesLaunch(where, kernel, channels, n * oh * ow * kh * kw * channels, told)


def each_pixel(where: Device, kernel: str, n: int, channels: int, windows: Windows, *numbers: int) -> LanesLaunch:
    """A kernel with a thread for each pixel of n images and channel, or vector of channels.

    It is called with the images and what it makes them of.
    """
    h, w = windows.size
    told = lambda c: (*geometry(windows, c), *numbers, *reciprocals(c, w, h, *windows.stride))
    return LanesLaunch(where, kernel, channels, n * h * w * channels, told)


class Pieces(Generic[Kernels]):
    """A batch cut into pieces whose temporary arrays fit in the budget, each with kernels for as many images as it has.

    kernels(images) makes them, once for each number of images.
    """

    def __init__(self, n: int, sample_bytes: int, kernels: Callable[[int], Kernels]):
        self._n, self._sample_bytes, self._kernels = n, sample_bytes, cache(kernels)
        self._found: dict[int, list[tuple[slice, Kernels]]] = {}  # by the budget

    def __call__(self) -> list[tuple[slice, Kernels]]:
        """As the budget is now: it shrinks when memory runs out, perhaps between an op and its derivative."""
        budget = device_piece_bytes()
        if budget not in self._found:
            slices = cut(0, self._n, budget // max(1, self._sample_bytes))
            self._found[budget] = [(piece, self._kernels(piece.stop - piece.start)) for piece in slices]
        return self._found[budget]
