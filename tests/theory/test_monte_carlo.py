"""Estimated means and their intervals: by hand, and how often they hold the truth."""

from math import sqrt

import numpy as np
import pytest

from minicnn.random import Stream
from minicnn.theory.monte_carlo import Estimate, MonteCarlo


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, variance 1, and 1.959964 standard errors on both sides for 95 %."""
    found = MonteCarlo(3, Stream(0)).estimate(total=6.0, total_square=14.0)
    assert (found.value, found.samples) == (2, 3)
    assert found.half_width == pytest.approx(1.959964 / sqrt(3), rel=1e-6)
    assert found.interval == pytest.approx((2 - 1.131586, 2 + 1.131586), rel=1e-6)
    assert found.scaled(2).interval == pytest.approx((4 - 2.263171, 4 + 2.263171), rel=1e-6)


def test_an_exact_value_has_no_width():
    assert Estimate(1.5).interval == (1.5, 1.5)
    assert Estimate(1.5).samples is None


def test_equal_draws_have_no_width_whatever_the_rounding():
    assert MonteCarlo(3, Stream(0)).estimate(3 * 0.1, 3 * 0.01 - 1e-18).half_width == 0


def test_coverage():
    """Means of 200 exponential variables, 90 %: normal enough."""
    draws = np.random.default_rng(3).exponential(size=(2000, 200))
    by = MonteCarlo(200, Stream(0), level=0.9)
    intervals = [by.estimate(float(x.sum()), float((x * x).sum())).interval for x in draws]
    assert np.mean([low < 1 < high for low, high in intervals]) == pytest.approx(0.9, abs=0.02)  # 3 deviations


@pytest.mark.parametrize(("samples", "level", "message"), [(1, 0.95, "samples >= 2"), (9, 1.0, "level")])
def test_errors(samples, level, message):
    with pytest.raises(ValueError, match=message):
        MonteCarlo(samples, Stream(0), level)
