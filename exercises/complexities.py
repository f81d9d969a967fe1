"""Rademacher complexities in loops, for the checks of two tasks.  minicnn/theory/rademacher.py has fast versions."""

from __future__ import annotations

import itertools
import math

import numpy as np


def complexity(values: np.ndarray, activation: str) -> float:
    """E sup_f n(f) over all signs; values (functions, points), activation "identity", "relu", "modulus" or "crelu"."""
    points = values.shape[1]
    total = 0.0
    for signs in itertools.product((1, -1), repeat=points):
        total += max(length(row, signs, activation) for row in values)
    return total / 2**points


def length(row: np.ndarray, signs: tuple[int, ...], activation: str) -> float:
    """n(f) = |2/L sum_i sigma_i rho(f(x_i))|, from the two phases a and b."""
    a = 2 / len(row) * sum(s * max(float(v), 0.0) for s, v in zip(signs, row, strict=True))
    b = 2 / len(row) * sum(s * max(-float(v), 0.0) for s, v in zip(signs, row, strict=True))
    return {"identity": abs(a - b), "relu": abs(a), "modulus": abs(a + b), "crelu": math.hypot(a, b)}[activation]
