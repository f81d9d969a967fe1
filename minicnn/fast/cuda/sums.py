"""Sums over all axes but the last, in two stages that keep a GPU busy.

CuPy gives such a sum one block of threads per 32 channels: two blocks for the 131,072 x 48 numbers of a batch at conv1,
where a GPU runs hundreds.  Here kernels first sum chunks of rows, and CuPy sums what is left: a few hundred rows.
"""

from __future__ import annotations

import math

from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import launch

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
    length = chunk_length(rows, channels)
    chunks = array_module(x).empty((-(-rows // length), channels), x.dtype)
    launch(kernel, (chunks,), x, *others, rows, length, channels)
    return chunks.sum(axis=0)
