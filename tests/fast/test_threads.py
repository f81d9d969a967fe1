"""The same bits on any number of threads; safe in threads, nested, and after a fork."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from minicnn import Stream, Tape, blas, ops, parallel
from minicnn.models import convpool, vgg
from minicnn.optim import SGD
from tests.fast.native.ways import needs_compiler

MODELS = {
    "convpool": lambda: convpool("crelu", scale=0.5),
    "vgg": lambda: vgg("crelu", (1, 3), scale=0.1),
}


@pytest.mark.parametrize("native", [pytest.param("1", marks=needs_compiler, id="C"), pytest.param("0", id="NumPy")])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_gives_the_same_bits_on_1_2_and_4_threads(monkeypatch, name, native):
    results = []
    monkeypatch.setenv("MINICNN_NATIVE", native)
    x = np.random.default_rng(0).normal(size=(16, 32, 32, 3)).astype(np.float32)
    for count in (1, 2, 4):
        monkeypatch.setenv("MINICNN_THREADS", str(count))
        model = MODELS[name]()
        optimiser = SGD(model.parameters(), lr=0.01, momentum=0.9, clip=1.0)
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0)), np.arange(16) % 10)
        tape.backward(loss)
        optimiser.step()
        results.append(model.state_dict() | {"loss": loss.data})
    for other in results[1:]:
        for key, value in results[0].items():
            np.testing.assert_array_equal(other[key], value)


def convolve():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(24, 16, 16, 32)), rng.normal(size=(3, 3, 32, 32))
    y, vjp = ops.conv2d.pair(x, w, pad=1)
    return y, *vjp(y)[:2]


def test_several_threads_at_once(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "3")
    expected, found = convolve(), []
    workers = [threading.Thread(target=lambda: found.append(convolve())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    for result in found:
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nested_use_runs_in_the_worker_itself(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "2")
    monkeypatch.setattr(parallel, "HOST_PIECE_BYTES", 1)
    seen = []

    def inner(piece):
        seen.append(threading.get_ident())

    def outer(piece):
        before = len(seen)
        me = threading.get_ident()
        parallel.over_batch(inner, 3, 1, np.zeros(1))
        mine = [i for i in seen[before:] if i == me]
        assert len(mine) >= 3

    parallel.over_batch(outer, 4, 1, np.zeros(1))
    assert len(seen) == 12


def test_an_error_in_a_worker_is_raised_here(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "2")
    monkeypatch.setattr(parallel, "HOST_PIECE_BYTES", 1)

    def work(piece):
        raise ZeroDivisionError(str(piece))

    with pytest.raises(ZeroDivisionError):
        parallel.over_batch(work, 8, 1, np.zeros(1))
    convolve()  # and the workers live on


@pytest.fixture
def _ctrl_c_interrupts():
    """It does not in a process that a shell has started in the background, unless Python is told so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_interrupts")
def test_after_an_interruption_nobody_works_any_more(monkeypatch):
    """Ctrl-C while a helper is in the middle of an item: the call ends when the item does, not before."""
    monkeypatch.setenv("MINICNN_THREADS", "2")
    began, finished = threading.Event(), threading.Event()

    def work(item):
        if threading.current_thread() is threading.main_thread():
            assert began.wait(60)
            return
        began.set()
        time.sleep(0.1)  # now the other thread is done, and waits for this one
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        finished.set()

    with pytest.raises(KeyboardInterrupt):
        parallel.over_slices(work, [slice(0, 1), slice(1, 2)], np.zeros(1))
    assert finished.is_set()
    assert not parallel._here.busy


def test_an_interruption_stops_the_helpers_after_their_item(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "2")
    done, began = [], threading.Event()

    def work(item):
        if threading.current_thread() is threading.main_thread():
            assert began.wait(60)
            raise KeyboardInterrupt
        began.set()
        time.sleep(0.05)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        parallel.over_slices(work, [slice(i, i + 1) for i in range(200)], np.zeros(1))
    before = len(done)
    time.sleep(0.1)
    assert len(done) == before < 100


@pytest.mark.parametrize("count", [1, 3])
def test_workers_keep_to_the_callers_errstate(monkeypatch, count):
    monkeypatch.setenv("MINICNN_THREADS", str(count))
    huge, meeting = np.full(4, 3e38, np.float32), threading.Barrier(count)

    def work(item):
        meeting.wait(60)  # so that every thread has one
        huge * huge

    slices = [slice(i, i + 1) for i in range(count)]
    with np.errstate(over="ignore"):
        parallel.over_slices(work, slices, huge)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        parallel.over_slices(work, slices, huge)


def test_the_blas_has_its_threads_back_afterwards(monkeypatch):
    monkeypatch.setenv("MINICNN_THREADS", "2")
    libraries = blas.blas_controllers()
    if not libraries:
        pytest.skip("no BLAS here whose threads can be set")
    before = [library.get_num_threads() for library in libraries]
    with blas.one_blas_thread():
        assert [library.get_num_threads() for library in libraries] == [1] * len(libraries)
        with blas.one_blas_thread():
            pass
        assert [library.get_num_threads() for library in libraries] == [1] * len(libraries)
    assert [library.get_num_threads() for library in libraries] == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes():
    """Also if another thread, which is not there afterwards, held all locks at that moment.

    In a process of its own: forking with threads makes newer Pythons warn.
    """
    code = """
import os, threading, warnings
warnings.simplefilter("ignore")
os.environ["MINICNN_THREADS"] = "2"
from minicnn import blas, parallel
from minicnn.fast.cpu import memory
from minicnn.fast.native import library
from tests.fast.test_threads import convolve
import numpy as np
expected = convolve()
held = threading.Event()
def hold():
    with memory._lock, parallel._lock, blas._lock, library._lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    library._libraries.clear()
    memory.empty((memory.LEAST_BYTES,), np.uint8)
    ok = all((a == b).all() for a, b in zip(convolve(), expected))
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("value", ["0", "-1", "two", ""])
def test_nonsense_as_the_number_of_threads_is_refused(monkeypatch, value):
    monkeypatch.setenv("MINICNN_THREADS", value)
    with pytest.raises(ValueError, match="MINICNN_THREADS must be a positive integer"):
        parallel.threads()


def test_scratch_is_used_again_and_grows():
    a = parallel.scratch("test", (4, 4), np.float32)
    b = parallel.scratch("test", (2, 2), np.float64)
    assert np.shares_memory(a, b)
    assert parallel.scratch("test", (100,), np.float64).size == 100
