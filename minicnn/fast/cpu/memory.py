"""Large arrays whose memory is used again.

A training step makes the same large arrays as the one before and lets go of them.  The system takes the memory back
each time and clears every page when it is next touched, which costs as much as computing a ReLU.  `empty` keeps what
is let go of and hands it out again:

    y = empty(shape, dtype)        like np.empty

The array lies in a block of bytes that is lent to it.  Its base is the Loan, which nobody else holds: when the array
and all its views are gone, so is the Loan, and the block goes back to the shelf.

A smaller array may get a larger block: of the many sizes that a network has, few are in use at once.  And the shelf has
an end: before the system is asked for a new block, the blocks that have lain there longest are given up, until all
memory, lent and idle, is at most a quarter more than was ever lent at once.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import Any

import numpy as np

LEAST_BYTES = 1 << 20  # smaller arrays are left to NumPy
MOST_TOO_LARGE = 8  # a block may be this many times as large as the array in it
MOST_MEMORY = 1.25  # lent and idle, compared with the most that was ever lent at once

_shelf: list[np.ndarray] = []  # idle blocks, the last to come back at the end
_lent = _most_lent = 0  # bytes: now, and at most so far
_lock = threading.RLock()  # a block may come back while another is being taken, in the same thread


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of any content, in memory that may have been used before."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST_BYTES:
        return np.empty(shape, dtype)
    loan = Loan(block := _take(size))
    weakref.finalize(loan, _put_back, block).atexit = False
    return np.asarray(loan)[:size].view(dtype).reshape(shape)


class Loan:
    """Lets NumPy make an array in a block of bytes; that array, and through it every view, keeps this alive."""

    def __init__(self, block: np.ndarray):
        self.__array_interface__ = block.__array_interface__


def _take(size: int) -> np.ndarray:
    """A block for `size` bytes: the smallest on the shelf, of equal ones the last to come back; or a new one."""
    global _lent, _most_lent
    with _lock:
        fit = [i for i, block in enumerate(_shelf) if size <= block.size <= MOST_TOO_LARGE * size]
        if fit:
            block = _shelf.pop(min(fit, key=lambda i: (_shelf[i].size, -i)))
        else:
            _make_room(size)
            block = np.empty(size, np.uint8)
        _lent += block.size
        _most_lent = max(_most_lent, _lent)
    return block


def _make_room(size: int) -> None:
    """Give up the blocks that have lain longest, until there is room for a new one of `size` bytes."""
    lent = _lent + size
    while _shelf and lent + kept_bytes() > MOST_MEMORY * max(_most_lent, lent):
        del _shelf[0]


def _put_back(block: np.ndarray) -> None:
    """The array in this block and all its views are gone."""
    global _lent
    with _lock:
        _lent -= block.size
        _shelf.append(block)


def kept_bytes() -> int:
    """How much memory lies on the shelf."""
    with _lock:
        return sum(block.size for block in _shelf)


def clear() -> None:
    """Give the memory on the shelf back to the system, and forget how much was ever lent."""
    global _most_lent
    with _lock:
        _shelf.clear()
        _most_lent = _lent


def _after_fork() -> None:
    """In a forked child the thread that held the lock may be gone."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
