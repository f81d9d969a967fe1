"""Random signals for the statements about pooling, and random classes of functions for those about complexity.

Both are drawn once per seed; all checks, and the figures, share them.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.statements.base import SLACK
from minicnn.theory.frames import frame_bounds, shift_matrix
from minicnn.theory.pooling import (
    RatioBounds,
    most_of_one_sign,
    one_of_each_sign,
    pool_signal,
    ratio_bounds,
    reconstruct_signal,
    shared_bound,
    theorem_matrices,
    unconditional_bound,
)
from minicnn.theory.rademacher import NORMS, layer

CASES = 1500
RECOVERED = 1e-7  # a ratio up to this is rounding


class Signal(NamedTuple):
    """x = W c in R^D, where the columns of W are all shifts of the filters."""

    filters: np.ndarray  # (l, K)
    c: np.ndarray  # (K, n)
    D: int
    stride: int = 1

    @property
    def x(self) -> np.ndarray:
        return shift_matrix(self.filters, self.D, stride=self.stride) @ self.c.ravel()


class Case(NamedTuple):
    """What Algorithm 2 makes of a signal, and both sides of the theorem, with the signs of c or of the responses."""

    ratio: float  # ||x - x'|| / ||x||
    bounds: RatioBounds
    independent: bool  # the columns of W_x
    lower: float  # l = sigma_min(W_x)^2, the smallest that is not 0
    upper: float  # L = sigma_max(W~)^2
    responses: float  # ||W_x' x||^2
    pooled: float  # ||W~' x||^2
    norm: float  # ||x||^2

    @property
    def violates(self) -> bool:
        """Whether ratio <= ours <= the paper's fails.  NaN is no bound at all, so it fails."""
        ours, paper = self.bounds
        return not (self.ratio <= ours * SLACK + RECOVERED and ours <= paper * SLACK)


def examine(signal: Signal, signs: str = "coefficients") -> Case:
    """Reconstruct a signal after pooling; `signs` choose W~ (theorem_matrices)."""
    filters, c, D, stride = signal
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, D, stride=stride, signs=signs)
    found = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    frame = frame_bounds(W_x)
    return Case(
        float(np.linalg.norm(x - found) / np.linalg.norm(x)),
        ratio_bounds(W_x, W_tilde),
        frame.rank == W_x.shape[1],
        frame.lower,
        frame_bounds(W_tilde).upper if W_tilde.shape[1] else 0.0,
        float(((W_x.T @ x) ** 2).sum()),
        float(((W_tilde.T @ x) ** 2).sum()),
        float(x @ x),
    )


class CrowdedCase(NamedTuple):
    """A signal that may use a filter at many shifts with one sign: its ratio, and the bounds without the assumption."""

    ratio: float
    shared: float  # sqrt(1 - l / (mu L))
    unconditional: float  # sqrt(1 - lambda+_min(W) / (n lambda_max(W^)))
    as_if_one: float  # sqrt(1 - l / L), which needs mu = 1


def examine_crowded(signal: Signal) -> CrowdedCase:
    """With the signs of the responses, which need no unique c."""
    filters, c, D, stride = signal
    x, W_x, W_tilde, W_hat = theorem_matrices(filters, c, D, stride=stride, signs="responses")
    W = shift_matrix(filters, D, stride=stride)
    found = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    r = np.where(c != 0, (W.T @ x).reshape(c.shape), 0)
    return CrowdedCase(
        float(np.linalg.norm(x - found) / np.linalg.norm(x)),
        shared_bound(W_x, W_tilde, most_of_one_sign(r)),
        unconditional_bound(W, W_hat, c.shape[1]),
        shared_bound(W_x, W_tilde, 1),
    )


def random_signal(rng: np.random.Generator) -> Signal:
    """Integer filters; each is used at no shift, at one, or at one with c > 0 and one with c < 0."""
    length, K, stride, n = rng.integers(1, 4), rng.integers(1, 6), rng.integers(1, 3), rng.integers(1, 5)
    filters = rng.integers(-3, 4, (length, K)).astype(float)
    filters[rng.integers(length), np.arange(K)] = rng.choice([-3, -2, -1, 1, 2, 3], K)  # none is zero
    c = np.zeros((K, n))
    for i in range(K):
        used = rng.permutation(n)[: rng.integers(0 if i else 1, 3)]
        c[i, used] = (rng.integers(1, 5, 2) * rng.choice([[-1, 1], [1, -1]]))[: len(used)]
    return Signal(filters, c, int(length + (n - 1) * stride), int(stride))


@cache
def random_signals(seed: int) -> list[Signal]:
    """CASES signals, none of which is 0."""
    rng = np.random.default_rng(seed)
    found: list[Signal] = []
    while len(found) < CASES:
        signal = random_signal(rng)
        if signal.x.any():
            found.append(signal)
    return found


@cache
def random_cases(seed: int) -> list[Case]:
    """The random signals, examined with the signs of c."""
    return [examine(signal) for signal in random_signals(seed)]


def independent_cases(seed: int) -> list[Case]:
    """The random cases that the theorem is about: the columns of W_x are independent."""
    return [case for case in random_cases(seed) if case.independent]


@cache
def response_cases(seed: int) -> list[Case]:
    """Examined with the signs of the responses, where each filter has at most one of either sign."""
    found = []
    for signal in random_signals(seed):
        W, c = shift_matrix(signal.filters, signal.D, stride=signal.stride), signal.c
        r = np.where(c != 0, (W.T @ signal.x).reshape(c.shape), 0)
        if one_of_each_sign(r):
            found.append(examine(signal, "responses"))
    return found


@cache
def crowded_cases(seed: int) -> list[CrowdedCase]:
    """The random signals with other coefficients: any number of shifts of a filter, with any sign."""
    rng, found = np.random.default_rng(seed), []
    for filters, c, D, stride in random_signals(seed)[: CASES // 2]:
        signal = Signal(filters, rng.integers(-2, 3, c.shape).astype(float), D, stride)
        if signal.x.any():
            found.append(examine_crowded(signal))
    return found


@cache
def random_classes(seed: int) -> list[np.ndarray]:
    """CASES classes (functions, points) of 1 to 4 functions on 1 to 6 points: small integers, or normal values."""
    rng = np.random.default_rng(seed)
    shapes = rng.integers(1, [5, 7], (CASES, 2))
    return [rng.integers(-2, 3, s).astype(float) if i % 2 else rng.normal(size=s) for i, s in enumerate(shapes)]


@cache
def complexities(seed: int) -> dict[str, np.ndarray]:
    """R(rho o F) of the random classes, for every activation rho: (CASES,) each."""
    return {name: np.array([layer(v, activation=name).value for v in random_classes(seed)]) for name in NORMS}
