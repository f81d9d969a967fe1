"""Commands on several processes that mpiexec or srun started together (docs/cluster.md).

Rank 0 prints and writes; the others remember the end of what they would print, and print it if they fail.  A rank that
fails alone ends them all, since the others would wait for it forever; if all fail alike, rank 0 says why, once.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import platform
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Protocol

from experiments.cli.app import UsageError, fail_once, run_main
from minicnn.cluster import ALONE, ClusterError, Communicator
from minicnn.mpi import SWITCH, Mpi, join, pool, pooled
from minicnn.parallel import usable_cores, use_threads

PATIENCE = 3.0  # seconds within which ranks that share a reason to fail all do so
KEPT = 200  # pieces of text that a quiet rank remembers


class Main(Protocol):
    """A command that can run on several processes."""

    def __call__(self, arguments: list[str], cluster: Communicator = ALONE) -> int: ...


def run_on_ranks(main: Main, module: str) -> None:
    """`app.run_main`, on all processes that were started together."""
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
        print(f"{text}rank {cluster.rank} of {cluster.size} failed; ending all ranks", file=own, flush=True)
        cluster.abort(code)
    sys.exit(code)


def _exit_code(run: Callable[[], object]) -> int:
    """The program's exit code; a traceback is printed here because this rank may have to end the others."""
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
    """If `on`, print nothing inside the block; what it yields collects the last texts meant for stderr."""
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


def cores_of_a_rank(cluster: Communicator) -> int:
    """How many cores this rank may use, at least 1."""
    cores = usable_cores()
    here = (platform.node(), cores)
    with_us = cluster.gather(here).count(here)  # ranks bound to cores of their own share them with nobody
    return max(1, len(cores) // with_us)


@contextlib.contextmanager
def sharing_cores(cluster: Communicator) -> Iterator[None]:
    """Inside the block, a rank uses as many threads as its share of cores, unless MINICNN_THREADS sets the number."""
    cores = cores_of_a_rank(cluster)
    with contextlib.ExitStack() as stack:
        if "MINICNN_THREADS" not in os.environ:
            stack.enter_context(use_threads(cores))
        yield


# A pool of ranks that work independently


def cluster_executor() -> tuple[Executor, int]:
    """Ranks 1, 2, ... as workers (`concurrent.futures`), and their number."""
    if not pooled():
        raise UsageError(
            "--workers mpi needs a pool of processes, started with:\n\n"
            "  mpiexec -n 5 python -m mpi4py.futures -m experiments.reproduce ...\n\n"
            "(one process hands out the work, the other four do it)"
        )
    return pool(_begin_work)


_asked: list[int] = []  # signals that a worker has received, to be passed on


def _begin_work() -> None:
    """Prepare a worker; each calls this once."""
    os.environ[SWITCH] = "none"  # for programs that it starts
    for number in (signal.SIGINT, signal.SIGTERM):  # the launcher sends them to all ranks
        signal.signal(number, lambda number, _: _asked.append(number))


def run_program(command: Sequence[str], environment: Mapping[str, str], out: Path, err: Path) -> int:
    """For a worker: run a program to its end, with its output in files, and return its exit code.

    Ctrl-C reaches it as SIGINT.  Its standard input is a pipe that ends when the worker does.
    """
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **environment},
            start_new_session=True,  # signals come to us, and we pass them on
        )
    told = False
    while True:
        if _asked and not told:
            told = True
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=0.2)
