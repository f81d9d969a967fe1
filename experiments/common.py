"""What the command lines share: options, devices, signals, files of a run, tables, and errors as one clear message."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import minicnn
from minicnn.__main__ import reader_gone
from minicnn.backend import DeviceError, gpu_count, gpu_problem
from minicnn.checkpoint import CheckpointError, atomic_write_text
from minicnn.cluster import ALONE, Communicator
from minicnn.cuda import TF32, allow_tf32
from minicnn.data.dataset import DataError
from minicnn.fast.dispatch import forced_convolution
from minicnn.mpi import launched
from minicnn.parallel import threads
from minicnn.training import TrainingError
from reference.paper import CORRECTIONS, Key


class UsageError(Exception):
    """What the user asked for makes no sense; the message says why."""


def run_main(main: Callable[[list[str]], int], module: str, *, alone: bool = True) -> None:
    """Run a command line: expected errors become one message and an exit code, never a traceback.

    alone   whether it works in one process; that of many is started by ranks.run_on_ranks
    """
    arguments, (count, _) = sys.argv[1:], launched()
    if alone and count > 1:
        sys.exit(fail_once(f"{module} works in one process, and {count} were started together: leave out mpiexec"))
    try:
        check_environment()
        code = main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # `... | head` has read enough
        code = reader_gone()
    except DeviceError as error:
        cpu = [a for i, a in enumerate(arguments) if "--device" not in (a, *arguments[max(0, i - 1) : i])]
        cpu = [a for a in cpu if not a.startswith("--device=")]
        code = fail(f"{error}\nThe same on the CPU:\n\n  {command(module, [*cpu, '--device', 'cpu'], count)}")
    except UsageError as error:
        code = fail(str(error), code=2)
    except MemoryError as error:  # CuPy's is one too
        code = fail(f"out of memory ({error}): lower --batch, or --scale, or end other programs")
    except (DataError, CheckpointError, TrainingError, OSError) as error:
        code = fail(str(error))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Within, a ValueError is about what the user asked for."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def argument_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """For the options of `python -m module`; its help shows the description as it is written, examples and all."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def check_environment() -> None:
    """UsageError for a variable of ours that makes no sense: it is read where nobody expects an error of the user's."""
    with usage_errors():
        threads()
        forced_convolution()


def fail(message: str, code: int = 1) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def fail_once(message: str) -> int:
    """`fail` with code 2 of many processes that were started together, each of which comes here."""
    _, rank = launched()
    return fail(message, code=2) if rank == 0 else 2


def command(module: str, arguments: Sequence[str], ranks: int = 1) -> str:
    """A command line to copy."""
    launcher = [] if ranks == 1 else ["mpiexec", "-n", str(ranks)]
    return shlex.join([*launcher, "python", "-m", module, *arguments])


def stopped(folder: Path, line: str) -> int:
    """Say where an interrupted run is saved, and the command line that goes on with it; give the exit code."""
    print(f"saved in {folder}.  To go on:\n\n  {line}", file=sys.stderr)
    return 130


def get_device(name: str, cluster: Communicator = ALONE, *, tf32: bool = False) -> minicnn.Device:
    """The device that --device names; of the GPUs of a machine, each rank there takes its own.

    With --tf32, one whose matrix products may be less exact.
    """
    if tf32:
        allow_tf32()
    if cluster.size > 1 and name in ("auto", "gpu") and (count := gpu_count()):
        own = cluster.local_rank % count
        name = f"gpu:{own}" if name == "gpu" or gpu_problem(own) is None else "cpu"
    with usage_errors():
        device = minicnn.device(name)
    kinds = {kind.partition(":")[0] for kind in cluster.gather(device.name)}
    if len(kinds) > 1:
        raise UsageError("some ranks have a GPU and others have none that works: use --device cpu, or fewer ranks")
    return device


def device_and_ranks(device: minicnn.Device, cluster: Communicator) -> str:
    """ "gpu:0", or "gpu:0, one of 4 ranks"."""
    return str(device) if cluster.size == 1 else f"{device}, one of {cluster.size} ranks"


class StopSignal:
    """Ctrl-C (or a polite kill) asks to stop after the current step; a second one stops at once.

    with StopSignal() as stop:   ... stop() says whether it was asked for
    """

    def __enter__(self) -> Callable[[], bool]:
        self.asked = False
        self._before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # not in the main thread
                self._before[number] = signal.signal(number, self._ask)
        return lambda: self.asked

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this step (again to stop at once) ...", file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def locked(folder: Path, doing: str = "training") -> Iterator[None]:
    """Only one process at a time may do this in a folder."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is {doing} in {folder}; wait for it, or choose another --out") from None
        yield


@cache
def commit(root: Path) -> str:
    """The commit of this code, "..-dirty" where it was changed since; "unknown" where it is not a git clone."""
    if not (root / ".git").exists():  # not that of a project around it
        return "unknown"
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def environment(device: minicnn.Device) -> dict[str, Any]:
    """What a run was computed with, for its config.json."""
    return {
        "minicnn": minicnn.__version__,
        "commit": commit(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": str(device),
        "fast": os.environ.get("MINICNN_FAST", "1"),
        "tf32": os.environ.get(TF32, "0"),
    }


def write_json(path: Path, value: Any) -> None:
    atomic_write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged ({error}); remove the folder or choose another --out") from None


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows that share their columns; an empty cell for None.  Without rows, an empty file."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    atomic_write_text(path, text.getvalue())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first to the left, the others to the right."""
    widths = [max(len(str(line[i])) for line in (head, *rows)) for i in range(len(head))]
    return "\n".join(table_line(line, widths) for line in (head, ["-" * w for w in widths], *rows))


def table_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (str(cell) for cell in cells)
    return "  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))])


def corrections(family: str, key: Key) -> str:
    """Where a network differs from the paper's table because that cannot be meant: whole lines, "" if nowhere."""
    lines = [f"  {correction}\n" for correction in CORRECTIONS.get((family, key), ())]
    return "".join(["\nthe table that the paper prints, corrected (docs/errata.md):\n", *lines]) if lines else ""


def duration(seconds: float) -> str:
    """ "1 h 02 min", "3 min 20 s" or "45 s"."""
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 60} min {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"
