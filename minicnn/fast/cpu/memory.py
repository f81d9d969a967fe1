"""Large arrays whose memory is used again.

A training step makes the same large arrays as the one before and lets go of them.  The system takes the memory back
each time and clears every page when it is next touched, which costs as much as computing a ReLU.  `empty` keeps what
is let go of and hands it out again:

    y = empty(shape, dtype)        like np.empty

The array lies in a block of bytes that is lent to it.  Its base is the Loan, which nobody else holds: when the array
and all its views are gone, so is the Loan, and the block goes back to the shelf.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

import numpy as np

LEAST_BYTES = 1 << 20  # smaller arrays are left to NumPy
MOST_KEPT = 64  # blocks of one size on the shelf

_shelf: dict[int, list[np.ndarray]] = {}
_lock = threading.RLock()  # a block may come back while another is being taken, in the same thread


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of any content, in memory that may have been used before."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST_BYTES:
        return np.empty(shape, dtype)
    with _lock:
        blocks = _shelf.get(size)
        block = blocks.pop() if blocks else None
    if block is None:
        block = np.empty(size, np.uint8)
    loan = Loan(block)
    weakref.finalize(loan, _put_back, block).atexit = False
    return np.asarray(loan).view(dtype).reshape(shape)


class Loan:
    """Lets NumPy make an array in a block of bytes; that array, and through it every view, keeps this alive."""

    def __init__(self, block: np.ndarray):
        self.__array_interface__ = block.__array_interface__


def _put_back(block: np.ndarray) -> None:
    with _lock:
        blocks = _shelf.setdefault(block.size, [])
        if len(blocks) < MOST_KEPT:
            blocks.append(block)


def kept_bytes() -> int:
    """How much memory lies on the shelf."""
    with _lock:
        return sum(size * len(blocks) for size, blocks in _shelf.items())


def clear() -> None:
    """Give the memory on the shelf back to the system."""
    with _lock:
        _shelf.clear()
