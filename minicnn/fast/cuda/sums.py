"""Sums over all axes but the last, in two stages that keep a GPU busy.

CuPy gives such a sum one block of threads per 32 channels: two blocks for the 131,072 x 48 numbers of a batch at conv1,
where a GPU runs hundreds.  Here kernels first sum chunks of rows, and CuPy sums what is left: a few hundred rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from minicnn.backend import Array, Device, device_of
from minicnn.fast.cuda.kernels import Launch

LEAST_THREADS = 1 << 15  # of the first stage: 128 blocks
MOST_CHUNKS = 2048  # rows of the second
FEW_ROWS = 256  # one stage is enough


def chunk_length(rows: int, channels: int) -> int:
    """How many rows one thread sums."""
    return -(-rows // min(MOST_CHUNKS, -(-LEAST_THREADS // channels)))


def sum_rows(x: Array) -> Array:
    """ops.reduce.sum_to_channels: (..., C) -> (C,)."""
    rows, channels = math.prod(x.shape[:-1]), x.shape[-1]
    if rows <= FEW_ROWS or channels == 0:
        return x.reshape(rows, channels).sum(axis=0)
    return _in_chunks("sums.sum_rows", x, rows, channels)


def sum_squares(x: Array, mean: Array) -> Array:
    """The sums of (x - mean)^2 over all axes but the last: (..., C), (C,) -> (C,)."""
    return _in_chunks("sums.sum_squares", x, math.prod(x.shape[:-1]), x.shape[-1], mean)


def _in_chunks(kernel: str, x: Array, rows: int, channels: int, *others: Array) -> Array:
    device = device_of(x)
    in_order = device.xp.ascontiguousarray
    shape, first_stage = _first_stage(device, x.dtype, kernel, rows, channels)
    chunks = device.xp.empty(shape, x.dtype)
    first_stage(chunks, in_order(x), *map(in_order, others))
    return chunks.sum(axis=0)


@lru_cache(1024)  # the shapes of a network come again in every step
def _first_stage(device: Device, dtype: Any, kernel: str, rows: int, channels: int) -> tuple[tuple[int, int], Launch]:
    """The shape of the chunks, and the kernel that sums them, for arrays of this dtype."""
    length = chunk_length(rows, channels)
    shape = (-(-rows // length), channels)
    return shape, Launch(device, kernel, rows, length, channels, count=math.prod(shape))
