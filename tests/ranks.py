"""Many ranks for the tests: threads of one process, processes that mpiexec starts, and those of --processes."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minicnn.cluster import Communicator

ROOT = Path(__file__).parents[1]
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="no mpiexec or no mpi4py: pip install mpi4py mpich",
)

PATIENCE = 300  # seconds: a machine may be busy with other things


class Thread(Communicator):
    """Rank `rank` of `size` threads that meet at a barrier."""

    def __init__(self, rank, size, slots, barrier):
        self.rank, self.size, self.local_rank, self.local_size = rank, size, rank, size
        self._slots, self._barrier = slots, barrier

    def gather(self, value):
        self._slots[self.rank] = value
        self._barrier.wait(PATIENCE)
        found = list(self._slots)
        self._barrier.wait(PATIENCE)
        return found

    gather_number = gather

    def sum(self, array):
        first, *others = self.gather(array)
        total = first.copy()
        for other in others:
            total += other
        return total

    def on_root(self, work):
        return self.gather(work() if self.rank == 0 else None)[0]


def on_threads(size, work):
    """What work(communicator) gives on each of so many ranks; raises what the first that fails raises."""
    slots, barrier = [None] * size, threading.Barrier(size)
    results, errors = [None] * size, []

    def run(rank):
        try:
            results[rank] = work(Thread(rank, size, slots, barrier))
        except BaseException as error:
            errors.append(error)
            barrier.abort()  # the others fail too, after this one

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def start_mpi(ranks, *arguments, cwd):
    """`python -m *arguments` on so many ranks of MPI."""
    return _start([MPIEXEC, "-n", str(ranks), sys.executable, "-m", *arguments], cwd)


def start_processes(ranks, *arguments, cwd):
    """The same without MPI."""
    return _start([sys.executable, "-m", *arguments, "--processes", str(ranks)], cwd)


def _start(command, cwd):
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MINICNN_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts():
    """Tests that a shell has started in the background ignore Ctrl-C, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(start, ranks, *arguments, cwd):
    """What one of the two has started, run to its end; it must not hang."""
    with start(ranks, *arguments, cwd=cwd) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


both_kinds = pytest.mark.parametrize(
    "start", [pytest.param(start_mpi, marks=needs_mpi, id="mpi"), pytest.param(start_processes, id="processes")]
)
