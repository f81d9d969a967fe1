"""The search for a class above the conjectured constants: it climbs, it finds the known maxima, it is not fooled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.theory import class_search
from minicnn.theory.class_search import GOALS, climb, integer_class, orbit_class, sample
from minicnn.theory.sharp_constant import ratios, suprema


def mean(values, goal):
    """E P^2 or E N, of which the search follows the slope."""
    found = suprema(values)
    return (found.P**2).mean() if goal == "k1" else found.N.mean()


@pytest.mark.parametrize("goal", GOALS)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_slope_is_the_derivative(goal, seed):
    """Against differences, away from zeros and ties."""
    values = np.random.default_rng(seed).normal(size=(3, 3))
    values += 0.1 * np.sign(values)
    slope = class_search._slope(values, np.sign(values), goal)
    for k, i in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[k, i] = 1e-6
        difference = (mean(values + step, goal) - mean(values - step, goal)) / 2e-6
        assert slope[k, i] == pytest.approx(difference, abs=1e-5)


@pytest.mark.parametrize("goal", GOALS)
def test_a_corner_has_complexity_one_and_the_signs_it_was_given(goal):
    generator = np.random.default_rng(0)
    values, signs = generator.normal(size=(3, 4)), generator.choice([-1.0, 1.0], (3, 4))
    slope = class_search._slope(values, np.sign(values), goal)
    corner = class_search._corner(slope, signs)
    assert suprema(corner).M.mean() == pytest.approx(1)
    assert (corner * signs >= 0).all()
    others = [signs * abs(generator.normal(size=(3, 4))) for _ in range(200)]
    assert (slope * corner).sum() >= max((slope * v / suprema(v).M.mean()).sum() for v in others)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("seed", range(3))
def test_a_climb_never_goes_down_and_reports_what_it_found(goal, seed):
    generator = np.random.default_rng(seed)
    start = generator.normal(size=(3, 4))
    found = climb(start, goal, generator)
    assert found.quotient >= getattr(ratios(start), goal)
    assert found.quotient == pytest.approx(getattr(ratios(found.values), goal))


def test_the_known_maxima_are_found():
    """From a hundredth beside {(1, -1)}: (K1) with equality, and sqrt 2; and no start of ten goes above."""
    near = np.array([[1.0, -0.9], [0.1, 0.2]])
    assert climb(near, "k1", np.random.default_rng(0)).quotient == pytest.approx(1)
    assert climb(near, "theorem", np.random.default_rng(0)).quotient == pytest.approx(2**0.5)
    for goal, most in GOALS.items():
        best = max(sample("climb", goal, 2, 3, np.random.default_rng(i)).quotient for i in range(10))
        assert best == pytest.approx(most)


def test_it_would_find_a_class_above_a_smaller_constant():
    """If (K1) said .9, or the theorem 1.3, as the paper's says 1, the first starts would refute it."""
    assert max(sample("climb", "k1", 2, 3, np.random.default_rng(i)).quotient for i in range(5)) > 0.9
    assert max(sample("integers", "theorem", 1, 2, np.random.default_rng(i)).quotient for i in range(2)) > 1.3


@given(functions=st.integers(1, 8), points=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_orbits_are_closed(functions, points, seed):
    """Up to signs, each rotation of a function of an orbit is one of it."""
    values = abs(orbit_class(np.random.default_rng(seed), functions, points))
    rows = {tuple(row) for row in values}
    assert {tuple(np.roll(row, 1)) for row in values} == rows
    assert integer_class(np.random.default_rng(seed), functions, points).any()
