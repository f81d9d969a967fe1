"""Outgoing weights: equal and negated phases, loops, the random expectation."""

import numpy as np
import pytest

from minicnn.analysis.correlation import outgoing_correlation, random_absolute_cosine
from tests.devices import on_devices


def loops(w):
    channels = w.shape[2]
    C, pair, others = channels // 2, [], []
    for c in range(C):
        for e in range(C):
            u, v = w[:, :, c].ravel(), w[:, :, C + e].ravel()
            cosine = sum(u * v) / (sum(u * u) * sum(v * v)) ** 0.5
            (pair if c == e else others).append(cosine)
    return pair, others


@pytest.mark.parametrize("shape", [(3, 3, 4, 5), (1, 1, 6, 2), (1, 3, 2, 1)])
@on_devices
def test_it_is_the_definition(rng, shape, device):
    w = rng.normal(size=shape)
    got = outgoing_correlation(device.put(w))
    pair, others = loops(w)
    np.testing.assert_allclose(got.pair, pair, atol=1e-12)
    np.testing.assert_allclose(got.non_pair, others, atol=1e-12)
    assert got.dimensions == shape[0] * shape[1] * shape[3]


@pytest.mark.parametrize("sign", [1, -1])
def test_equal_phases_give_one_and_negated_ones_minus_one(rng, sign):
    """+1 is |x|, -1 is x: the absolute value alone cannot tell them apart."""
    half = rng.normal(size=(3, 3, 4, 6))
    w = np.concatenate([half, sign * half * rng.uniform(0.1, 5, (1, 1, 4, 1))], axis=2)
    np.testing.assert_allclose(outgoing_correlation(w).pair, sign)


def test_a_matrix_on_flattened_maps_is_read_as_filters_are(rng):
    w = rng.normal(size=(2, 3, 4, 5))
    flat, whole = outgoing_correlation(w.reshape(24, 5), channels=4), outgoing_correlation(w)
    np.testing.assert_array_equal(flat.pair, whole.pair)
    np.testing.assert_array_equal(flat.non_pair, whole.non_pair)


def test_dead_channels_are_left_out(rng):
    w = rng.normal(size=(3, 3, 6, 2))
    w[:, :, 1] = 0
    got = outgoing_correlation(w)
    assert len(got.pair) == 2
    assert len(got.non_pair) == 4
    assert np.isfinite(got.non_pair).all()


@pytest.mark.parametrize("d", [1, 2, 3, 96, 1000, 1001, 10**7])
def test_the_random_expectation(d):
    value = random_absolute_cosine(d)
    exact = {1: 1, 2: 2 / np.pi, 3: 1 / 2}
    series = np.sqrt(2 / (np.pi * d)) * (1 + 1 / (4 * d))
    assert value == pytest.approx(exact.get(d, series), rel=1e-12 if d in exact else 0.1 / d**2 + 1e-12)


def test_random_weights_have_it(rng):
    w = rng.normal(size=(1, 1, 120, 24))
    got = outgoing_correlation(w)
    assert np.abs(got.non_pair).mean() == pytest.approx(random_absolute_cosine(24), rel=0.03)
    assert got.non_pair.mean() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("w", "channels", "message"),
    [
        (np.ones((3, 3, 5, 2)), None, "do not follow a CReLU with 5"),
        (np.ones((7, 2)), 4, "do not follow"),
        (np.ones(4), 4, "do not follow"),
        (np.full((1, 1, 2, 2), np.inf), None, "NaN or infinite"),
    ],
)
def test_what_cannot_be_measured_is_refused(w, channels, message):
    with pytest.raises(ValueError, match=message):
        outgoing_correlation(w, channels)


def test_no_dimension_no_cosine():
    with pytest.raises(ValueError, match="at least one"):
        random_absolute_cosine(0)
