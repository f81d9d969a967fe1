"""Decoding processes: bounded memory, and what happens when one dies."""

import os
import signal
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from minicnn.data.dataset import DataError
from minicnn.data.decode import View
from minicnn.data.workers import CHUNK, SLOTS, Decoders
from tests.data.photos import photo

SIDE = 40


@pytest.fixture
def path(tmp_path):
    """A picture."""
    Image.fromarray(photo(np.random.default_rng(0))).save(tmp_path / "x.png")
    return str(tmp_path / "x.png")


def test_memory_is_bounded(path):
    """Chunks are taken from their source only as memory comes free."""
    taken = []

    def chunks():
        for i in range(1000):
            taken.append(i)
            yield [View(path, 8)]

    with Decoders(1, 8) as decoders, closing(decoders.map(chunks())) as results:
        for _ in range(5):
            pixels, errors = next(results)
            assert pixels.shape == (1, 8, 8, 3)
            assert not errors
    assert len(taken) <= 5 + SLOTS


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_processes_that_die_are_reported(path):
    with Decoders(1, SIDE) as decoders:
        process = decoders._processes[0].process
        views = [[View(path, SIDE)] * CHUNK] * 20
        results = decoders.map(views)
        next(results)
        for polite in (signal.SIGINT, signal.SIGTERM):
            os.kill(process.pid, polite)
        next(results)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(
            DataError, match=r"ended with exit code -9, at one of 16 files from .*/x.png on.*fewer processes"
        ):
            list(results)
        with pytest.raises(DataError, match="exit code -9"):
            list(decoders.map(views))
    decoders.close()
    assert not process.is_alive()
    with pytest.raises(ValueError, match="after close"):
        next(decoders.map(views))


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that cannot be read")
def test_what_the_machine_does_ends_the_work_and_is_said(path):
    """And what is under way in other processes does not reach the next call."""
    good, bad = [View(path, SIDE)], [View("/proc/self/mem", SIDE)]  # whose first byte is an input/output error
    with Decoders(2, SIDE) as decoders:
        with pytest.raises(DataError, match=r"/proc/self/mem cannot be read.*Input/output error"):
            list(decoders.map([good, bad, bad, good, bad]))
        assert len(list(decoders.map([good] * 5))) == 5


@pytest.mark.parametrize("arguments", [(0, SIDE), (1, 0)])
def test_nonsense_is_refused(arguments):
    with pytest.raises(ValueError, match="at least one process and one pixel"):
        Decoders(*arguments)
