"""How large can the constant of the corrected complexity theorem be?  What is proved, and an inequality that would do.

In the notation of minicnn/theory/rademacher.py, without the factor 2/L and with sums over the sample,

    M = sup_f |sum s f|,   P = sup_f (sum s |f|)+,   X = sup_f |sum s |f|| = max(P(s), P(-s)),
    N = sup_f sqrt(((sum s f)^2 + (sum s |f|)^2) / 2),        c* = sup over all classes of E N / E M.

sqrt 2 <= c* <= sqrt 3 is proved there.  What would be enough for c* = sqrt 2 is

    (K1)    E P^2 <= (E M)^2.

**Reduction.**  X^2 <= P(s)^2 + P(-s)^2, so E X^2 <= 2 E P^2 <= 2 (E M)^2; Kahane's inequality gives E M^2 <= 2 (E M)^2;
so (E N)^2 <= E N^2 <= E (M^2 + X^2) / 2 <= 2 (E M)^2.

**The tool.**  Let F0 hold one of f, -f for each f, and G = sup over F0 of (sum s f)+.  Contraction (step 1 there)
applies to F0 alone, so E P^2 <= E G^2 = E [M^2 + m^2] / 2 with m = min(G(s), G(-s)), for every choice of F0.

docs/proofs.md proves (K1) for two functions, for three points and for Gaussian variables in place of signs; it is not
known in general (`python -m experiments.search` looks for a class that breaks it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_POINTS = 14  # 2^14 sign vectors


class Suprema(NamedTuple):
    """M, P, X and N over all 2^L sign vectors, in the order of `cube`: (2^L,) each."""

    M: np.ndarray
    P: np.ndarray
    X: np.ndarray
    N: np.ndarray


class Ratios(NamedTuple):
    """What the searches look at, for one class; each is at most the number beside it, where that is proved."""

    theorem: float  # E N / E M, at most sqrt 3
    k1: float  # E P^2 / (E M)^2, (K1) says at most 1
    modulus: float  # E X / E M = R(|F|) / R(F), at most 2; at most 4/3 for three points
    kahane: float  # E M^2 / (E M)^2, at most 2


def cube(points: int) -> np.ndarray:
    """All 2^points sign vectors, (2^points, points); row i is minus row 2^points - 1 - i."""
    if not 1 <= points <= MOST_POINTS:
        raise ValueError(f"cube: points must be in 1 .. {MOST_POINTS}, got {points}")
    return 1.0 - 2.0 * ((np.arange(2**points)[:, None] >> np.arange(points)[::-1]) & 1)


def suprema(values: np.ndarray) -> Suprema:
    """Of the class `values` (functions, points), by enumeration."""
    signs = cube(values.shape[1])
    s, t = signs @ values.T, signs @ abs(values).T  # (2^L, functions)
    return Suprema(
        abs(s).max(axis=1), np.maximum(t.max(axis=1), 0), abs(t).max(axis=1), np.sqrt((s**2 + t**2) / 2).max(axis=1)
    )


def ratios(values: np.ndarray) -> Ratios:
    """The four quotients of a class that is not all zero."""
    M, P, X, N = suprema(values)
    mean = M.mean()
    if mean == 0:
        raise ValueError("ratios: the class holds nothing but zeros, and R(F) = 0")
    return Ratios(
        float(N.mean() / mean), float((P**2).mean() / mean**2), float(X.mean() / mean), float((M**2).mean() / mean**2)
    )


def flips(m: np.ndarray) -> np.ndarray:
    """D m = 1/2 sum_i (m(s) - m(s with sign i flipped)), for a function m on `cube`: (2^L,) -> (2^L,).

    It multiplies a Walsh function of degree k by k.
    """
    points = int(np.log2(len(m)))
    table = m.reshape((2,) * points)
    return sum((table - np.flip(table, axis=i) for i in range(points)), np.zeros_like(table)).ravel() / 2


def one_sided(values: np.ndarray) -> np.ndarray:
    """G = sup_f (sum s f)+ over the functions as they are given, without their negatives: (2^L,)."""
    return np.maximum((cube(values.shape[1]) @ values.T).max(axis=1), 0)


def smaller_side(values: np.ndarray) -> np.ndarray:
    """m = min(G(s), G(-s)) of the functions as they are given: (2^L,)."""
    G = one_sided(values)
    return np.minimum(G, G[::-1])
