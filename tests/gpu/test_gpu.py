"""On a real GPU: every op, a training, resuming, running out of memory, agreement with the CPU, and images per second.

    pytest -m gpu -s

This also runs what other files have for a GPU (on_devices of tests/devices.py).  Skipped where there is none.
MINICNN_GPU_TESTS=cpu runs all of it on a CPU in the place of a GPU (tests/cuda_cpu), with smaller arrays.
"""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.benchmarks.gpu import images_per_second
from minicnn import Parameter, Tape, backend, ops, parallel
from minicnn.backend import CPU, DeviceError
from minicnn.fast.batches import ResidentBatches, StagedBatches
from minicnn.optim import SGD
from minicnn.training import Interrupted, Trainer
from tests import cuda_cpu
from tests.cases import CASES
from tests.fast.cuda.test_batches import batches, same
from tests.fast.cuda.test_training import OPTIMISERS, network, source, trained
from tests.fast.cuda.test_update import RULES
from tests.fast.cuda.test_update import trained as stepped
from tests.fast.cuda.test_versions import VERSIONS, compare
from tests.test_training import Doubled

if problem := backend.gpu_problem():
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu():
    return backend.device("gpu")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.name)
@pytest.mark.parametrize("fast", ["0", "1"], ids=["textbook", "fast"])
@given(data=st.data())
def test_ops_agree_with_the_cpu(case, fast, gpu, data):
    """Values and gradients, in both precisions, against float64 textbook operations."""
    arrays, static = data.draw(st.composite(case.draw)())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINICNN_FAST", fast)
        for dtype in ("float32", "float64"):
            compare(gpu, case.op, case.op.pair, arrays, static, dtype)


@pytest.mark.parametrize("name", VERSIONS)
@given(data=st.data())
def test_kernels_agree_with_the_textbook(name, gpu, data):
    op, version, drawing = VERSIONS[name]
    arrays, static = data.draw(st.composite(drawing)())
    compare(gpu, op, version, arrays, static, data.draw(st.sampled_from(["float32", "float64"])))


@pytest.mark.parametrize("shape", [(128, 32, 32, 96, 96, 3), (64, 16, 16, 192, 192, 3), (16, 27, 27, 96, 192, 5)])
def test_convolutions_of_real_sizes(shape, gpu):
    """Winograd's algorithm and im2col in float32 against im2col in float64, relative to the largest value."""
    n, h, w, c, f, k = shape
    n = 1 if cuda_cpu.ASKED else n
    rng = np.random.default_rng(0)
    x, filters, g = (rng.standard_normal(s) for s in ((n, h, w, c), (k, k, c, f), (n, h, w, f)))
    results = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, dtype in (("im2col", "float64"), ("im2col", "float32"), ("winograd", "float32")):
            patch.setenv("MINICNN_CONV", name)
            y, vjp = ops.conv2d.pair(*(gpu.put(a.astype(dtype)) for a in (x, filters)), pad=k // 2)
            results[name, dtype] = [gpu.get(a) for a in (y, *vjp(gpu.put(g.astype(dtype)))[:2])]
    exact = results.pop(("im2col", "float64"))
    for values in results.values():
        for value, right in zip(values, exact, strict=True):
            assert np.abs(value - right).max() <= 5e-5 * np.abs(right).max()


@pytest.mark.parametrize("rule", RULES)
def test_optimisers_agree_with_the_cpu(rule, gpu):
    shapes = [(3, 3, 16, 32), (32,), (), (1000,)]
    expected = stepped(rule, 0.5, shapes, "float64", lambda x: x, late=1)
    for ours, theirs in zip(stepped(rule, 0.5, shapes, "float64", gpu.put, late=1), expected, strict=True):
        np.testing.assert_allclose(gpu.get(ours), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [ResidentBatches, StagedBatches])
def test_batches_have_the_bits_of_the_cpu(kind, gpu):
    for image_size in ((5, 4), (64, 64)):  # of the second, copies take longer than the program needs to go on
        made = batches(n=300, size=image_size, batch=7)
        assert same(kind(made, gpu).epoch(1, 3), made.epoch(1, 3)) == 40


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize(("dtype", "steps", "tolerance"), [("float64", 20, 1e-8), ("float32", 5, 1e-4)])
def test_training_agrees_with_the_cpu(optimiser, dtype, steps, tolerance, gpu):
    made = source(4 * steps - 1, 4, 9, 5)
    made = Doubled(made) if dtype == "float64" else made
    expected, totals = trained(CPU, dtype, steps, optimiser, made)
    found, our_totals = trained(gpu, dtype, steps, optimiser, made)
    assert our_totals.wrong == totals.wrong
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def new_trainer(device):
    model = network().to(device)
    optimiser = SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-3, clip=1.0)
    return Trainer(model, optimiser, source(31, 4, 9, 5), device=device, seed=0)


def test_the_same_bits_again_and_when_resumed(gpu):
    """Two runs, and one that is stopped after three steps and continued by another trainer."""
    whole = [new_trainer(gpu) for _ in range(2)]
    for trainer in whole:
        trainer.finish_epoch()
        trainer.finish_epoch()
    first = new_trainer(gpu)
    with pytest.raises(Interrupted):
        first.finish_epoch(stop=lambda: first.step == 3)
    second = new_trainer(gpu)
    second.restore(*first.state())
    second.finish_epoch()
    second.finish_epoch()
    states = [trainer.model.state_dict() for trainer in (*whole, second)]
    for one, other in pairwise(states):
        for name, value in one.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.skipif(backend.gpu_count() < 2, reason="there is one GPU")
def test_training_on_another_gpu_than_the_current_one(gpu):
    """The program asked for gpu:1 and then for gpu:0, which became the current one."""
    second = backend.device("gpu:1")
    first = backend.device("gpu:0")
    states = []
    for device in (first, second):
        trainer = new_trainer(device)
        trainer.finish_epoch()
        trainer.restore(*trainer.state())
        trainer.finish_epoch()
        states.append(trainer.model.state_dict())
    for name, value in states[0].items():
        np.testing.assert_array_equal(states[1][name], value, err_msg=name)


@contextmanager
def limited_memory(gpu, extra):
    """Within, CuPy may take so many bytes more than it has: from a pool without holes."""
    pool = gpu.xp.cuda.MemoryPool()
    pool.set_limit(size=extra)
    with gpu.xp.cuda.using_allocator(pool.malloc):
        yield


def test_out_of_memory(gpu, monkeypatch):
    """128 images need 230 MiB at once: with less it is done in pieces, with nearly none the message says what to do."""
    monkeypatch.setenv("MINICNN_CONV", "im2col")
    n = 16 if cuda_cpu.ASKED else 128  # and all else is as much smaller
    monkeypatch.setattr(parallel, "DEVICE_PIECE_BYTES", n * parallel.DEVICE_PIECE_BYTES // 128)
    monkeypatch.setattr(parallel, "_share", 1)
    x, w = Parameter(gpu.put(np.ones((n, 32, 32, 48), np.float32))), gpu.put(np.ones((3, 3, 48, 48), np.float32))
    with limited_memory(gpu, n * (160 << 20) // 128):
        with Tape() as tape:
            loss = ops.reduce_sum(ops.conv2d(x, w, pad=1))
        tape.backward(loss)
    np.testing.assert_allclose(float(loss.data), 48 * 48 * n * (32 * 3 - 2) ** 2, rtol=1e-5)
    with (
        limited_memory(gpu, 1 << 20),
        pytest.raises(DeviceError, match=r"too little memory \(.* MiB left\) for conv2d.*a smaller batch"),
    ):
        ops.conv2d(x.data, w, pad=1)
    assert ops.conv2d(x.data, w, pad=1).shape == (n, 32, 32, 48)  # and it goes on


def test_out_of_memory_outside_of_ops(gpu):
    """Moving a network, and the state of an optimiser; afterwards it goes on."""
    model = network()
    with limited_memory(gpu, 1000), pytest.raises(DeviceError, match=r"left\) for the network: use a smaller batch"):
        model.to(gpu)
    model.to(gpu)
    optimiser = SGD(model.parameters(), 0.1, momentum=0.9)
    for p in model.parameters():
        p.grad = p.data * 1
    with limited_memory(gpu, 1000), pytest.raises(DeviceError, match=r"left\) for a step of SGD: use a smaller batch"):
        optimiser.step()
    optimiser.step()
    assert all(np.isfinite(value).all() for value in model.state_dict().values())


def test_speed(gpu, capsys):
    """Prints images per second; asserts only that there are some."""
    rows = list(images_per_second(gpu, quick=cuda_cpu.ASKED))
    with capsys.disabled():
        print(f"\n\ntraining on {gpu}: images per second, float32\n")
        for name, batch, rates in rows:
            print(f"  {name:16} batch {batch:4}", *(f"   {column} {rate:9,.0f}" for column, rate in rates.items()))
    assert all(rate > 0 for *_, rates in rows for rate in rates.values())
