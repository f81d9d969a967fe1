"""Invariance scores: units whose score is known, loops, thresholds against np.quantile, pieces, devices."""

import numpy as np
import pytest

from minicnn import nn, ops
from minicnn.analysis.invariance import RATE, Counter, Largest, Thresholds, invariance, sided
from minicnn.analysis.layers import responses
from minicnn.analysis.stimuli import Stimuli, cifar_stimuli
from minicnn.backend import CPU
from tests.devices import on_devices


def score_of(z, versions, side, rate=0.01):
    """The Score of a layer with responses z (N, H, W, F) and those of transformed images."""
    threshold = Thresholds(z.size // z.shape[-1], rate, z)
    threshold.add(sided(z, side))
    counter = Counter(threshold.values(), side, list(versions), RATE)
    counter.original(z)
    for name, version in versions.items():
        counter.transformed(name, version)
    return counter.score()


def loops(z, versions, side, rate):
    """S of every filter by the definition, one place at a time."""

    def flat(z):
        return (np.abs(z) if side == "two" else np.maximum(z, 0)).reshape(-1, z.shape[-1])

    h, own = {name: flat(version) for name, version in versions.items()}, flat(z)
    result = []
    for f in range(z.shape[-1]):
        ranked = sorted(own[:, f], reverse=True)
        t = ranked[int(rate * len(ranked))]
        fires = [i for i in range(len(own)) if own[i, f] > t]
        if not fires:
            result.append(np.nan)
            continue
        local = [np.mean([h[name][i, f] > t for i in fires]) for name in versions]
        result.append(np.mean(local) / (len(fires) / len(own)))
    return result


# --- thresholds ---


@pytest.mark.parametrize("side", ["one", "two"])
@on_devices
def test_thresholds_are_quantiles_whatever_the_pieces(rng, side, device):
    z = rng.normal(size=(13, 5, 7, 6)).astype(np.float32)
    threshold = Thresholds(13 * 35, 0.1, device.put(z))
    for piece in (z[:1], z[1:2], z[2:9], z[9:]):
        threshold.add(sided(device.put(piece), side))
    h = sided(z, side).reshape(-1, 6)
    expected = np.quantile(h, 0.9, axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(device.get(threshold.values()), expected)
    assert ((h > expected).mean(axis=0) <= 0.1).all()


def test_a_filter_that_is_seldom_active_has_threshold_zero(rng):
    z = -np.abs(rng.normal(size=(10, 4, 4, 3))).astype(np.float32)
    z[0, 0, 0, 1] = 2.5
    threshold = Thresholds(160, 0.05, z)
    threshold.add(sided(z, "one"))
    np.testing.assert_array_equal(threshold.values(), 0)


def test_the_largest_values_come_out_of_a_long_stream(rng):
    """Columns of different sizes, ties, zeros; memory stays bounded."""
    stream = [np.maximum(rng.normal(size=(40, 4)) * [1, 1e-6, 1e6, 1], 0).astype(np.float32) for _ in range(50)]
    for block in stream:
        block[:, 3] = np.round(block[:, 3])
    largest = Largest(7, 4, stream[0])
    for block in stream:
        largest.add(block)
        assert sum(map(len, largest.keys)) <= 1.5 * 7 * 4 + 160
    expected = np.sort(np.concatenate(stream), axis=0)[-7]
    np.testing.assert_array_equal(largest.kth(), expected)


def test_nothing_positive_nothing_kept():
    largest = Largest(2, 3, np.zeros(1, np.float32))
    largest.add(np.zeros((5, 3), np.float32))
    np.testing.assert_array_equal(largest.kth(), 0)


def test_the_announced_places_must_come():
    z = np.ones((2, 2, 2, 1), np.float32)
    threshold = Thresholds(9, 0.1, z)
    threshold.add(z)
    with pytest.raises(ValueError, match="9 places were announced, 8 came"):
        threshold.values()


def test_only_single_precision_is_ranked_by_its_bits():
    with pytest.raises(TypeError, match="float32, got float64"):
        Thresholds(4, 0.1, np.ones((4, 1))).add(np.ones((4, 1)))


# --- scores that are known ---


@pytest.mark.parametrize("side", ["one", "two"])
def test_a_unit_that_never_changes_its_mind_scores_100(rng, side):
    z = rng.normal(size=(100, 5, 5, 3)).astype(np.float32)
    score = score_of(z, {"a": z, "b": z + 0}, side)
    np.testing.assert_allclose(score.global_rate, 0.01)
    np.testing.assert_allclose(score.scores, 100)
    assert score.mean() == pytest.approx(100)


@pytest.mark.parametrize("side", ["one", "two"])
def test_a_unit_that_has_nothing_to_do_with_the_image_scores_1(rng, side):
    """28,800 of 2,880,000 places fire, and 288 of them again, +- 17: four deviations are 0.24."""
    z, other = (rng.normal(size=(400, 30, 30, 8)).astype(np.float32) for _ in range(2))
    assert score_of(z, {"other": other}, side).mean() == pytest.approx(1, abs=0.24)


def test_the_sign_of_the_response_counts_on_one_side_only(rng):
    z = rng.normal(size=(100, 5, 5, 2)).astype(np.float32)
    assert score_of(z, {"negated": -z}, "two").mean() == pytest.approx(100)
    assert score_of(z, {"negated": -z}, "one").mean() == 0


@pytest.mark.parametrize("side", ["one", "two"])
@on_devices
def test_it_is_the_definition(rng, side, device):
    z = rng.normal(size=(9, 3, 5, 4)).astype(np.float32)
    versions = {name: (z + rng.normal(size=z.shape)).astype(np.float32) for name in ("a", "b")}
    z[..., 3] = -np.abs(z[..., 3])  # silent on one side
    score = score_of(device.put(z), {k: device.put(v) for k, v in versions.items()}, side, rate=0.1)
    np.testing.assert_allclose(score.scores, loops(z, versions, side, 0.1))
    assert score.places == 135


def test_rare_filters_have_a_scale_of_their_own(rng):
    z = rng.normal(size=(100, 4, 5, 3)).astype(np.float32)
    z[..., 2] = -1
    z[0, 0, 0, 2] = 1  # one place of 2,000
    score = score_of(z, {"same": z}, "one")
    assert score.rare.tolist() == [False, False, True]
    np.testing.assert_allclose(score.scores, [100, 100, 2000])
    assert score.mean() == pytest.approx(100)
    assert score.mean(with_rare=True) == pytest.approx(2200 / 3)
    z[..., :] = -1
    assert np.isnan(score_of(z, {"same": z}, "one").mean(with_rare=True))


def test_scores_by_transformation(rng):
    z = rng.normal(size=(100, 5, 5, 2)).astype(np.float32)
    score = score_of(z, {"same": z, "never": np.zeros_like(z)}, "two")
    assert score.mean("same") == pytest.approx(100)
    assert score.mean("never") == 0
    assert score.mean() == pytest.approx(50)


# --- networks ---


def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, pad=1), nn.CReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 1)
    ).initialise(0)


@on_devices
def test_a_network_is_measured_as_its_layers_are(rng, device):
    x = rng.normal(size=(21, 8, 9, 3)).astype(np.float32)
    stimuli = cifar_stimuli(shift=1)
    calls = []
    model = network().to(device)
    batches = lambda: (x[i : i + 8] for i in range(0, 21, 8))
    result = invariance(model, batches, 21, stimuli, device=device, rate=0.05, on_pass=calls.append)
    assert sum(calls) == 21 * 8
    host = network()
    layers = ["0", "3"]
    assert list(result) == layers
    for name in layers:
        z = dict(responses(host, x))[name]
        versions = {key: dict(responses(host, t(x)))[name] for key, t in stimuli.transforms.items()}
        for side in ("one", "two"):
            expected = score_of(z, versions, side, rate=0.05)
            np.testing.assert_allclose(result[name][side].threshold, expected.threshold, rtol=1e-5)
            np.testing.assert_allclose(result[name][side].scores, expected.scores, rtol=0.1)


def test_a_network_without_space_does_not_notice_shifts(rng):
    """Global averages of periodic images: a shift that wraps around changes nothing, so the score is 1 / G."""
    period = rng.normal(size=(200, 4, 4, 3)).astype(np.float32)
    x = np.tile(period, (1, 2, 2, 1))
    mean = nn.Lambda(ops.avg_pool2d, k=8)
    model = nn.Sequential(mean, nn.Conv2d(3, 6, 1), nn.ReLU()).initialise(0)
    roll = Stimuli(lambda x: x, {"roll": lambda x: np.roll(x, 4, axis=2)})
    score = invariance(model, lambda: iter([x]), 200, roll, device=CPU)["1"]["two"]
    np.testing.assert_allclose(score.scores, 100)


@pytest.mark.parametrize("rate", [0, 1, -1])
def test_the_rate_must_make_sense(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        invariance(network(), lambda: iter([]), 0, cifar_stimuli(), device=CPU, rate=rate)


def test_stimuli_must_keep_the_size():
    z = np.ones((1, 2, 2, 1), np.float32)
    counter = Counter(np.zeros(1, np.float32), "one", ["cut"], RATE)
    counter.original(z)
    with pytest.raises(ValueError, match=r"cut gives responses \(1, 1, 2, 1\)"):
        counter.transformed("cut", z[:, :1])


def test_a_filter_that_often_gives_the_same_number_is_rare():
    """1,000 places at rate 0.01: 500 have 0.1, two are larger.  t = 0.1, G = 0.002: a scale of 500, not of 100."""
    z = np.zeros((1, 1000, 1, 2), np.float32)
    z[0, :500, 0, 0], z[0, :2, 0, 0] = 0.1, (1, 2)
    z[0, :, 0, 1] = np.arange(1000)
    counter = Counter(np.array([0.1, 989], np.float32), "one", ["same"], 0.01)
    counter.original(z)
    counter.transformed("same", z)
    score = counter.score()
    np.testing.assert_array_equal(score.rare, [True, False])
    np.testing.assert_allclose(score.scores, [500, 100])
    assert (score.mean(), score.mean(with_rare=True)) == pytest.approx((100, 300))


def test_nan_is_no_response():
    threshold = Thresholds(4, 0.5, np.zeros((1, 2, 2, 1), np.float32))
    with pytest.raises(ValueError, match="the network has diverged"):
        threshold.add(np.array([0, 1, np.nan, 2], np.float32).reshape(1, 2, 2, 1))
