"""MINICNN_NVTX=1: what each layer starts on a GPU has its name, in profilers."""

import numpy as np
import pytest

from minicnn import Tape, backend, nn, ops
from minicnn.autodiff import around_derivatives
from minicnn.fast.graph import Passes
from minicnn.nn import module
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels

FUSED, INNER = "conv1 Conv2d, act1 CReLU", "rest Sequential"
LABELS = np.array([1, 0])


def network():
    rest = nn.Sequential(nn.GlobalAvgPool(), nn.Linear(8, 3))
    return nn.Sequential(conv1=nn.Conv2d(3, 4, 3, pad=1), act1=nn.CReLU(), rest=rest).initialise(0)


def trained(device):
    """The gradients of a pass, on the host."""
    model = network().to(device)
    with Tape() as tape:
        logits = model(device.put(np.ones((2, 5, 5, 3), np.float32)))
        loss = ops.softmax_cross_entropy(logits, device.put(LABELS))
    tape.backward(loss)
    return [device.get(p.grad) for p in model.parameters()]


@needs_compiler
def test_ranges_of_a_pass(monkeypatch):
    """Forward from the first layer to the last, then back; each holds the launches of its layer and no others."""
    with standin_with_kernels() as device:
        expected = trained(device)
        assert device.cuda.ranges == []
        monkeypatch.setattr(module, "NVTX", True)
        for ours, theirs in zip(trained(device), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        names = [name for name, _ in device.cuda.ranges]
        inner = ["0 GlobalAvgPool", "1 Linear"]
        back = [f"{name}, backward" for name in ("1 Linear", INNER, "0 GlobalAvgPool", INNER, FUSED)]
        assert names == [FUSED, *inner, INNER, *back]
        started = dict(device.cuda.ranges)
        assert "kernel crelu" in started[FUSED]
        assert "kernel crelu_grad" in started[f"{FUSED}, backward"]
        assert started["0 GlobalAvgPool, backward"] == ["kernel global_avg_pool_grad_vector"]
        assert started[INNER] == started["0 GlobalAvgPool"] + started["1 Linear"] != []
        assert not any("cross_entropy" in launch for launches in started.values() for launch in launches)


def test_other_devices_have_none(monkeypatch):
    monkeypatch.setattr(module, "NVTX", True)
    assert all(np.isfinite(g).all() for g in trained(backend.CPU))


def test_only_what_is_recorded_inside_is_wrapped():
    seen, p = [], nn.Conv2d(1, 1, 1).weight

    def wrap(vjp):
        return lambda g: seen.append("inside") or vjp(g)

    with around_derivatives(wrap), Tape() as tape:  # of a tape that begins inside, nothing
        loss = ops.reduce_sum(p)
    tape.backward(loss)
    assert seen == []
    with Tape() as tape:
        y = ops.relu(p)
        with around_derivatives(wrap):
            y = ops.avr(y)
        loss = ops.reduce_sum(y)
    tape.backward(loss)
    assert seen == ["inside"]


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu_problem() is not None, reason="no GPU")
def test_cupys_ranges(monkeypatch):
    """CuPy's own calls; each push has its pop, in the order of a stack, also if a layer raises."""
    gpu, stack, seen = backend.device("gpu"), [], []
    nvtx = gpu.xp.cuda.nvtx
    push, pop = nvtx.RangePush, nvtx.RangePop
    monkeypatch.setattr(nvtx, "RangePush", lambda name: (push(name), stack.append(name)))
    monkeypatch.setattr(nvtx, "RangePop", lambda: (pop(), seen.append(stack.pop())))
    trained(gpu)
    assert seen == []
    monkeypatch.setattr(module, "NVTX", True)
    trained(gpu)
    assert seen[:4] == [FUSED, "0 GlobalAvgPool", "1 Linear", INNER]
    assert seen[-1] == f"{FUSED}, backward"
    with pytest.raises(ValueError, match="channels"):
        network().to(gpu)(gpu.put(np.ones((2, 5, 5, 2), np.float32)))
    assert stack == []


def test_without_graphs(monkeypatch):
    """A graph is started in one call, in which no layer can be told from another."""
    monkeypatch.setattr("minicnn.fast.graph.NVTX", True)
    with standin_with_kernels() as device:
        assert not Passes(device, alone=True).possible
