"""Pairing filters: planted pairs, loops, the random null, groups, and what cannot be measured."""

import numpy as np
import pytest

from minicnn.analysis.pairing import (
    compare,
    cosine_of_halves,
    cosine_with,
    effective_dimensions,
    expected_mu,
    pairing,
    random_mu,
)
from minicnn.random import Stream
from tests.devices import on_devices
from tests.outside import ALEXNET, needs


def loops(w, groups=1):
    """mu and partner by the definition, one pair of filters at a time."""
    k = w.shape[3]
    mu, partner = [], []
    for i in range(k):
        best = (np.inf, -1)
        for j in range(k):
            if j != i and j // (k // groups) == i // (k // groups):
                a, b = w[..., i].ravel(), w[..., j].ravel()
                best = min(best, (float(sum(a * b) / (sum(a * a) ** 0.5 * sum(b * b) ** 0.5)), j))
        mu.append(best[0])
        partner.append(best[1])
    return np.array(mu), np.array(partner)


@pytest.mark.parametrize(("shape", "groups"), [((3, 3, 3, 8), 1), ((1, 5, 2, 6), 2), ((1, 1, 7, 9), 3)])
@on_devices
def test_it_is_the_definition(rng, shape, groups, device):
    w = rng.normal(size=shape)
    got = pairing(device.put(w), groups=groups)
    mu, partner = loops(w, groups)
    np.testing.assert_allclose(got.mu, mu, atol=1e-12)
    np.testing.assert_array_equal(got.partner, partner)


def test_planted_pairs_are_found_whatever_their_length(rng):
    half = rng.normal(size=(3, 3, 4, 5))
    w = np.concatenate([half, -half * rng.uniform(0.1, 9, 5)], axis=3)
    got = pairing(w.astype(np.float32))
    np.testing.assert_allclose(got.mu, -1, atol=1e-6)
    np.testing.assert_array_equal(got.partner, [5, 6, 7, 8, 9, 0, 1, 2, 3, 4])


def test_a_filter_is_not_its_own_pair_even_if_all_point_the_same_way():
    w = np.ones((1, 1, 2, 3))
    assert pairing(w).partner.tolist() == [1, 0, 0]
    np.testing.assert_allclose(pairing(w).mu, 1)


def test_opposite_filters_of_two_groups_are_no_pair(rng):
    half = np.abs(rng.normal(size=(2, 2, 3, 4)))
    w = np.concatenate([half, -half], axis=3)
    assert pairing(w).mu.max() == pytest.approx(-1)
    assert pairing(w, groups=2).mu.min() > 0  # within a group all are alike


def test_a_filter_of_zeros_has_no_pair_and_is_none(rng):
    w = -np.abs(rng.normal(size=(3, 3, 2, 4)))
    w[..., 1] = 0
    got = pairing(w)
    assert got.partner[1] == -1
    assert np.isnan(got.mu[1])
    assert 1 not in got.partner
    assert np.isfinite(np.delete(got.mu, 1)).all()
    only = pairing(np.stack([w[..., 0], w[..., 1]], axis=-1))
    assert np.isnan(only.mu).all()


@pytest.mark.parametrize(
    ("filters", "shape", "mean"),
    [(96, (3, 3, 3), -0.462), (64, (3, 3, 3), -0.437), (96, (11, 11, 3), -0.130), (96, (3, 3, 96), -0.085)],
)
def test_the_null_of_a_small_filter_is_far_from_zero(filters, shape, mean):
    """Three ways: the integral, our banks, and banks drawn and paired here by other code."""
    other, D, means = np.random.default_rng(1), int(np.prod(shape)), []
    for _ in range(4):
        phi = other.normal(size=(filters, D))
        phi /= np.sqrt((phi**2).sum(1, keepdims=True))
        means.append(np.mean([min(phi[i] @ phi[j] for j in range(filters) if j != i) for i in range(filters)]))
    assert np.mean(means) == pytest.approx(mean, abs=0.02)
    assert expected_mu(filters, D) == pytest.approx(mean, abs=0.0006)
    null = random_mu((*shape, filters), draws=4, stream=Stream(0))
    assert null.shape == (4, filters)
    assert null.mean() == pytest.approx(mean, abs=0.02)


def test_the_expectation_where_it_is_known():
    """Of two filters mu is one cosine, mean 0; in one dimension cosines are signs; in two, uniform angles."""
    assert expected_mu(2, 5) == pytest.approx(0, abs=1e-6)
    assert expected_mu(3, 1) == pytest.approx(-0.5)
    # min of two cosines of uniform angles: -E|c1 - c2| / 2 = -4 / pi^2
    assert expected_mu(3, 2) == pytest.approx(-4 / np.pi**2, abs=1e-4)
    with pytest.raises(ValueError, match="2 filters"):
        expected_mu(1, 5)


@pytest.mark.parametrize("halves", [-1.0, -0.6])
def test_random_filters_whose_halves_are_correlated(halves):
    """As other code draws and pairs them; if one half repeats the other, as with half of the dimensions."""
    other, means = np.random.default_rng(1), []
    for _ in range(10):
        a, b = other.multivariate_normal([0, 0], [[1, halves], [halves, 1]], size=(18, 40)).transpose(2, 0, 1)
        phi = np.concatenate([a, b]).T
        phi /= np.sqrt((phi**2).sum(1, keepdims=True))
        means.append(np.mean([min(phi[i] @ phi[j] for j in range(40) if j != i) for i in range(40)]))
    found = random_mu((3, 3, 4, 40), halves=halves, draws=10, stream=Stream(0)).mean()
    assert found == pytest.approx(np.mean(means), abs=0.01)
    plain = random_mu((3, 3, 4, 40), draws=10, stream=Stream(0)).mean()
    assert found < plain - 0.03
    assert expected_mu(40, effective_dimensions((3, 3, 4, 40), halves)) == pytest.approx(found, abs=0.015)
    assert effective_dimensions((3, 3, 4, 40), -1.0) == 18
    with pytest.raises(ValueError, match="a correlation of two halves, got -0.5 for 3 channels"):
        random_mu((3, 3, 3, 40), halves=-0.5, stream=Stream(0))


def test_the_cosine_of_the_halves_of_filters():
    """Of (3, 4) with (6, 8) it is 1, with (-4, 3) 0; of zeros there is none."""
    w = np.array([[3.0, 4, 6, 8], [3, 4, -4, 3], [1, 2, 0, 0]]).T.reshape(1, 1, 4, 3)
    assert cosine_of_halves(w) == pytest.approx(0.5)
    assert cosine_of_halves(0 * w) == 0


def test_random_filters_pass_the_test_and_planted_pairs_do_not():
    null = random_mu((3, 3, 3, 32), stream=Stream(0))
    w = np.random.default_rng(5).normal(size=(3, 3, 3, 32))
    same = compare(pairing(w).mu, null)
    assert same.p_value > 0.01
    assert same.filters == 32
    assert same.quantiles[0] < same.mean < same.quantiles[-1]
    w[..., 16:] = -w[..., :16]
    paired = compare(pairing(w).mu, null)
    assert paired.p_value < 1e-10
    assert paired.ks == pytest.approx(1)
    assert paired.mean == pytest.approx(-1)


@on_devices
def test_how_far_filters_have_turned(device):
    start = np.array([[1.0, 0, 2, 0]] * 2 + [[0, 1.0, 0, 0]]).reshape(3, 1, 1, 4)  # columns of three numbers
    now = np.array([[2.0, 1, -4, 1]] * 2 + [[0, 0, 0, 1.0]]).reshape(3, 1, 1, 4)
    np.testing.assert_allclose(cosine_with(device.put(now), device.put(start)), [1, 0, -1, np.nan], atol=1e-12)
    with pytest.raises(ValueError, match="did not start as"):
        cosine_with(now, start[:2])


def test_draws_do_not_depend_on_each_other():
    few, many = (random_mu((3, 3, 1, 4), draws=n, stream=Stream(3)) for n in (2, 4))
    np.testing.assert_array_equal(few, many[:2])


@pytest.mark.parametrize(
    ("w", "groups", "message"),
    [
        (np.ones((3, 3, 2)), 1, "shape"),
        (np.full((1, 1, 1, 2), np.nan), 1, "NaN"),
        (np.ones((1, 1, 2, 1)), 1, "1 filters in 1 groups"),
        (np.ones((1, 1, 2, 9)), 2, "9 filters in 2 groups"),
        (np.ones((1, 1, 2, 4)), 4, "at least 2"),
        (np.ones((1, 1, 2, 4)), 0, "0 groups"),
    ],
)
def test_what_cannot_be_paired_is_refused(w, groups, message):
    with pytest.raises(ValueError, match=message):
        pairing(w, groups=groups)


def test_a_layer_without_directions_cannot_be_compared():
    with pytest.raises(ValueError, match="no filter"):
        compare(np.array([np.nan]), np.zeros(3))


@needs(ALEXNET)
def test_alexnet_has_pairs_that_fade_with_depth():
    expected = [(-0.504, -0.124), (-0.248, -0.068), (-0.168, -0.070), (-0.106, -0.047), (-0.057, -0.059)]
    with np.load(ALEXNET) as file:
        weights = [file[f"conv{i}_w"].transpose(2, 3, 1, 0) for i in range(1, 6)]
    for i, (w, (mean, null_mean)) in enumerate(zip(weights, expected, strict=True)):
        draws = 10 if i == 0 else 1
        result = compare(pairing(w).mu, random_mu(w.shape, draws=draws, stream=Stream(0)))
        assert result.mean == pytest.approx(mean, abs=0.0006)
        assert result.null_mean == pytest.approx(null_mean, abs=0.002)


def test_a_comparison_by_hand():
    """mu -0.8, -0.6; random -0.3, -0.1, 0.1 (and one filter without a direction)."""
    found = compare(np.array([-0.8, -0.6, np.nan]), np.array([[-0.3, -0.1, 0.1]]))
    assert (found.filters, found.mean, found.deviation) == pytest.approx((2, -0.7, 0.1))
    assert (found.null_mean, found.null_deviation) == pytest.approx((-0.1, np.sqrt(0.08 / 3)))
    assert found.quantiles == pytest.approx((-0.79, -0.75, -0.7, -0.65, -0.61))
    assert found.null_quantiles == pytest.approx((-0.28, -0.2, -0.1, 0, 0.08))
    assert found.ks == 1


def test_exact_pairs_have_a_cosine_of_minus_one_and_not_less():
    half = np.random.default_rng(0).normal(size=(3, 3, 3, 50))
    mu = pairing(np.concatenate((half, -half), axis=3)).mu
    assert mu.min() == -1
    np.testing.assert_allclose(mu, -1)
