"""Images from the features of networks: exact where the filters allow it, Algorithm 2 behind pools, ratios."""

import numpy as np
import pytest

from minicnn import nn
from minicnn.analysis.inversion import crelu_steps, inputs, pooling_ratios, reconstruct
from minicnn.models import convpool, vgg
from minicnn.theory.pooled_maps import PooledConvolution
from minicnn.theory.reconstruction import Layer, features, invert, ratio
from tests.devices import on_devices


def with_bias(model, seed=1):
    """Biases that are not 0: a forgotten one would show."""
    generator = np.random.default_rng(seed)
    for p in model.parameters():
        if p.data.ndim == 1:
            p.data = generator.normal(0, 0.3, p.shape).astype(p.data.dtype)
    return model


def wide(pool=None):
    """More filters than numbers in a window: everything can be recovered without a pool."""
    layers = {"a": nn.Conv2d(2, 20, 3, pad=1), "a_act": nn.CReLU(), "drop": nn.Dropout(0.1)}
    layers |= {"pool": pool} if pool else {}
    layers |= {"b": nn.Conv2d(40, 45, 1), "b_act": nn.CReLU()}
    return with_bias(nn.Sequential(**layers).initialise(0)).to(dtype=np.float64)


def test_the_steps_of_the_papers_network():
    model = convpool("crelu", "half", scale=0.1)
    steps = crelu_steps(model)
    assert [step.name for step in steps] == [f"conv{i}" for i in range(1, 8)]
    assert [step.name for step in steps if step.pool] == ["conv2", "conv5"]
    assert steps[1].pool == {"k": 3, "pool_stride": 2, "pool_pad": 0, "ceil": True}
    assert steps[0].layer.w is model["conv1"].weight.data
    assert steps[6].layer.pad == 1


def test_the_steps_end_where_crelu_does():
    assert crelu_steps(convpool("relu", scale=0.05)) == []
    assert crelu_steps(convpool("crelu-leaky", scale=0.05)) == []
    assert [step.name for step in crelu_steps(vgg(at=(1, 3), scale=0.05))] == ["conv1"]
    assert crelu_steps(vgg(at=(1,), scale=0.05, bn_before_act=True)) == []


@pytest.mark.parametrize("method", ["region", "global"])
@on_devices
def test_enough_filters_give_the_image_back(rng, method, device):
    x = rng.normal(size=(2, 6, 5, 2))
    (step, _) = crelu_steps(wide().to(device))
    got = device.get(reconstruct(device.put(x), [step], method=method))
    np.testing.assert_allclose(got, x, atol=1e-6)


@pytest.mark.parametrize("method", ["region", "global"])
def test_without_pools_it_is_the_inversion_of_the_theory(rng, method):
    model = with_bias(
        nn.Sequential(nn.Conv2d(3, 5, 3, pad=1), nn.CReLU(), nn.Conv2d(10, 4, 3, stride=2), nn.CReLU()).initialise(0)
    ).to(dtype=np.float64)
    x = rng.normal(size=(2, 9, 9, 3))
    steps = crelu_steps(model)
    layers = [Layer(model[i].weight.data, model[i].bias.data, model[i].stride, model[i].pad) for i in (0, 2)]
    y = features(x, layers)
    np.testing.assert_array_equal(y, list(model.trace(x))[-1][1])
    expected = invert(y, layers, (9, 9), method=method)
    np.testing.assert_allclose(reconstruct(x, steps, method=method), expected, atol=1e-9)


@on_devices
def test_what_enters_each_step_is_what_the_network_computes(rng, device):
    model = wide(nn.MaxPool2d(3, stride=2, ceil=True))
    x = rng.normal(size=(2, 7, 6, 2))
    entering, kept = inputs(device.put(x), crelu_steps(model.to(device)))
    trace = {name: device.get(y) for name, y in model.trace(device.put(x))}
    np.testing.assert_allclose(device.get(entering[1]), trace["pool"], atol=1e-12)
    assert kept[0] is not None
    assert kept[1] is None


@pytest.mark.parametrize("method", ["region", "global"])
@on_devices
def test_behind_a_pool_each_region_is_algorithm_2(rng, method, device):
    """Pooling windows that do not overlap, 1x1 filters: a region is 2x2 pixels, seen by nobody else."""
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.CReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 9, 1), nn.CReLU()).initialise(0)
    model = with_bias(model).to(dtype=np.float64)
    x = rng.normal(size=(2, 4, 6, 3))
    first, second = crelu_steps(model.to(device))
    got = device.get(reconstruct(device.put(x), [first, second], method=method))
    host = PooledConvolution(*(device.get(a) for a in first.layer[:2]), k=2, pool_stride=2)
    patches = host.reconstruct(host.pool(x), [tuple(at) for at in np.ndindex(2, 2, 3)])  # (12, 2, 2, 3)
    expected = patches.reshape(2, 2, 3, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
    np.testing.assert_allclose(got, expected, atol=1e-8)


def test_overlapping_regions_are_averaged_and_padding_dropped(rng):
    """A 3x3 pool with stride 2 on 3x3 filters, pad 1: patches of 5x5 pixels every 2 pixels, from -1 on."""
    x = rng.normal(size=(1, 5, 5, 2))
    steps = crelu_steps(wide(nn.MaxPool2d(3, stride=2, ceil=True)))
    host = PooledConvolution(*steps[0].layer[:2], pad=1, k=3, pool_stride=2)
    total, count = np.zeros((12, 12, 2)), np.zeros((12, 12, 1))
    for p, q in np.ndindex(2, 2):
        at = (slice(2 * p, 2 * p + 5), slice(2 * q, 2 * q + 5))
        total[at] += host.reconstruct(host.pool(x), [(0, p, q)])[0]
        count[at] += 1
    expected = (total / np.maximum(count, 1))[1:6, 1:6]
    got = reconstruct(x, steps, method="region")  # the second step is undone exactly: 45 filters for 40 numbers
    np.testing.assert_allclose(got[0], expected, atol=1e-8)
    assert 0 < ratio(x, got)[0] < 0.9


def test_ratios_are_those_of_the_theory_and_random_filters_can_stand_in(rng):
    model = wide(nn.MaxPool2d(3, stride=2, ceil=True))
    x = rng.normal(size=(3, 8, 8, 2))
    first = crelu_steps(model)[0]
    w, b = first.layer[:2]
    own = PooledConvolution(w, b, pad=1, k=3, pool_stride=2).ratios(x).mean(axis=(1, 2))
    np.testing.assert_allclose(pooling_ratios(x, [first]), own)
    noise = rng.normal(size=w.shape)
    random = PooledConvolution(noise, pad=1, k=3, pool_stride=2).ratios(x).mean(axis=(1, 2))
    np.testing.assert_allclose(pooling_ratios(x, [first], noise), random)


def test_errors():
    x = np.zeros((1, 4, 4, 3))
    with pytest.raises(ValueError, match="region, global"):
        reconstruct(x, crelu_steps(convpool("crelu", scale=0.05)), method="magic")
    with pytest.raises(ValueError, match="does not begin"):
        reconstruct(x, [], method="region")
