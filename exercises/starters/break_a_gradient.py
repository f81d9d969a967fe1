"""Break a gradient so that a weak check misses it, and write a check that misses nothing.

A *pair* is what an op of minicnn computes: function(*arrays) -> (y, vjp), and vjp(g) -> one gradient per array.
"""

from collections.abc import Callable

import numpy as np

Pair = tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, ...]]]


def broken_crelu(x: np.ndarray) -> Pair:
    """CReLU of x (N, C) with the right value, and a vjp that is right for g = ones and wrong for other g."""
    raise NotImplementedError("see minicnn/ops/activation.py for the right one")


def find(function: Callable[..., Pair], arrays: tuple[np.ndarray, ...]) -> int | None:
    """The index of the array whose gradient is wrong, or None if all are right.  At most one of them is wrong."""
    raise NotImplementedError("see minicnn/gradcheck.py")
