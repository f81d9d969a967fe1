"""The network for speed: whitened patches, and CReLU in place of filters with both signs."""

import numpy as np
import pytest

from minicnn import Tape, nn, ops
from minicnn.data.textures import textures
from minicnn.models.sprint import PATTERNS, sprint

IMAGES = textures(120, 8).train_images.astype(np.float32) / 64 - 2


def test_shapes():
    model = sprint(scale=0.1)
    assert model(IMAGES[:2]).shape == (2, 10)
    assert dict(model.trace(IMAGES[:2]))["conv7_act"].shape == (2, 3, 3, 26)
    assert sprint("relu", classes=7, scale=0.1)(IMAGES[:2]).shape == (2, 7)
    with pytest.raises(ValueError, match="the activation is relu or crelu, got 'avr'"):
        sprint("avr")
    with pytest.raises(ValueError, match="names convolutions 1 .. 7, got"):
        sprint("crelu", at=(0, 1))


def test_crelu_everywhere_has_the_same_channels_from_half_the_filters():
    usual, halved = (dict(sprint("crelu", at=at, scale=0.1).trace(IMAGES[:2])) for at in ((1,), tuple(range(1, 8))))
    for name in ("conv1_act", "conv3_act", "conv5_act", "conv7_act", "fc8"):
        assert halved[name].shape == usual[name].shape
    assert (halved["pool1"].shape, (halved["pool1"] >= 0).all()) == (usual["conv2_act"].shape, True)  # behind CReLU
    filters = {name: p.shape[-1] for name, p in sprint("crelu", at=(2, 5)).named_state() if name.endswith("weight")}
    assert [filters[f"conv{i}.weight"] for i in range(1, 8)] == [24, 32, 64, 256, 128, 256, 256]


def test_the_filters_of_conv1_are_frozen_unless_they_are_to_be_learned():
    names = ["conv1.weight", "conv1.bias"]
    for learned in (False, True):
        model = sprint(scale=0.1, learned=learned)
        state = dict(model.named_state())
        assert [state[name].requires_grad for name in names] == [learned, True]
        assert len(model.parameters()) == len(sprint(learned=True).parameters()) - (0 if learned else 1)


def test_what_is_trained():
    model = sprint(scale=0.1)
    found = {name for name, value in model.named_state() if any(value is p for p in model.parameters())}
    expected = {"conv1.bias"} | {f"conv{i}.weight" for i in range(2, 8)} | {f"conv{i}_bn.beta" for i in range(2, 8)} | {"fc8.weight"}
    assert found == expected


def test_crelu_computes_what_filters_with_both_signs_do():
    """At first the same numbers, from half of the filters; and the same gradients further on."""
    found = []
    for act in ("crelu", "relu"):
        model = sprint(act, scale=0.1, seed=3)
        model["conv1"].whiten(IMAGES, opposites=act == "relu")
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(IMAGES[:8], train=True), np.arange(8))
        tape.backward(loss)
        found.append((dict(model.trace(IMAGES[:8]))["conv1_act"], loss.data, model["conv2"].weight.grad))
        assert model["conv1"].weight.shape[3] == (PATTERNS if act == "crelu" else 2 * PATTERNS)
    for crelu, relu in zip(*found, strict=True):
        np.testing.assert_allclose(crelu, relu, rtol=1e-4, atol=1e-5)


def test_whitened_responses_are_uncorrelated_and_of_one_size():
    conv = nn.Conv2d(3, 27, 3).initialise(0)
    conv.whiten(IMAGES, opposites=False, eps=0.0)
    y = conv(IMAGES).numpy().reshape(-1, 27)
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.eye(27), atol=2e-3)


def test_filters_that_are_left_stay_as_they_are():
    """27 patterns: a layer with more filters keeps the others, one with fewer has the first patterns."""
    many, few = nn.Conv2d(3, 60, 3).initialise(0), nn.Conv2d(3, 5, 3).initialise(0)
    before = many.weight.data.copy()
    many.whiten(IMAGES, opposites=True)
    few.whiten(IMAGES, opposites=True)
    np.testing.assert_array_equal(many.weight.data[..., 54:], before[..., 54:])
    np.testing.assert_array_equal(many.weight.data[..., 27:54], -many.weight.data[..., :27])
    np.testing.assert_array_equal(few.weight.data[..., :2], many.weight.data[..., :2])
    np.testing.assert_array_equal(few.weight.data[..., 2:4], -many.weight.data[..., :2])
