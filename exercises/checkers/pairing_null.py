"""Compares mu with loops, random mu with its exact distribution, and the p-value with what a p-value must be."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from exercises.grading import AnswerError, array, call, same, shown

DRAWS = 49
BANKS = 400


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    examine_mu(answer, rng)
    for shape, draws in [((1, 1, 2, 3), 1500), ((3, 3, 3, 24), 200), ((2, 2, 16, 8), 400)]:
        examine_random(answer, shape, draws, int(rng.integers(2**31)))
    examine_p(answer, rng)


def slow_mu(w: np.ndarray) -> np.ndarray:
    columns = [w[..., i].ravel() for i in range(w.shape[3])]
    return np.array(
        [
            min(float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) for j, b in enumerate(columns) if j != i)
            for i, a in enumerate(columns)
        ]
    )


def examine_mu(answer: ModuleType, rng: np.random.Generator) -> None:
    by_hand = np.array([[3.0, -1.0, 0.0], [0.0, 0.0, 2.0]]).reshape(1, 1, 2, 3)  # cosines -1, 0, 0
    same("mu", call(answer, "mu", by_hand), np.array([-1.0, -1.0, 0.0]), given=f"the filters {shown(by_hand[0, 0])}")
    alike = abs(rng.normal(size=(2, 2, 3, 4)))  # all cosines are positive
    for w in (alike, rng.normal(size=(3, 3, 2, 7)) * np.arange(1, 8)):
        same("mu", call(answer, "mu", w), slow_mu(w), given=f"filters of shape {w.shape}, lengths not 1")


def examine_random(answer: ModuleType, shape: tuple[int, int, int, int], draws: int, seed: int) -> None:
    got, again = (
        array("random_mu", call(answer, "random_mu", shape, draws, np.random.default_rng(seed))) for _ in range(2)
    )
    if got.shape != (draws, shape[3]):
        raise AnswerError(f"random_mu({shape}, {draws}, rng)\n  expected shape  {(draws, shape[3])}\n  got {got.shape}")
    if (got != again).any():
        raise AnswerError("random_mu gives two results for the same rng: draw from the given rng")
    if (got == got[0]).all():
        raise AnswerError(f"random_mu({shape}, {draws}, rng) repeats its draws: draw afresh for every row")
    examine_distribution(f"random_mu({shape}, {draws}, rng)", got, math.prod(shape[:3]))


def examine_distribution(what: str, got: np.ndarray, dimensions: int) -> None:
    """Compares the share of values below t with the exact one, for every t.

    mu is the smallest of K - 1 independent cosines, and (1 + cosine) / 2 has the law Beta((D-1)/2, (D-1)/2).  By the
    inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, a right answer is rejected with probability at most 1e-8.
    """
    from scipy.stats import beta

    draws, K = got.shape
    t = np.sort(got, axis=None)
    exact = 1 - beta.sf((1 + t) / 2, (dimensions - 1) / 2, (dimensions - 1) / 2) ** (K - 1)
    share = np.arange(1, t.size + 1) / t.size
    worst = int(abs(share - exact).argmax())
    if abs(share - exact)[worst] > math.sqrt(math.log(2 * K / 1e-8) / (2 * draws)) + 1 / t.size:
        raise AnswerError(
            f"{what}: the distribution is off by more than chance\n"
            f"  expected  {exact[worst]:.1%} of the values up to {t[worst]:.3f}\n  got       {share[worst]:.1%}\n"
            "  Is every direction equally likely?"
        )


def examine_p(answer: ModuleType, rng: np.random.Generator) -> None:
    half = rng.normal(size=(3, 3, 2, 8))
    pairs = np.concatenate((half, -half), axis=3)
    least = 1 / (DRAWS + 1)
    p = p_of(answer, pairs, rng)
    if not math.isclose(p, least):
        hint = (
            "  The filters themselves are one more draw under the null hypothesis: no p-value is 0." if p == 0 else ""
        )
        raise AnswerError(
            f"p_value of eight filters and their negatives, {DRAWS} draws, none of them as low\n"
            f"  expected  1 / {DRAWS + 1} = {least:g}\n  got       {p:g}\n{hint}".rstrip()
        )
    p = p_of(answer, abs(half), rng)
    if p < 0.9:
        raise AnswerError(
            "p_value of filters that all point to the same side: less opposed than any random ones\n"
            f"  expected  about 1\n  got       {p:g}"
        )
    one_pair = np.eye(18)[:, :15]  # orthogonal, and the opposite of the first: mu is -1, 0, ..., 0, -1
    p = p_of(answer, np.concatenate((one_pair, -one_pair[:, :1]), axis=1).reshape(3, 3, 2, 16), rng)
    if p < 0.9:
        raise AnswerError(
            "p_value of 15 orthogonal filters and the negative of one: their mean mu, -0.125, is higher than that of\n"
            f"  random ones\n  expected  about 1\n  got       {p:g}\n  Which number of a bank is compared?"
        )
    examine_uniform(np.array([p_of(answer, rng.normal(size=(3, 3, 2, 8)), rng) for _ in range(BANKS)]))


def examine_uniform(p: np.ndarray) -> None:
    """Under the null hypothesis P(p <= t) = t for t = 1/50, ..., 1; the inequality is that of examine_distribution."""
    t = np.arange(1, DRAWS + 2) / (DRAWS + 1)
    share = (p <= t[:, None] + 1e-9).mean(axis=1)
    worst = int(abs(share - t).argmax())
    if abs(share - t)[worst] > math.sqrt(math.log(2 / 1e-8) / (2 * len(p))):
        raise AnswerError(
            f"p_value of {len(p)} banks of random filters: under the null hypothesis p is uniform\n"
            f"  expected  {t[worst]:.0%} of them up to {t[worst]:g}\n  got       {share[worst]:.0%}\n"
            "  Are like compared with like?"
        )


def p_of(answer: ModuleType, w: np.ndarray, rng: np.random.Generator) -> float:
    p = array("p_value", call(answer, "p_value", w, DRAWS, np.random.default_rng(int(rng.integers(2**31)))))
    if p.shape != () or not 0 <= p <= 1:
        raise AnswerError(f"p_value should be a number from 0 to 1, got {shown(p)}")
    return float(p)
