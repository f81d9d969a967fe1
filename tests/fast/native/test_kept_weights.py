"""What is kept of weights between calls of inference: never of weights that were others."""

import gc

import numpy as np
import pytest

from minicnn import Tape, ops
from minicnn.fast.native import im2col, kept, winograd
from tests.fast.native.ways import needs_compiler

pytestmark = needs_compiler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8, 8, 8))


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(kept, "_kept", {})


def weights(k=3):
    return np.random.default_rng(k).normal(size=(k, k, 8, 8))


def check(version, w):
    np.testing.assert_allclose(version(X, w)[0], ops.conv2d.textbook(X, w)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("version", "make"), [(winograd.conv2d, "winograd.Tiles.filters"), (im2col.conv2d, "im2col.Pixels.panels")]
)
def test_weights_are_transformed_once_and_when_they_have_changed(monkeypatch, version, make):
    module, name, method = make.split(".")
    owner = getattr({"winograd": winograd, "im2col": im2col}[module], name)
    calls, before = [], getattr(owner, method)
    monkeypatch.setattr(owner, method, lambda *a, **s: calls.append(1) or before(*a, **s))
    w = weights()
    for _ in range(3):
        check(version, w)
    assert len(calls) == 1
    w[2, 2, 7, 7] = np.nextafter(w[2, 2, 7, 7], 9)  # one bit
    check(version, w)
    assert len(calls) == 2
    w *= 2
    check(version, w)
    check(version, w[..., ::-1])  # other weights in the same memory
    w.reshape(-1)[:] = 1
    check(version, w)
    assert len(calls) == 5


@pytest.mark.parametrize("version", [winograd.conv2d, im2col.conv2d])
def test_it_goes_when_the_weights_go_or_are_trained(version):
    w = weights()
    check(version, w)
    assert len(kept._kept) == 1
    del w
    gc.collect()
    assert not kept._kept
    w = weights()
    check(version, w)
    with Tape():
        version(X, w)
    assert not kept._kept


def test_of_one_array_for_both_kinds():
    w = weights()
    for version in (winograd.conv2d, im2col.conv2d, winograd.conv2d):
        check(version, w)
    assert len(kept._kept) == 2
