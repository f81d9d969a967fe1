"""Other ways to train: what the networks see and compute, and that trainings resume."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.train.cifar import CifarSettings
from experiments.train.ideas import IDEAS, GrowingBatches, IdeaJob, StandardisedConv2d, means, resized
from experiments.train.session import run_job
from minicnn import Tape, nn
from minicnn.backend import CPU
from minicnn.checkpoint import load
from minicnn.cluster import ALONE
from minicnn.data.textures import textures
from minicnn.training import Interrupted, evaluate


@pytest.fixture(scope="module")
def data():
    return textures(96, 40)


def job(folder, data, idea, act="crelu", epochs=2):
    settings = CifarSettings.of(
        dataset="textures", recipe="hour", act=act, width="half", scale=0.05, batch=16, epochs=epochs
    )
    return IdeaJob(settings, folder, data, np.arange(64), np.arange(64, 96), idea=idea)


@pytest.mark.parametrize("idea", IDEAS)
def test_an_interrupted_training_ends_alike(tmp_path, data, idea):
    whole = run_job(job(tmp_path / "whole", data, idea), device=CPU, resume=False, command="")
    steps = iter([False] * 5)
    with pytest.raises(Interrupted):
        run_job(job(tmp_path / "cut", data, idea), device=CPU, resume=True, command="", stop=lambda: next(steps, True))
    again = run_job(job(tmp_path / "cut", data, idea), device=CPU, resume=True, command="")
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}
    assert json.loads((tmp_path / "whole/config.json").read_text())["idea"] == idea


def test_the_average_counts_and_not_the_weights(tmp_path, data):
    """The error that the history has is that of weights averaged by hand; training goes on from the weights."""
    session = job(tmp_path, data, "average", epochs=1).begin(CPU, ALONE)
    kept = []
    session.trainer.finish_epoch(on_step=lambda t: kept.append(t.model.state_dict()), every=1)
    row, _ = session.measure_epoch()
    by_hand = kept[0]
    for state in kept[1:]:
        by_hand = {name: 0.99 * by_hand[name] + 0.01 * state[name] for name in by_hand}
    last = session.model.state_dict()
    assert all(np.array_equal(last[name], kept[-1][name]) for name in last)
    saved, _ = load(tmp_path / "best.npz")
    for name, value in by_hand.items():
        np.testing.assert_allclose(saved[name], value, rtol=1e-4, atol=1e-6)
        assert not np.array_equal(last[name], saved[name])
    session.model.load_state_dict(saved)
    held = data.train_images[64:96], data.train_labels[64:96]
    assert evaluate(session.model, *held, session.normalise, device=CPU).loss == pytest.approx(row["hold_out_loss"])


def test_images_grow(tmp_path, data):
    batches = job(tmp_path, data, "growing", epochs=8).begin(CPU, ALONE).trainer.batches
    sides = [next(batches.epoch(e))[0].shape for e in range(8)]
    assert sides == [(16, s, s, 3) for s in (24, 24, 24, 24, 28, 28, 32, 32)]
    (x, labels), (small, same) = (next(source.epoch(1, start=2)) for source in (batches.source, batches))
    np.testing.assert_array_equal(labels, same)
    np.testing.assert_allclose(small.mean(axis=(1, 2)), x.mean(axis=(1, 2)), atol=1e-5)
    assert (len(batches), batches.batch) == (4, 16)
    assert GrowingBatches(batches.source, 1).side(0) == 24  # a single epoch has no later half


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_smaller_image_keeps_its_mean(size, side):
    side = min(size, side)
    a = means(size, side)
    np.testing.assert_allclose(a.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(a.sum(axis=0), side / size, rtol=1e-4)
    assert (a >= 0).all()


def test_pixels_are_shared_out():
    """From 4 pixels to 3: each new one has 4/3 of an old one; rows and columns are not mixed up."""
    np.testing.assert_allclose(means(4, 3), [[3 / 4, 1 / 4, 0, 0], [0, 1 / 2, 1 / 2, 0], [0, 0, 1 / 4, 3 / 4]])
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)
    pairs = x.reshape(2, 2, 2, 2, 3, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(resized(x, 2), pairs, atol=1e-6)


def test_filters_are_standardised():
    """They start as they were; then neither their mean nor their size matters, and gains multiply them."""
    rng = np.random.default_rng(0)
    conv = nn.Conv2d(4, 5, 3, pad=1, scheme=nn.init.he_centred).initialise(seed=1)
    x = rng.normal(size=(2, 6, 6, 4)).astype(np.float32)
    before = conv(x).numpy()
    layer = StandardisedConv2d(conv)
    np.testing.assert_allclose(layer(x).numpy(), before, atol=1e-5)
    conv.weight.data = 3 * conv.weight.data + 0.7
    np.testing.assert_allclose(layer(x).numpy(), before, atol=1e-4)
    layer.gain.data = 2 * layer.gain.data
    np.testing.assert_allclose(layer(x).numpy(), 2 * before, atol=2e-4)
    with Tape() as tape:
        loss = (layer(x) * rng.normal(size=before.shape).astype(np.float32)).sum()
    tape.backward(loss)
    v, g = conv.weight.data, conv.weight.grad
    scale = np.linalg.norm(v) * np.linalg.norm(g)
    assert abs((g.sum(axis=(0, 1, 2))).max()) < 1e-4 * scale
    assert abs(((g * v).sum(axis=(0, 1, 2))).max()) < 1e-4 * scale


def test_the_first_and_the_last_layer_stay(tmp_path, data):
    session = job(tmp_path, data, "standardised").begin(CPU, ALONE)
    kinds = [type(layer) for layer in session.model if isinstance(layer, nn.Conv2d | StandardisedConv2d)]
    assert kinds == [nn.Conv2d, *[StandardisedConv2d] * (len(kinds) - 2), nn.Conv2d]
    x = session.normalise(data.train_images[:2])
    usual = session.settings.build_model()
    session.settings.prepare(usual, data.train_images[np.arange(64)], session.normalise)
    np.testing.assert_allclose(session.model(x).numpy(), usual(x).numpy(), atol=1e-4)
