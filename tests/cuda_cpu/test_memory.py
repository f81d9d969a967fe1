"""Whatever runs out of memory says what to do, and what there was before is as it was."""

import re
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from minicnn import backend, nn, ops, parallel, to_device
from minicnn.backend import CPU, DeviceError, gpu_problem
from minicnn.cuda import CupyCuda
from minicnn.fast.batches import StagedBatches, on_device
from minicnn.optim import SGD, Adam
from minicnn.training import Trainer
from tests import cuda_cpu
from tests.fast.cuda.test_batches import batches, same
from tests.fast.cuda.test_training import source

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not cuda_cpu.ASKED, reason="about the CPU in the place of a GPU")]

REMEDY = r": use a smaller batch or a narrower network, or end other programs that use it\.$"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(parallel, "_share", 1)  # what runs out of memory makes it larger, for the rest of the process
    return backend.device("gpu")


@contextmanager
def memory_left(gpu, left):
    """Within, so many bytes can be had, and none from what a pool has kept."""
    gpu.free_memory()
    with gpu.xp.cuda.using_allocator(None), cuda_cpu.memory_left(left):
        yield


def too_little(what):
    return pytest.raises(DeviceError, match=r"^gpu:0 has too little memory \([\d,]+ MiB left\) for " + what + REMEDY)


def network():
    """Without batch normalisation, whose moments a step changes before it can fail."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, pad=1), nn.CReLU(), nn.Dropout(0.25), nn.GlobalAvgPool(), nn.Linear(16, 5)
    ).initialise(0)


def same_state(model, expected):
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize("large", [False, True])
def test_an_array(large, gpu, monkeypatch):
    monkeypatch.setattr(backend, "LARGE", 0 if large else 1 << 30)
    x = np.ones((100, 1000))
    with memory_left(gpu, x.nbytes - 1):
        for put in (gpu.put, lambda x: to_device(x, gpu)):
            with too_little(r"an array of shape \(100, 1000\), 0\.8 MiB"):
                put(x)
    assert gpu.get(gpu.put(x)).sum() == x.size


def test_a_network_moves_as_a_whole_or_not_at_all(gpu):
    model = network()
    expected = model.state_dict()
    with memory_left(gpu, 1200), too_little("the network"):  # enough for conv1
        model.to(gpu)
    assert all(isinstance(value.data, np.ndarray) for _, value in model.named_state())
    same_state(model.to(gpu), expected)
    with memory_left(gpu, 2400), too_little("the network"):
        model.to(dtype="float64")
    assert {value.data.dtype for _, value in model.named_state()} == {np.dtype("float32")}
    same_state(model, expected)


def test_saved_weights_are_loaded_as_a_whole_or_not_at_all(gpu):
    model, other = network().to(gpu), network().initialise(1).state_dict()
    expected = model.state_dict()
    with memory_left(gpu, 1200), too_little("the network"):
        model.load_state_dict(other)
    same_state(model, expected)
    model.load_state_dict(other)
    same_state(model, other)


def test_an_optimiser(gpu):
    """Its state is made at the first step, and there is one step for all parameters or none."""
    models = [network().to(gpu) for _ in range(2)]
    optimisers = [Adam(model.parameters(), 0.1) for model in models]
    for i, (model, optimiser) in enumerate(zip(models, optimisers, strict=True)):
        for p in model.parameters():
            p.grad = p.data * 0 + 1
        if i == 1:
            expected = model.state_dict()
            with memory_left(gpu, 2400), too_little("a step of Adam"):
                optimiser.step()
            same_state(model, expected)
            assert (optimiser.steps, set(optimiser.updates)) == (0, {0})
        optimiser.step()
    same_state(models[1], models[0].state_dict())
    saved = optimisers[0].state_dict()
    optimisers[0].step()
    newer = optimisers[0].state_dict()
    with memory_left(gpu, 2400), too_little("the state of Adam"):
        optimisers[0].load_state_dict(saved)
    for name, value in optimisers[0].state_dict().items():
        np.testing.assert_array_equal(value, newer[name], err_msg=name)


def test_an_average_begins_with_all_weights_or_not_at_all(gpu):
    model = network().to(gpu)
    average = nn.EMA(model, 0.5)
    with memory_left(gpu, 1200), too_little("the average of the weights"):
        average.update()
    assert average.state_dict().keys() == {"steps"}
    average.update()
    with average.applied():
        same_state(model, network().state_dict())


def test_a_training_goes_on_when_there_is_memory_again(gpu, monkeypatch):
    """Wherever a step fails, in a derivative with some gradients there already, too: it is done anew."""
    monkeypatch.setenv("MINICNN_GRAPH", "0")

    def new_trainer():
        model = network()
        optimiser = SGD(model.parameters(), 0.1, momentum=0.9)
        return Trainer(model, optimiser, source(24, 4, 9, 5), device=gpu, seed=0)

    whole, failed_in = new_trainer(), set()
    expected = whole.finish_epoch(every=1)
    for left in range(0, 100_000, 4_000):
        ours = new_trainer()
        with ExitStack() as limit:

            def stop(ours=ours, limit=limit, left=left):
                if ours.step == 3:
                    limit.enter_context(memory_left(gpu, left))
                return False

            try:
                assert ours.finish_epoch(stop=stop, every=1) == expected
                break
            except DeviceError as error:
                failed_in.add(re.fullmatch(r"gpu:0 has too little memory \(.* left\) for (.*)" + REMEDY, str(error))[1])
        assert ours.step == 3
        assert all(p.grad is None for p in ours.model.parameters())
        assert ours.finish_epoch(every=1) == expected
        same_state(ours.model, whole.model.state_dict())
    else:
        pytest.fail("memory was never enough")
    assert {"a batch", "the derivative of conv2d_activated, also in smaller pieces"} <= failed_in


def test_batches(gpu):
    made = batches(n=60, size=(5, 4), batch=4)
    staged = StagedBatches(made, gpu)
    with memory_left(gpu, 1000), too_little("a batch"):
        next(staged.epoch(0))
    assert same(staged.epoch(0), made.epoch(0)) == 15


def test_a_data_set_for_which_there_is_no_room_after_all(gpu, monkeypatch):
    """What is free need not be in one piece."""
    made = batches(n=60, size=(5, 4), batch=4)
    monkeypatch.setattr(CupyCuda, "free_bytes", lambda cuda: 1 << 30)
    with memory_left(gpu, made.images.nbytes - 1):
        assert type(on_device(made, gpu)) is StagedBatches


def in_a_thread(work):
    """What work() gives in a thread of its own, where CuPy makes a handle of cuBLAS of its own: that takes memory."""
    found = []

    def run():
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_cublas_finds_no_memory(gpu):
    """It does not ask CuPy's pool, which may have what it needs: that is given back, and then it works."""
    x, w = gpu.put(np.ones((4, 300))), gpu.put(np.ones((300, 7)))
    with memory_left(gpu, 1 << 20):
        error = in_a_thread(lambda: ops.linear(x, w))
    assert isinstance(error, DeviceError)
    with too_little("linear, also in smaller pieces"):
        raise error
    pool = gpu.xp.get_default_memory_pool()
    with gpu.xp.cuda.using_allocator(pool.malloc):
        kept = gpu.xp.empty(8 << 20, np.uint8)
        del kept
        with cuda_cpu.memory_left(1 << 20):
            y = in_a_thread(lambda: gpu.get(ops.linear(x, w)))
    np.testing.assert_array_equal(y, np.full((4, 7), 300.0))


def test_a_gpu_that_others_have_filled(gpu):
    with memory_left(gpu, 0):
        problem = in_a_thread(gpu_problem)
    assert problem.startswith("its memory is used up (")
    assert problem.endswith("`nvidia-smi` shows which programs have it: end one.")
    assert gpu_problem() is None


def test_how_libraries_say_it(gpu):
    from cupy.cuda import cublas, cusolver, driver, runtime

    for error in (
        gpu.xp.cuda.memory.OutOfMemoryError(1, 2),
        runtime.CUDARuntimeError(2),
        driver.CUDADriverError(2),
        cublas.CUBLASError(3),
        cusolver.CUSOLVERError(2),
    ):
        assert gpu.out_of_memory(error)
        assert not CPU.out_of_memory(error)
    for error in (MemoryError(), runtime.CUDARuntimeError(700), cublas.CUBLASError(7), cusolver.CUSOLVERError(3)):
        assert not gpu.out_of_memory(error)
