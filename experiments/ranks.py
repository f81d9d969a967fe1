"""Command lines on many processes: `mpiexec -n 4 python -m experiments.cifar ...` (docs/cluster.md).

Rank 0 prints and writes; the others keep what they would say to themselves, and say it if they fail.  A rank that
fails alone ends all, since the others would wait for it for ever; where all fail alike, rank 0 says why, once.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from experiments.common import UsageError, fail_once, run_main
from minicnn.cluster import ALONE, Communicator
from minicnn.mpi import SWITCH, ClusterError, Mpi, join, pooled
from minicnn.parallel import use_threads

PATIENCE = 3.0  # seconds in which ranks that fail for the same reason do so
KEPT = 200  # pieces of text that a quiet rank remembers


class Main(Protocol):
    """A command line that can work on many processes."""

    def __call__(self, arguments: list[str], cluster: Communicator = ALONE) -> int: ...


def run_on_ranks(main: Main, module: str) -> None:
    """`common.run_main`, on all processes that were started together."""
    try:
        cluster = join()
    except ClusterError as error:
        sys.exit(fail_once(str(error)))
    if not isinstance(cluster, Mpi):
        run_main(main, module)
        return
    own = sys.stderr
    with quiet(cluster.rank > 0) as said, sharing_cores(cluster):
        code = _exit_code(partial(run_main, partial(main, cluster=cluster), module, alone=False))
    if code and not cluster.all_fail(PATIENCE):
        text = "".join(said)
        print(f"{text}rank {cluster.rank} of {cluster.size} failed and ends all", file=own, flush=True)
        cluster.abort(code)
    sys.exit(code)


def _exit_code(run: Callable[[], object]) -> int:
    """What a program would end with; a traceback is printed here, because its rank may have to end the others."""
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def quiet(on: bool) -> Iterator[collections.deque[str]]:
    """Within, if `on`, nothing is printed; the last of what would go to stderr is in what is given."""
    said: collections.deque[str] = collections.deque(maxlen=KEPT)
    if not on:
        yield said
        return

    class Memory(io.TextIOBase):
        def write(self, text: str) -> int:
            said.append(text)
            return len(text)

    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(Memory()):
        yield said


@contextlib.contextmanager
def sharing_cores(cluster: Communicator) -> Iterator[None]:
    """Within, as many threads as there are cores for each rank, unless MINICNN_THREADS says how many."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    here = (platform.node(), cores)
    with_us = cluster.gather(here).count(here)  # ranks that are bound to cores of their own have them to themselves
    with contextlib.ExitStack() as stack:
        if "MINICNN_THREADS" not in os.environ:
            stack.enter_context(use_threads(max(1, len(cores) // with_us)))
        yield


def cluster_executor() -> Executor:
    """A pool of the ranks 1, 2, ... (`concurrent.futures`), each of which works by itself on what it is given."""
    if not pooled():
        raise UsageError(
            "work is spread over MPI by:  mpiexec -n 5 python -m mpi4py.futures -m experiments.reproduce ...\n"
            "(one process gives out the work, the other four do it)"
        )
    from minicnn.mpi import pool

    return pool(_work_alone)


def _work_alone() -> None:
    os.environ[SWITCH] = "none"  # for programs that a worker starts
