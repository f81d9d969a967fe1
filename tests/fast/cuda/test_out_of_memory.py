"""An op that runs out of memory is tried once more in smaller pieces; then the user is told what to lower."""

import math

import numpy as np
import pytest

from minicnn import Parameter, Tape, ops, parallel
from minicnn.backend import DeviceError
from minicnn.cluster import Alone
from minicnn.cuda import out_of_memory
from tests import standin
from tests.cuda_shim.device import ShimCuda
from tests.cuda_shim.shim import needs_compiler
from tests.devices import STANDIN, standin_with_kernels

pytestmark = needs_compiler


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


@pytest.fixture
def small(monkeypatch):
    """small(most): a device on which no array may have more than so many elements."""
    events = []
    monkeypatch.setattr(parallel, "_share", 1)

    def limit(most):
        empty = STANDIN.xp.empty

        def limited(shape, dtype=float, order="C"):
            size = math.prod(shape) if isinstance(shape, tuple) else shape
            if size > most:
                events.append("refused")
                raise OutOfMemoryError(f"{size} elements")
            return empty(shape, dtype, order)

        monkeypatch.setattr(standin.xp, "empty", limited)
        changes = {"out_of_memory": out_of_memory, "free_memory": lambda: events.append("freed")}
        return standin_with_kernels(cuda=ShimCuda(free=3 << 20), **changes)

    limit.events = events
    return limit


@pytest.mark.parametrize("version", ["im2col", "winograd"])
def test_a_convolution_is_done_in_smaller_pieces(small, monkeypatch, version, capsys):
    """First all 16 images at once, for which there is no room; then one or two at a time, in the derivative at once."""
    monkeypatch.setenv("MINICNN_CONV", version)
    monkeypatch.setattr(parallel, "DEVICE_PIECE_BYTES", 16 * 8 * 8 * (9 * 16) * 8)  # the columns of 16 images
    rng = np.random.default_rng(0)
    x, w, g = rng.normal(size=(16, 8, 8, 16)), rng.normal(size=(3, 3, 16, 16)), rng.normal(size=(16, 8, 8, 16))
    expected, vjp = ops.conv2d.textbook(x, w, pad=1)
    expected = [expected, *vjp(g)[:2]]
    with small(most=25_000) as device:
        weight = Parameter(device.put(w))
        image = Parameter(device.put(x))
        with Tape() as tape:
            y = ops.conv2d(image, weight, pad=1)
            loss = ops.reduce_sum(y * device.put(g))
        tape.backward(loss)
    assert small.events == ["refused", "freed"]
    assert capsys.readouterr().err == "standin is short of memory: from conv2d on, work is done in smaller pieces\n"
    for ours, theirs in zip((y.data, image.grad, weight.grad), expected, strict=True):
        np.testing.assert_allclose(ours.get(), theirs, rtol=1e-9, atol=1e-9)


def test_then_the_user_is_told_what_to_lower(small):
    with small(most=100) as device:
        x, w = device.put(np.ones((2, 8, 8, 16))), device.put(np.ones((3, 3, 16, 16)))
        with pytest.raises(
            DeviceError, match=r"has too little memory \(3 MiB left\) for conv2d, also in smaller.*use a smaller batch"
        ):
            ops.conv2d(x, w, pad=1)
    assert small.events == ["refused", "freed", "refused"]


def test_a_derivative_says_so(small):
    with small(most=10**6) as device:
        x = Parameter(device.put(np.ones((2, 8))))
        with Tape() as tape:
            loss = ops.reduce_sum(ops.relu(x))
        with small(most=3), pytest.raises(DeviceError, match="for the derivative of relu"):
            tape.backward(loss)
    assert x.grad is None


def test_what_was_exchanged_with_other_ranks_is_not_exchanged_again(small):
    """They had memory enough, and would take the second message for the next one."""
    calls = []

    class TwoRanks(Alone):
        rank, size = 0, 2

        def sum(self, array):
            calls.append(1)
            return 2 * array

    def work():
        TwoRanks().part(3).sum(np.ones(2))
        raise OutOfMemoryError

    with (
        small(most=1) as device,
        pytest.raises(DeviceError, match=r"memory \(3 MiB left\) for it: use a smaller batch"),
    ):
        parallel.within_memory(device, "it", work)
    assert len(calls) == 1


def test_other_errors_are_not_tried_again(small):
    calls = []

    def work():
        calls.append(1)
        raise ValueError("wrong")

    with small(most=1) as device, pytest.raises(ValueError, match="wrong"):
        parallel.within_memory(device, "it", work)
    assert len(calls) == 1
