"""The network for speed: whitened patches, and CReLU in place of filters with both signs."""

import numpy as np
import pytest

from minicnn import Tape, nn, ops
from minicnn.data.textures import textures
from minicnn.models.sprint import PATTERNS, sprint, whiten

IMAGES = textures(120, 8).train_images.astype(np.float32) / 64 - 2


def test_shapes():
    model = sprint(scale=0.1)
    assert model(IMAGES[:2]).shape == (2, 10)
    assert dict(model.trace(IMAGES[:2]))["conv7_act"].shape == (2, 4, 4, 26)
    assert sprint("relu", classes=7, scale=0.1)(IMAGES[:2]).shape == (2, 7)
    with pytest.raises(ValueError, match="conv1 has relu or crelu, got 'avr'"):
        sprint("avr")


def test_crelu_computes_what_filters_with_both_signs_do():
    """The same numbers, from half of the filters; and the same gradients further on."""
    found = []
    for act in ("crelu", "relu"):
        model = sprint(act, scale=0.1, seed=3)
        whiten(model, IMAGES)
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(IMAGES[:8], train=True), np.arange(8))
        tape.backward(loss)
        found.append((dict(model.trace(IMAGES[:8]))["conv1_act"], loss.data, model["conv2"].weight.grad))
        assert model["conv1"].weight.shape[3] == (PATTERNS if act == "crelu" else 2 * PATTERNS)
    for crelu, relu in zip(*found, strict=True):
        np.testing.assert_allclose(crelu, relu, rtol=1e-4, atol=1e-5)


def test_whitened_responses_are_uncorrelated_and_of_one_size():
    model = sprint("crelu", patterns=27, scale=0.1)
    whiten(model, IMAGES, eps=0.0)
    y = ops.conv2d(IMAGES, model["conv1"].weight.data).reshape(-1, 27)  # no padding: only whole patches
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.eye(27), atol=2e-3)
    assert isinstance(model["conv1_act"], nn.CReLU)
