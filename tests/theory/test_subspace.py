"""Random subspaces: the paper's theorem (false as printed), and where the random column of Table S1 comes from."""

import itertools
from fractions import Fraction
from math import factorial, inf, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.random import Stream
from minicnn.theory import subspace
from minicnn.theory.monte_carlo import MonteCarlo
from minicnn.theory.subspace import (
    crelu_regions,
    mean_ratio,
    projection_ratio,
    random_filter_ratio,
    root_ratio,
    simulated_ratio,
    white_regions,
)
from tests import draw
from tests.devices import on_devices

dimensions = st.integers(1, 3000).flatmap(lambda D: st.tuples(st.integers(1, D), st.just(D)))


# --- Theorem random_subspace ---


@pytest.mark.parametrize(("s", "D", "value"), [(1, 2, 2 / pi), (1, 3, 1 / 2), (2, 3, pi / 4), (2, 4, 2 / 3), (0, 5, 0)])
def test_mean_ratio_by_hand(s, D, value):
    np.testing.assert_allclose(mean_ratio(s, D), value, rtol=1e-14)


@pytest.mark.parametrize(("s", "D"), [(20, 30), (24, 198), (150, 180), (198, 202), (198, 400)])
def test_mean_ratio_of_even_dimensions_is_a_fraction(s, D):
    """Gamma(m + 1/2) / Gamma(m) = sqrt(pi) (2m)! / (4^m m! (m - 1)!): exact, before the series begins and after."""

    def step(m):
        return Fraction(factorial(2 * m), 4**m * factorial(m) * factorial(m - 1))

    np.testing.assert_allclose(mean_ratio(s, D), float(step(s // 2) / step(D // 2)), rtol=3e-13)


def test_the_theorem_is_false():
    """E ||x_s||/||x|| = sqrt(s/D) fails at the least case, and by little at the paper's sizes."""
    assert root_ratio(1, 2) - mean_ratio(1, 2) > 0.07
    np.testing.assert_allclose([mean_ratio(1152, 1200), root_ratio(1152, 1200)], [0.979787, 0.979796], atol=5e-7)


@given(sizes=dimensions)
def test_mean_ratio_is_below_the_root(sizes):
    s, D = sizes
    mean, root = mean_ratio(s, D), root_ratio(s, D)
    assert mean == root == 1 if s == D else 0 < mean < root
    second_order = root * (1 - (1 / s - 1 / D) / 4)
    assert abs(second_order / mean - 1) <= 0.07 / s**2 + 1e-14


@given(sizes=dimensions, more=st.integers(0, 2000))
def test_mean_ratio_against_scipy_and_in_two_steps(sizes, more):
    """A random subspace of a random subspace is one: the mean ratios multiply."""
    from scipy.special import gammaln

    s, D = sizes
    log = gammaln((s + 1) / 2) - gammaln(s / 2) + gammaln(D / 2) - gammaln((D + 1) / 2)
    np.testing.assert_allclose(mean_ratio(s, D), np.exp(log), rtol=1e-10)
    np.testing.assert_allclose(mean_ratio(s, D) * mean_ratio(D, D + more), mean_ratio(s, D + more), rtol=1e-13)


@on_devices
@pytest.mark.parametrize(("s", "D"), [(1, 2), (3, 8), (6, 8), (4, 30)])
def test_simulation(device, s, D):
    by = MonteCarlo(3000, Stream(0), 0.999)
    for power, expected in ((1, mean_ratio(s, D)), (2, s / D)):
        low, high = simulated_ratio(s, D, by, power=power, device=device).interval
        assert low < expected < high
    assert simulated_ratio(s, D, MonteCarlo(2, Stream(0))) == simulated_ratio(s, D, MonteCarlo(2, Stream(0)))


def test_the_subspace_must_be_uniformly_random():
    """On the span of s random axes, x = e_1 is kept whole or lost: E ||x_s||^2 is still s/D, E ||x_s|| is s/D too."""
    s, D = 2, 5
    kept = [projection_ratio(np.eye(D)[:, list(axes)], np.eye(D)[0]) for axes in itertools.combinations(range(D), s)]
    np.testing.assert_allclose([np.mean(kept), np.mean(np.square(kept))], [s / D, s / D])
    assert np.mean(kept) < mean_ratio(s, D) - 0.1


def test_the_subspace_must_not_depend_on_x():
    """Choose the better of two random lines for each x, and the ratio is larger."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4000, 2, 6, 1)), rng.normal(size=(4000, 1, 6))
    best = projection_ratio(w, x).max(axis=1).mean()
    assert best > 1.3 * mean_ratio(1, 6)


# --- projections ---


@on_devices
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_projection_ratio(device, data, dtype):
    D, s, n = (data.draw(st.integers(1, 6)) for _ in range(3))
    rng = draw.rng(data.draw)
    w, x = rng.normal(size=(n, D, s)), rng.normal(size=(n, D))
    w[..., rng.random(s) < 0.2] = 0
    expected = [np.linalg.norm(a @ np.linalg.pinv(a) @ v) / np.linalg.norm(v) for a, v in zip(w, x, strict=True)]
    w = np.concatenate((w, w[..., :1], -3 * w), axis=-1)[..., rng.permutation(2 * s + 1)]  # dependent columns
    got = device.get(projection_ratio(device.put(w.astype(dtype)), device.put(x.astype(dtype))))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, atol=1e-3 if dtype == np.float32 else 1e-9)


# --- what the paper's random filters saw ---


def test_blurred_features():
    """Variance 1 before CReLU, correlation exp(-distance^2 / (4 blur^2)), exactly one phase on."""
    for blur, correlation in ((0, 0), (1.0, np.exp(-1 / 4)), (3.0, np.exp(-1 / 36)), (inf, 1)):
        x = crelu_regions(400, size=2, channels=40, blur=blur, stream=Stream(0))
        g = x[..., :20] - x[..., 20:]
        assert not np.any(x[..., :20] * x[..., 20:])
        assert abs((g**2).mean() - 1) < 0.04
        assert abs((g[:, 0] * g[:, 1]).mean() - correlation) < 0.04
    assert white_regions(3, stream=Stream(0)).shape == crelu_regions(3, blur=1, stream=Stream(0)).shape == (3, 5, 5, 96)


def test_the_random_column_of_table_s1():
    """.99 is the figure of features that do not vary over the patch; white noise would give .95."""
    by = MonteCarlo(6, Stream(0))
    ratios = [random_filter_ratio(by, blur=blur, regions=4).value for blur in (None, 0, 1, 3, inf)]
    np.testing.assert_allclose(ratios, [0.952, 0.961, 0.973, 0.984, 0.990], atol=0.004)
    assert ratios == sorted(ratios)
    assert abs(ratios[-1] - root_ratio(2400 - 48, 2400)) < 0.003
    assert abs(ratios[0] - root_ratio(2400 - 96, 2400)) > 0.02  # the switches depend on x: not a random subspace


def test_banks_of_random_filters_differ_and_the_interval_says_by_how_much():
    """40 estimates from ten small banks each: half a 90 % interval is 1.645 times their spread."""
    small = {"channels": 2, "filters": 2, "regions": 1, "blur": 1}
    found = [random_filter_ratio(MonteCarlo(10, Stream(i), 0.9), **small) for i in range(40)]
    spread = np.std([one.value for one in found], ddof=1)
    np.testing.assert_allclose(np.mean([one.half_width for one in found]), 1.645 * spread, rtol=0.3)


def test_every_bank_has_filters_and_regions_of_its_own(monkeypatch):
    """With the same regions in each bank, other filters make other ratios; and so the other way round."""
    ratios = []

    class Seen(subspace.PooledConvolution):
        def __init__(self, w):
            super().__init__(w)
            ratios.append(w[0, 0, 0, 0])

        def ratios(self, x):
            ratios.append(x[0, 0, 0, 0])
            return super().ratios(x)

    monkeypatch.setattr(subspace, "PooledConvolution", Seen)
    random_filter_ratio(MonteCarlo(5, Stream(0)), channels=4, filters=2, regions=1, blur=None)
    assert len(set(ratios)) == 10


@on_devices
def test_the_random_column_on_devices(device):
    by = MonteCarlo(2, Stream(0))
    here, there = (
        random_filter_ratio(by, blur=1, channels=8, filters=4, regions=3, **on) for on in ({}, {"device": device})
    )
    np.testing.assert_allclose(here.value, there.value, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_ratio(3, 2), "0 <= s <= D"),
        (lambda: root_ratio(0, 0), "D >= 1"),
        (lambda: simulated_ratio(0, 2, MonteCarlo(2, Stream(0))), "nothing to simulate"),
        (lambda: projection_ratio(np.ones((3, 2)), np.ones(2)), "\\(3, 2\\) and x \\(2,\\)"),
        (lambda: projection_ratio(np.ones((3, 2)), np.zeros(3)), "undefined for x = 0"),
        (lambda: crelu_regions(1, channels=3, blur=1, stream=Stream(0)), "even number of channels"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
