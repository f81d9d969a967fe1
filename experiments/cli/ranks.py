"""Commands on several processes: those that mpiexec or srun started together, or --processes (docs/cluster.md).

Rank 0 prints and writes; the others remember the end of what they would print, which is printed if they fail.  A rank
that fails alone ends them all, since the others would wait for it forever; if all fail alike, rank 0 says why, once.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import platform
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from experiments.cli.app import UsageError, fail_once, run_main
from minicnn.backend import gpu_count
from minicnn.cluster import ALONE, ClusterError, Communicator
from minicnn.mpi import SWITCH, Mpi, join, launched, pool, pooled
from minicnn.parallel import usable_cores, use_threads
from minicnn.processes import Follower, Leader, RankLostError, joined

PATIENCE = 3.0  # seconds within which ranks that share a reason to fail all do so
KEPT = 200  # pieces of text that a quiet rank remembers
MOST = 256  # processes; many more would bring a machine to its knees before an error says that they are too many
MOST_BY_ITSELF = 16  # where "auto" ends: with 8 of 128 images each, what every process does once per step weighs


class Main(Protocol):
    """A command that can run on several processes."""

    def __call__(self, arguments: list[str], cluster: Communicator = ALONE) -> int: ...


def run_on_ranks(main: Main, module: str) -> None:
    """`app.run_main`, on all processes that were started together, or on as many as --processes asks for."""
    follower = joined()
    if follower is not None:
        sys.exit(_follow(main, module, follower))
    try:
        count = asked_processes(sys.argv[1:])
        if count > 1 and launched()[0] > 1:
            raise ClusterError("--processes starts processes by itself: leave out mpiexec, or --processes")
        if count > 1:
            sys.exit(_lead(main, module, count))
        cluster = join()
    except ClusterError as error:
        sys.exit(fail_once(str(error)))
    if not isinstance(cluster, Mpi):
        run_main(main, module)
        return
    own = sys.stderr
    with quiet(cluster.rank > 0) as said:
        code = _exit_code(main, module, cluster)
    if code and not cluster.all_fail(PATIENCE):
        text = "".join(said)
        print(f"{text}rank {cluster.rank} of {cluster.size} failed; ending all ranks", file=own, flush=True)
        cluster.abort(code)
    sys.exit(code)


def _lead(main: Main, module: str, count: int) -> int:
    """The exit code of rank 0 of the processes that it starts.  If it fails, it says why and ends them."""
    try:
        with Leader(count) as cluster:
            code = _exit_code(main, module, cluster)
            if code == 0:
                cluster.finish()
            return code
    except RankLostError as lost:
        print(lost, file=sys.stderr)
        return lost.code
    except KeyboardInterrupt:  # while they start or end
        return 130


def _follow(main: Main, module: str, cluster: Follower) -> int:
    """The exit code of another rank, which tells rank 0 if it fails."""
    with quiet(True) as said:
        code = _exit_code(main, module, cluster)
    if code:
        cluster.report("".join(said), code)
    return code


def _exit_code(main: Main, module: str, cluster: Communicator) -> int:
    """The program's exit code; a traceback is printed here because this rank may have to end the others."""
    try:
        with sharing_cores(cluster):
            run_main(partial(main, cluster=cluster), module, alone=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except RankLostError:
        raise
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def processes_option(group: Any) -> None:
    """Add --processes to a parser or to a group of its options; `run_on_ranks` obeys it before the command begins."""
    group.add_argument(
        "--processes",
        type=_process_count,
        default=1,
        metavar="N",
        help="share every batch among N processes on this machine, which divide the cores (default 1); auto: one per "
        f"GPU or, without one, per core, at most {MOST_BY_ITSELF}.  Where it pays: docs/cluster.md",
    )


def asked_processes(arguments: Sequence[str]) -> int:
    """How many processes a command line asks for; 1 if what it asks for is nonsense, about which the command complains.

    "auto" depends on the machine and on nothing that is measured: the same command gives the same bits there again.
    """
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--processes", nargs="?")
    p.add_argument("--device", nargs="?")
    asked = p.parse_known_args(list(arguments))[0]
    try:
        count = _process_count(asked.processes or "1")
    except argparse.ArgumentTypeError:
        return 1
    if count:
        return count
    return min(MOST_BY_ITSELF, (0 if asked.device == "cpu" else gpu_count()) or len(usable_cores()))


def _process_count(text: str) -> int:
    """A number of processes; 0 stands for "auto"."""
    if text == "auto":
        return 0
    if not (text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST}, or auto, got {text!r}")
    return int(text)


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
