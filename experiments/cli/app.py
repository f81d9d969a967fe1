"""What every command shares: errors as one clear message, options, devices, signals."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import minicnn
from experiments.cli.parser import Parser
from minicnn.backend import DeviceError, gpu_count, gpu_problem
from minicnn.checkpoint import TEMPORARY, CheckpointError
from minicnn.cluster import ALONE, Communicator
from minicnn.console import reader_gone
from minicnn.data.dataset import DataError
from minicnn.fast.dispatch import forced_convolution
from minicnn.fast.native import library
from minicnn.mpi import launched, launcher
from minicnn.parallel import threads
from minicnn.precision import precision, set_precision
from minicnn.training import Interrupted, TrainingError


class UsageError(Exception):
    """The user asked for something that makes no sense; the message says why."""


def run_main(main: Callable[[list[str]], int], module: str, *, alone: bool = True) -> None:
    """Run a command line: expected errors become one message and an exit code, never a traceback.

    alone   whether it runs in one process only; ranks.run_on_ranks starts the commands that can run in several
    """
    arguments, (count, _) = sys.argv[1:], launched()
    if alone and count > 1:
        sys.exit(fail_once(f"{module} runs in one process, but {count} were started together: leave out mpiexec"))
    try:
        check_environment()
        code = main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # `... | head` has read enough
        code = reader_gone()
    except DeviceError as error:
        cpu = [a for i, a in enumerate(arguments) if "--device" not in (a, *arguments[max(0, i - 1) : i])]
        cpu = [a for a in cpu if not a.startswith("--device=")]
        instead = command(module, [*cpu, "--device", "cpu"], launcher(count))
        code = fail(f"{error}\nTo run on the CPU instead:\n\n  {instead}")
    except UsageError as error:
        code = fail(str(error), code=2)
    except MemoryError as error:  # CuPy's is one too
        code = fail(f"out of memory ({error}): lower --batch or --scale, or close other programs")
    except OSError as error:
        code = fail(_about_file(error, arguments))
    except (DataError, CheckpointError, TrainingError) as error:
        code = fail(str(error))
    except (KeyboardInterrupt, Interrupted):
        code = 130
    sys.exit(code)


def _about_file(error: OSError, arguments: Sequence[str]) -> str:
    """What went wrong with a file; if that of --out could not be made, or its folder, that and the remedy."""
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--out", type=Path)
    out = known.parse_known_args(arguments)[0].out
    if out is None or out.exists() or error.filename is None:
        return str(error)
    path = Path(error.filename)
    unfinished = path.parent == out.parent and path.name.startswith(TEMPORARY)
    ours = unfinished or path in (out, *out.parents) or path.is_relative_to(out)
    return f"cannot write to {out}: choose another --out" if ours else str(error)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError raised inside into a UsageError: it is about what the user asked for."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def hint(remedy: str) -> Iterator[None]:
    """Add a remedy to a DataError raised inside: the library does not know this command's options."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}\n{remedy}") from None


def argument_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for the command in a module."""
    return Parser(" ".join(program(module)), as_started(description or ""))


def program(module: str) -> list[str]:
    """The words that start a command, as this process was started: `minicnn cifar` or `python -m experiments.cifar`."""
    if Path(sys.argv[0]).stem == "minicnn" and module.startswith("experiments."):
        return ["minicnn", module.removeprefix("experiments.")]
    return ["python", "-m", module]


def as_started(text: str) -> str:
    """A text with its commands as this process was started: `python -m experiments.x` may be `minicnn x` there."""
    return re.sub(r"python -m (experiments\.\w+)", lambda found: " ".join(program(found[1])), text)


def check_environment() -> None:
    """UsageError for an invalid MINICNN_* variable; checked here because the library reads it only deep inside."""
    with usage_errors():
        threads()
        forced_convolution()
        precision()


def fail(message: str, code: int = 1) -> int:
    print(f"error: {as_started(message)}", file=sys.stderr)
    return code


def fail_once(message: str) -> int:
    """`fail` with code 2; when several processes started together all fail, only the first prints the message."""
    _, rank = launched()
    return fail(message, code=2) if rank == 0 else 2


def command(module: str, arguments: Sequence[str], before: Sequence[str] = (), *, resume: bool = False) -> str:
    """A command line to copy, with a launcher's words before it; with `resume`, one that continues the run."""
    again = ["--resume"] if resume and "--resume" not in arguments else []
    return shlex.join([*before, *program(module), *arguments, *again])


def get_device(name: str, cluster: Communicator = ALONE, *, products: str | None = None) -> minicnn.Device:
    """The device that --device names; the ranks on a machine take its GPUs in turn.

    products    how exact they are, as --precision says; None: as the environment does
    """
    if products is not None:
        set_precision(products)
    if cluster.size > 1 and name in ("auto", "gpu") and (count := gpu_count()):
        own = cluster.local_rank % count
        name = f"gpu:{own}" if name == "gpu" or gpu_problem(own) is None else "cpu"
    with usage_errors():
        device = minicnn.device(name)
    if products is not None and device.cuda is None:
        check_products_of_cpu(products)
    kinds = {kind.partition(":")[0] for kind in cluster.gather(device.name)}
    if len(kinds) > 1:
        raise UsageError("some ranks have a working GPU and others have none: use --device cpu, or fewer ranks")
    return device


def check_products_of_cpu(name: str) -> None:
    """UsageError if --precision asks for what a CPU cannot do; a word if it will not be worth it."""
    if name == "tf32":
        raise UsageError("--precision tf32 is for a GPU: on a CPU, choose float32 or bf16")
    if name == "bf16":
        if (problem := library.bf16_problem()) is not None:
            raise UsageError(f"--precision bf16 on a CPU needs the kernels in C: {problem}")
        if not library.bf16_is_fast():
            print("This processor has no instructions for bf16: --precision float32 is faster.", file=sys.stderr)


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
        print("\nstopping after this step (Ctrl-C again stops at once) ...", file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interruptible(line: str, folder: Path) -> Iterator[Callable[[], bool]]:
    """StopSignal for a training: once it has stopped, print where it is saved and the command that continues it."""
    with StopSignal() as stop:
        try:
            yield stop
        except Interrupted:
            print(f"saved in {folder}.  To continue:\n\n  {line}", file=sys.stderr)
            raise


def counted(count: int, one: str, many: str | None = None) -> str:
    """ "1 epoch", "10 epochs"; many: the plural, if it is not `one` with an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """ "1 h 02 min", "3 min 20 s" or "45 s"."""
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 60} min {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"
