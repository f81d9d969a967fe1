"""Where a network is measured: which layers, what their responses are, which weights read them."""

import copy
import pickle

import numpy as np
import pytest

from minicnn import nn, ops
from minicnn.analysis.layers import filter_layers, outgoing_weights, responses
from minicnn.models import convpool, vgg
from minicnn.models.table import ACTIVATIONS


def test_which_layers_are_measured():
    assert [layer.name for layer in filter_layers(convpool("crelu", scale=0.03))] == [f"conv{i}" for i in range(1, 8)]
    assert all(layer.is_crelu and layer.two_sided for layer in filter_layers(convpool("crelu", scale=0.03)))
    assert not any(layer.two_sided for layer in filter_layers(convpool("relu", scale=0.03)))
    deep = filter_layers(vgg(at=(1,), scale=0.03))
    assert len(deep) == 13
    assert [layer.source for layer in deep[:2]] == ["conv1", "conv2_bn"]
    assert [layer.is_crelu for layer in deep[:2]] == [True, False]
    leaky = filter_layers(convpool("crelu-leaky", scale=0.03))
    assert all(layer.two_sided and not layer.is_crelu for layer in leaky)


def test_responses_enter_the_activation_in_inner_sequentials_too(rng):
    inner = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm(3), nn.ReLU())
    model = nn.Sequential(block=inner, end=nn.GlobalAvgPool())
    x = rng.normal(size=(2, 3, 3, 2)).astype(np.float32)
    ((name, z),) = responses(model, x)
    assert name == "block.0"
    np.testing.assert_array_equal(z, inner["1"](inner["0"](x)).data)


def test_a_module_beside_the_layers_is_not_one_of_them():
    """It is not called: it must not be taken for the layer that reads the CReLU."""
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.CReLU())
    model.beside = nn.Conv2d(4, 3, 1)
    assert [layer.name for layer in filter_layers(model)] == ["0"]
    assert outgoing_weights(model) == {}


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_network_is_measured_like_the_network(again):
    model = again(nn.Sequential(nn.Conv2d(1, 2, 1), nn.CReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3)))
    (layer,) = filter_layers(model)
    assert layer.is_crelu
    assert [(w.shape, channels) for w, channels in outgoing_weights(model).values()] == [((4, 3), 4)]
    assert nn.fixed.problem(model) is None


def test_each_layer_has_the_weights_of_the_next():
    model = convpool("crelu", "half", scale=0.1)
    found = outgoing_weights(model)
    assert list(found) == [f"conv{i}" for i in range(1, 8)]
    for i, (w, channels) in enumerate(found.values(), start=1):
        assert w is model[f"conv{i + 1}"].weight.data
        assert channels == w.shape[2] == 2 * model[f"conv{i}"].weight.shape[3]
    assert outgoing_weights(convpool("relu", scale=0.05)) == {}
    assert list(outgoing_weights(vgg(at=(1, 3), scale=0.05))) == ["conv1", "conv3"]


def test_flattened_features_and_batch_norm_between():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.CReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    ((w, channels),) = outgoing_weights(model).values()
    assert w.shape == (24, 5)
    assert channels == 6
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.CReLU(), nn.BatchNorm(6), nn.Conv2d(6, 2, 1))
    assert outgoing_weights(model) == {}  # another layer reads the two phases first


def test_an_activation_used_twice_is_found_at_each_place():
    act = nn.CReLU()
    model = nn.Sequential(nn.Conv2d(1, 2, 1), act, nn.Conv2d(4, 3, 1), act, nn.Linear(6, 2))
    assert [w.shape for w, _ in outgoing_weights(model).values()] == [(1, 1, 4, 3), (6, 2)]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_that_a_network_can_have_is_measured(name):
    make, factor = ACTIVATIONS[name]
    model = nn.Sequential(nn.Conv2d(1, 2, 1), make(), nn.Linear(2 * factor, 2))
    (layer,) = filter_layers(model)
    assert layer.two_sided == (name not in ("relu", "leaky"))


def test_an_activation_of_ones_own_is_measured_and_is_not_skipped_silently():
    act = nn.Activation(ops.soft_threshold, two_sided=True, threshold=0.1)
    (layer,) = filter_layers(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm(2), act))
    assert layer.two_sided
    assert not layer.is_crelu
    unknown = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm(2), nn.Lambda(ops.soft_threshold))
    with pytest.raises(ValueError, match=r"2 \(Lambda\) follows 0; if it is an activation, make it an nn.Activation"):
        filter_layers(unknown)


@pytest.mark.parametrize("after", [[], [nn.Conv2d(2, 2, 1)], [nn.GlobalAvgPool()], [nn.Dropout(0.1)], [nn.Flatten()]])
@pytest.mark.parametrize("norm", [True, False])
def test_a_convolution_without_activation_has_no_responses(norm, after):
    model = nn.Sequential(nn.Conv2d(1, 2, 1), *([nn.BatchNorm(2)] if norm else []), *after)
    assert filter_layers(model) == []
