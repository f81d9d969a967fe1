"""What every file here shares: a loop over elements, scalar arithmetic that follows IEEE 754, negative axes.

Python's own floats do, except that `max` may lose a NaN, and that `1.0 / 0.0` and `math.sqrt(-1.0)` raise.
"""

import math
from collections.abc import Callable

import numpy as np


def floats(x: np.ndarray) -> np.ndarray:
    """x in float64, same shape."""
    return np.asarray(x, dtype=np.float64)


def each(f: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """f of every element: any shape, the same shape."""
    x = floats(x)
    y = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        y[at] = f(float(x[at]))
    return y


def maximum(a: float, b: float) -> float:
    """max(a, b), and NaN if either is NaN."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return a if a > b else b


def quotient(a: float, b: float) -> float:
    """a / b, where 1 / 0 is inf, -1 / 0 is -inf and 0 / 0 is NaN."""
    if b == 0.0:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def root(a: float) -> float:
    """The square root of a, and NaN if a is negative or NaN."""
    return math.sqrt(a) if a >= 0.0 else math.nan


def normalise_axis(axis: int, ndim: int) -> int:
    """The axis counted from 0: -1 is the last one, ndim - 1."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} does not exist in an array of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis
