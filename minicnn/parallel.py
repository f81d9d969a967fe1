"""Work over a batch, a piece at a time.

Operations that need large temporary arrays (im2col copies every pixel k*k times) say how many bytes one sample
needs and are called for pieces of the batch:

    over_batch(work, n, sample_bytes, x)          work(piece) writes its part of a result; `piece` is a slice
    sum_over_batch(work, n, sample_bytes, into)   work(piece) returns an array, which is added to `into`

On a CPU a piece fills the cache, on a GPU a share of the memory.  The size of a piece depends on the shape of
the data alone, and sums are taken in the order of the batch: the result does not depend on how many workers
there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from minicnn.backend import Array, array_module

HOST_PIECE_BYTES = 4 << 20  # of temporary arrays: about what stays in the caches of one core
DEVICE_PIECE_BYTES = 256 << 20  # enough to keep a GPU busy, little beside its memory


def pieces(n: int, sample_bytes: int, like: Array) -> Iterator[slice]:
    """Slices that cover range(n); the temporary arrays of one slice fit in the budget of `like`'s device."""
    budget = HOST_PIECE_BYTES if array_module(like) is np else DEVICE_PIECE_BYTES
    length = max(1, budget // max(1, sample_bytes))
    return (slice(start, min(start + length, n)) for start in range(0, n, length))


def over_batch(work: Callable[[slice], None], n: int, sample_bytes: int, like: Array) -> None:
    """Call work(piece) for every piece of a batch of n samples."""
    for piece in pieces(n, sample_bytes, like):
        work(piece)


def sum_over_batch(work: Callable[[slice], Array], n: int, sample_bytes: int, into: Array) -> None:
    """Add work(piece) to `into` for every piece of a batch of n samples, in order."""
    for piece in pieces(n, sample_bytes, into):
        into += work(piece)
