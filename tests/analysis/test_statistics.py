"""Intervals against values worked out by hand, scipy's tests, and drawing images one by one."""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from minicnn.analysis.statistics import (
    Interval,
    bootstrap,
    holm,
    mcnemar,
    paired_difference,
    t_interval,
    t_test,
    verdict,
)


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.30265, half 4.30265 / sqrt 3 = 2.48414."""
    found = t_interval([1.0, 2.0, 3.0])
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half == pytest.approx(2.48414, abs=1e-5)
    assert (found.low, found.high) == pytest.approx((-0.48414, 4.48414), abs=1e-5)


def test_paired_differences_are_those_of_scipy():
    a, b = np.random.default_rng(0).normal(size=(2, 7))
    found, test = paired_difference(a, b, confidence=0.9), stats.ttest_rel(a, b)
    low, high = test.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.mean == pytest.approx((a - b).mean())


def test_p_is_that_of_the_formula_and_of_the_interval():
    x = np.random.default_rng(0).normal(0.5, 1, 6)
    p = t_test(x)
    assert p == pytest.approx(2 * stats.t.sf(abs(x.mean()) / (x.std(ddof=1) / np.sqrt(6)), 5), rel=1e-12)
    assert t_interval(x, 1 - p).low == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="two or more"):
        t_test([1.0])


@pytest.mark.parametrize("values", [[2.0, 2.0], [0.0, 0.0], [9.41 - 9.30, 9.22 - 9.11]])
def test_equal_values_are_no_certainty(values):
    """Errors come in steps of one image: two pairs that differ alike are chance.  The last differ by rounding alone."""
    found = t_interval(values)
    assert (found.low, found.high, found.half, found.sign, found.n) == (None, None, None, 0, 2)
    assert found.mean == pytest.approx(values[0])
    assert t_test(values) == 1.0
    assert verdict("a", "b", found).startswith("No claim: 2 pairs of networks that differ alike (a ")
    assert t_interval([0.11, 0.12]).half == pytest.approx(12.7062 * 0.005, rel=1e-4)


def test_holm_by_hand():
    """0.05 / 3 = 0.0167, 0.05 / 2 = 0.025, 0.05: the second is too large, so the third does not count either."""
    assert holm([0.04, 0.01, 0.03]) == [False, True, False]
    assert holm([0.05, 0.016, 0.025]) == [True, True, True]
    assert holm([0.017, 0.9, 0.9]) == [False, False, False]
    assert holm([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([np.nan, 0.9])


def test_holm_seldom_finds_what_is_not_there():
    """In 2,000 tables of seven layers where nothing is different: something in 5 % of them at most, not in 30 %."""
    p = np.random.default_rng(0).random((2000, 7))
    assert np.mean([any(holm(row)) for row in p]) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)
    assert (p < 0.05).any(axis=1).mean() > 0.25


def test_pairing_removes_what_both_share():
    """Seeds differ by points, the networks of each by about 1: 0.9, 1, 1.1 have s = 0.1."""
    base = np.array([20.0, 25.0, 31.0])
    assert paired_difference(base - [0.9, 1.0, 1.1], base).half == pytest.approx(0.248414, abs=1e-5)
    assert t_interval(base).half > 10


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = [t_interval(rng.normal(3, 2, 5)) for _ in range(2000)]
    share = np.mean([i.low <= 3 <= i.high for i in hits])
    assert share == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 2000))


def test_one_pair_has_no_interval_and_allows_no_claim():
    found = paired_difference([24.0], [25.5])
    assert found == Interval(-1.5, None, None, 1)
    assert (found.half, found.sign) == (None, 0)
    assert verdict("CReLU", "ReLU", found).startswith("No claim: one pair of networks (CReLU 1.50 points below ReLU)")


@pytest.mark.parametrize(
    ("low", "high", "sign", "words"),
    [
        (-2.0, -0.4, -1, "A is better than B by 1.20 points (95 % interval -2.00 to -0.40, 5 paired seeds)."),
        (0.4, 2.0, 1, "A is worse than B by 1.20 points"),
        (-0.4, 2.8, 0, "No difference shown between A and B: +1.20 points"),
        (0.0, 2.4, 0, "No difference shown"),
    ],
)
def test_verdicts_need_an_interval_on_one_side_of_zero(low, high, sign, words):
    found = Interval(abs(low + high) / 2 * (-1 if high < 0 else 1), low, high, 5)
    assert found.sign == sign
    assert verdict("A", "B", found).startswith(words)


def test_the_bootstrap_is_that_of_all_samples():
    """Three images have 27 samples of three, equally likely; quantiles of their means by enumeration."""
    a, b = np.array([True, True, False]), np.array([False, True, True])
    every = np.array([np.mean([[1, 0, -1][i] for i in s]) for s in product(range(3), repeat=3)])
    found = bootstrap(a, b, draws=200_000, confidence=0.6)
    assert (found.mean, found.n) == (0, 3)
    assert (found.low, found.high) == pytest.approx(100 * np.quantile(every, (0.2, 0.8)))


def test_the_bootstrap_agrees_with_drawing_images_one_by_one():
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 3, 400)) < [[[0.3]], [[0.25]]]  # three networks of each kind
    d = a.mean(axis=0) - b.mean(axis=0)
    means = 100 * d[rng.integers(0, 400, (20_000, 400))].mean(axis=1)
    found = bootstrap(a, b, draws=20_000)
    assert found.mean == pytest.approx(100 * (a.mean() - b.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.025, 0.975))), abs=0.15)
    assert bootstrap(a, b, seed=3) == bootstrap(a, b, seed=3) != bootstrap(a, b, seed=4)


def test_networks_that_always_agree_have_an_interval_of_no_width():
    a = np.array([True, False, True])
    assert (bootstrap(a, a).low, bootstrap(a, a).high) == (0, 0)
    assert mcnemar(a, a) == 1


def test_mcnemar_by_hand_and_by_the_sum_of_binomials():
    """a alone errs on 1 image, b alone on 5: p = 2 (1 + 6) / 64."""
    a = np.array([True] * 1 + [False] * 5 + [True] * 4)
    b = np.array([False] * 1 + [True] * 5 + [True] * 4)
    assert mcnemar(a, b) == mcnemar(b, a) == pytest.approx(14 / 64, rel=1e-12)
    rng = np.random.default_rng(4)
    for more in (0.3, 0.31, 0.35):
        a, b = rng.random((2, 3000)) < [[0.3], [more]]
        only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
        n = only_a + only_b
        tail = sum(comb(n, k) for k in range(min(only_a, only_b) + 1))  # whole numbers, exact until the division
        assert mcnemar(a, b) == mcnemar(b, a) == pytest.approx(min(1.0, 2 * tail / 2**n), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: t_interval([]), "one or more finite numbers"),
        (lambda: t_interval([1.0, np.nan]), "one or more finite numbers"),
        (lambda: t_interval([1.0, 2.0], confidence=95), "between 0 and 1"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "1 and 2 values are not pairs"),
        (lambda: bootstrap(np.zeros(3, bool), np.zeros(4, bool)), "not the same images"),
        (lambda: bootstrap(np.zeros(0, bool), np.zeros(0, bool)), "not the same images"),
        (lambda: mcnemar(np.zeros((1, 3), bool), np.zeros((1, 3), bool)), "not the same images"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
