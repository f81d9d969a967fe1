"""What is kept of weights between calls of inference: never of weights that were others."""

import gc

import numpy as np
import pytest

from minicnn import Tape, ops
from minicnn.fast.native import kept, winograd
from tests.fast.native.ways import needs_compiler

pytestmark = needs_compiler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8, 8, 8))


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(kept, "_kept", {})


def weights():
    return np.random.default_rng(1).normal(size=(3, 3, 8, 8))


def check(w):
    np.testing.assert_allclose(winograd.conv2d(X, w)[0], ops.conv2d.textbook(X, w)[0], rtol=1e-10, atol=1e-10)


def test_weights_are_transformed_once_and_when_they_have_changed(monkeypatch):
    calls, before = [], winograd.Tiles.filters
    monkeypatch.setattr(winograd.Tiles, "filters", lambda *a, **s: calls.append(1) or before(*a, **s))
    w = weights()
    for _ in range(3):
        check(w)
    assert len(calls) == 1
    w[2, 2, 7, 7] = np.nextafter(w[2, 2, 7, 7], 9)  # one bit
    check(w)
    assert len(calls) == 2
    w *= 2
    check(w)
    check(w[..., ::-1])  # other weights in the same memory
    w.reshape(-1)[:] = 1
    check(w)
    assert len(calls) == 5


def test_it_goes_when_the_weights_go_or_are_trained():
    w = weights()
    check(w)
    assert len(kept._kept) == 1
    del w
    gc.collect()
    assert not kept._kept
    w = weights()
    check(w)
    with Tape():
        winograd.conv2d(X, w)
    assert not kept._kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 5, 63, 64, 65, 1000])
def test_a_fingerprint_tells_every_small_change(dtype, size):
    """Of any one number, in any bit; numbers that change places; and it is the same for the same content."""
    w = RNG.normal(size=size).astype(dtype)
    seen = {kept.fingerprint(w)}
    assert kept.fingerprint(w.copy()) in seen
    for i in range(size):
        bits = w.copy().view(np.uint8)
        bits[RNG.integers(i * w.itemsize, (i + 1) * w.itemsize)] ^= 1 << RNG.integers(8)
        now = kept.fingerprint(bits.view(dtype))
        assert now not in seen
        seen.add(now)
    for i in range(size - 1):
        changed = w.copy()
        changed[[0, i + 1]] = changed[[i + 1, 0]]
        now = kept.fingerprint(changed)
        assert now not in seen
        seen.add(now)
