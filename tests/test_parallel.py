"""The batch primitive: pieces cover the batch, and depend on nothing but the shape; how many threads there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops, parallel
from minicnn.ops import conv
from tests.devices import on_devices


@on_devices
@given(n=st.integers(0, 200), sample_bytes=st.integers(0, 2 << 20))
def test_pieces_cover_the_batch_in_order_within_the_budget(device, n, sample_bytes):
    slices = list(parallel.pieces(n, sample_bytes, device.put(np.zeros(1))))
    assert [i for s in slices for i in range(n)[s]] == list(range(n))
    budget = parallel.HOST_PIECE_BYTES if device.name == "cpu" else parallel.DEVICE_PIECE_BYTES
    assert all((s.stop - s.start) * sample_bytes <= budget or s.stop - s.start == 1 for s in slices)


@given(n=st.integers(1, 200), sample_bytes=st.integers(1, 2 << 20))
def test_on_the_cpu_pieces_are_alike_and_four_or_a_multiple_where_it_is_worth_it(n, sample_bytes):
    lengths = [s.stop - s.start for s in parallel.pieces(n, sample_bytes, np.zeros(1))]
    assert max(lengths) - min(lengths) <= 1
    if n * sample_bytes >= parallel.LEAST_SHARED_BYTES:
        assert len(lengths) % 4 == 0 or len(lengths) == n


@on_devices
@pytest.mark.parametrize("n", [0, 1, 7])
def test_over_batch_and_sum_over_batch(device, n, monkeypatch):
    monkeypatch.setattr(parallel, "HOST_PIECE_BYTES", 3)
    monkeypatch.setattr(parallel, "DEVICE_PIECE_BYTES", 3)
    x = device.put(np.arange(2.0 * n).reshape(n, 2))
    doubled, total = device.xp.zeros_like(x), device.put(np.zeros(2))

    def double(piece):
        doubled[piece] = 2 * x[piece]

    parallel.over_batch(double, n, 1, x)
    parallel.sum_over_batch(lambda piece, summand: x[piece].sum(axis=0, out=summand), n, 1, into=total)
    np.testing.assert_array_equal(device.get(doubled), 2 * device.get(x))
    np.testing.assert_array_equal(device.get(total), device.get(x).sum(axis=0))


@on_devices
def test_a_convolution_in_many_pieces_equals_one_in_one(device, monkeypatch):
    """And its temporary arrays stay within the budget."""
    rng = np.random.default_rng(0)
    x, w = device.put(rng.normal(size=(9, 6, 6, 2))), device.put(rng.normal(size=(3, 3, 2, 4)))
    y, vjp = ops.conv2d.textbook(x, w, pad=1)
    whole = [device.get(a) for a in (y, *vjp(y)[:2])]
    monkeypatch.setattr(parallel, "HOST_PIECE_BYTES", 12_000)  # a sample has 36 windows of 18 doubles: 5184 bytes
    monkeypatch.setattr(parallel, "DEVICE_PIECE_BYTES", 12_000)
    lengths = []
    real = conv.unfold
    monkeypatch.setattr(conv, "unfold", lambda part, windows: lengths.append(len(part)) or real(part, windows))
    y, vjp = ops.conv2d.textbook(x, w, pad=1)
    assert sorted(lengths) == [1, 2, 2, 2, 2]
    for a, b in zip((y, *vjp(y)[:2]), whole, strict=True):
        np.testing.assert_allclose(device.get(a), b, rtol=1e-12, atol=1e-12)


def test_threads_by_argument(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "5")
    with parallel.use_threads(3):
        assert parallel.threads() == 3
    assert parallel.threads() == 5
    with pytest.raises(ValueError, match="at least 1"), parallel.use_threads(0):
        pass
