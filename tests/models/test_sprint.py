"""The network for speed: whitened patches, and CReLU in place of filters with both signs."""

import numpy as np
import pytest

from minicnn import Tape, nn, ops
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.models.sprint import PATTERNS, sprint
from minicnn.optim import SGD
from minicnn.training import Trainer

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


@pytest.mark.parametrize("learned", [False, True])
def test_what_is_trained(learned):
    """No scale of batch normalisation, and the filters of conv1 only if they are to be learned."""
    model, convolutions = sprint(scale=0.1, learned=learned), range(2, 8)
    found = {name for name, value in model.named_state() if any(value is p for p in model.parameters())}
    weights = {f"conv{i}.weight" for i in convolutions} | ({"conv1.weight"} if learned else set())
    assert found == weights | {f"conv{i}_bn.beta" for i in convolutions} | {"conv1.bias", "fc8.weight"}


def test_filters_start_by_passing_their_inputs_on():
    """conv3 has as many filters as inputs; behind CReLU everywhere, it has half as many, which pass on both halves."""
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(sprint(scale=0.1)["conv3"](x).numpy(), x)
    halves = ops.crelu(x[..., :3])
    np.testing.assert_allclose(
        sprint("crelu", (2, 3), scale=0.1)["conv3"](halves).numpy(), x[..., :3] / 2**0.5, rtol=1e-6
    )
    assert sprint()["conv2_bn"].momentum == 0.4


@pytest.mark.parametrize("scale", [0.01, 0.1])
def test_filters_that_are_all_identities_may_start_alike(scale):
    """conv5, conv6 and conv7 follow one another, so they do not stay alike; nobody drew them."""
    model = sprint("crelu", tuple(range(1, 8)), scale=scale)
    batches = Batches(
        textures(8, 1).train_images, np.arange(8), 8, Normaliser((0.5,) * 3, (0.2,) * 3), Augmentation(), 0
    )
    Trainer(model, SGD(model.parameters(), lr=0.1), batches, device="cpu", seed=0).finish_epoch()


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


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES[:, :, :, :1], r"images \(N, H, W, 3\) of 3x3 or more, got"),
        (IMAGES.transpose(0, 3, 1, 2), r"images \(N, H, W, 3\) of 3x3 or more, got"),
        (IMAGES[0], r"images \(N, H, W, 3\) of 3x3 or more, got"),
        (IMAGES[:, :2], r"images \(N, H, W, 3\) of 3x3 or more, got"),
        (IMAGES[:1, :5, :5], "more than 27 patches, all of finite numbers, got 9: give it more images"),
        (np.full_like(IMAGES, np.nan), "some with NaN or inf"),
    ],
)
def test_images_that_whiten_nothing_are_refused(images, message):
    conv = nn.Conv2d(3, 27, 3).initialise(0)
    before = conv.weight.data.copy()
    with pytest.raises(ValueError, match=message):
        conv.whiten(images, opposites=False)
    np.testing.assert_array_equal(conv.weight.data, before)
