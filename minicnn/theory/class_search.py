"""Looking for a class of functions that breaks (K1), E P^2 <= (E M)^2, or the constant sqrt 2 (sharp_constant.py).

**Climbing.**  With the sign of every value f_k(x_i) fixed, |f| is linear in f, so E P^2 and E N are convex functions
of the class, while {E M <= 1} is a polytope.  A convex function is at least its tangent: maximising the tangent over
the polytope, a linear program, never goes down.  It ends in a corner; values that are 0 there get new signs, and the
climb goes on.

**Classes with structure.**  Small integers, where ties are common; and orbits: one function with all its permutations,
or all its rotations, each with a choice of signs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

import numpy as np

from minicnn.theory.sharp_constant import cube, ratios

GOALS = {"k1": 1.0, "theorem": 2**0.5}  # of `ratios`: what is conjectured to be the largest
GAIN = 1e-10  # a climb that gains less has ended


class Found(NamedTuple):
    """The best class of a search, and its quotient."""

    quotient: float
    values: np.ndarray


def climb(values: np.ndarray, goal: str, rng: np.random.Generator, *, rounds: int = 4, steps: int = 30) -> Found:
    """Climb from a class (functions, points), `rounds` times with new signs for the zeros."""
    signs = np.where(values == 0, rng.choice([-1.0, 1.0], values.shape), np.sign(values))
    best = Found(getattr(ratios(values), goal), values)
    for _ in range(rounds):
        for _ in range(steps):
            found = _corner(_slope(best.values, signs, goal), signs)
            quotient = getattr(ratios(found), goal) if found.any() else 0.0
            if quotient <= best.quotient + GAIN:
                break
            best = Found(quotient, found)
        zero = abs(best.values) < 1e-9
        signs = np.where(zero, rng.choice([-1.0, 1.0], values.shape), signs)
    return best


def _slope(values: np.ndarray, signs: np.ndarray, goal: str) -> np.ndarray:
    """The gradient of E P^2 or E N by the class, where |f| = signs f: (functions, points)."""
    sigma = cube(values.shape[1])
    t = sigma @ (signs * values).T  # (2^L, functions): sums of |f|
    if goal == "k1":
        best = t.argmax(axis=1)
        weight = 2 * np.maximum(t.max(axis=1), 0)[:, None] * sigma * signs[best]
    else:
        s = sigma @ values.T
        norms = np.sqrt((s**2 + t**2) / 2)
        best = norms.argmax(axis=1)
        at = np.arange(len(sigma)), best
        weight = (s[at][:, None] * sigma + t[at][:, None] * sigma * signs[best]) / (2 * norms[at][:, None] + 1e-300)
    slope = np.zeros_like(values)
    np.add.at(slope, best, weight / len(sigma))
    return slope


def _corner(slope: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The class with E M <= 1 and these signs that goes farthest along the slope."""
    from scipy.optimize import linprog

    (functions, points), half = slope.shape, cube(slope.shape[1])[: 2 ** (slope.shape[1] - 1)]  # up to sigma -> -sigma
    n = len(half)
    rows = np.zeros((2 * functions * n + 1, functions * points + n))  # variables: the class, then M(sigma)
    for k in range(functions):
        for j, side in enumerate((half, -half)):
            at = slice((2 * k + j) * n, (2 * k + j + 1) * n)
            rows[at, k * points : (k + 1) * points] = side
            rows[at, functions * points :] = -np.eye(n)
    rows[-1, functions * points :] = 1 / n
    most = np.zeros(len(rows))
    most[-1] = 1
    ends = [(0, None) if sign > 0 else (None, 0) for sign in signs.ravel()] + [(0, None)] * n
    found = linprog(-np.append(slope.ravel(), np.zeros(n)), A_ub=rows, b_ub=most, bounds=ends)
    if found.status != 0:
        raise ArithmeticError(f"class_search: the linear program failed: {found.message}")
    return found.x[: functions * points].reshape(slope.shape)


def integer_class(rng: np.random.Generator, functions: int, points: int) -> np.ndarray:
    """Values in -3 .. 3, not all 0."""
    while not (values := rng.integers(-3, 4, (functions, points)).astype(float)).any():
        pass
    return values


def orbit_class(rng: np.random.Generator, functions: int, points: int) -> np.ndarray:
    """One function of small integers, or several, with all permutations or rotations; some signs turned."""
    seeds = integer_class(rng, max(1, functions // 4), points)
    moves = list(permutations(range(points))) if rng.random() < 0.5 and points <= 4 else None
    moves = moves or [tuple((np.arange(points) + i) % points) for i in range(points)]
    values = np.unique(np.concatenate([seeds[:, list(move)] for move in moves]), axis=0)
    turned = rng.choice([-1.0, 1.0], values.shape) if rng.random() < 0.5 else np.ones_like(values)
    return values * turned


def sample(kind: str, goal: str, functions: int, points: int, rng: np.random.Generator) -> Found:
    """One try of a kind of search: "climb", "integers" or "orbits"; the latter two look at a hundred classes."""
    if kind == "climb":
        start = rng.normal(size=(functions, points)) if rng.random() < 0.5 else integer_class(rng, functions, points)
        return climb(start, goal, rng)
    make: Callable[..., np.ndarray] = {"integers": integer_class, "orbits": orbit_class}[kind]
    tried = [make(rng, functions, points) for _ in range(100)]
    quotients = [getattr(ratios(values), goal) for values in tried]
    return Found(max(quotients), tried[int(np.argmax(quotients))])
