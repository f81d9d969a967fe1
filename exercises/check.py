"""Check an answer to an exercise (docs/exercises.md) and say what is wrong with it.

examples:
  python -m exercises.check --list                          the tasks
  python -m exercises.check write_an_op my_answer.py        right (exit code 0), or what is wrong (exit code 1)
  python -m exercises.check write_an_op my_answer.py --seed 7
                                                            the same check on other random inputs

Start from exercises/starters/<task>.py.  The answer runs in its own process and is stopped after --seconds.  That
protects you against endless loops, not against malice: check the files of strangers in a container.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from exercises.catalogue import TASKS
from experiments.cli.app import UsageError, run_main

MODULE = "exercises.check"
ROOT = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    if args.list:
        for name, task in TASKS.items():
            print(f"{name:18}{task.level:13}{task.minutes:4} min   {task.title}")
        return 0
    if args.dry_run:
        print(f"would check {args.answer} as an answer to {args.task}: {TASKS[args.task].title}")
        return 0
    if not args.answer.is_file():
        raise UsageError(f"there is no file {args.answer}; start from a copy of exercises/starters/{args.task}.py")
    verdict, message = grade(args.task, args.answer.resolve(), args.seed, args.seconds)
    if verdict == "right":
        print(f"{args.task}: right")
        return 0
    if verdict == "wrong":
        print(f"{args.task}: not right yet\n\n{message}")
        return 1
    raise UsageError(message)


def parse(arguments: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog=f"python -m {MODULE}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("task", nargs="?", help="the name of a task")
    p.add_argument("answer", nargs="?", type=Path, help="your Python file")
    p.add_argument("--list", action="store_true", help="list the tasks, and stop")
    p.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    p.add_argument("--seconds", type=float, default=60, help="stop the answer after this long (default 60)")
    p.add_argument("--dry-run", action="store_true", help="say what would be checked, and stop")
    args = p.parse_args(arguments)
    if args.list:
        return args
    if args.task is None or args.answer is None:
        raise UsageError("which task and which file?  Give both, or --list")
    if args.task not in TASKS:
        raise UsageError(f"there is no task {args.task!r}; there are {', '.join(TASKS)}")
    if args.seed < 0 or not args.seconds > 0:
        raise UsageError(f"--seed must be at least 0 and --seconds above 0, got {args.seed} and {args.seconds}")
    return args


def grade(task: str, answer: Path, seed: int, seconds: float) -> tuple[str, str]:
    """The verdict of exercises/worker.py, or a message that the answer has prevented one."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "verdict.json"
        worker = subprocess.Popen(
            [sys.executable, "-m", "exercises.worker", task, str(answer), str(seed), str(result)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # so that processes it starts can be stopped with it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},  # small tasks
        )
        try:
            code = worker.wait(seconds)
        except subprocess.TimeoutExpired:
            return "wrong", f"stopped after {seconds:g} seconds: an endless loop?  (--seconds gives it longer)"
        finally:
            stop(worker)
        try:
            found = json.loads(result.read_text())
        except (OSError, ValueError):
            return "wrong", f"your program ended the process (exit code {code}) before the check was done"
    return found["verdict"], found["message"]


def stop(worker: subprocess.Popen[bytes]) -> None:
    """End the worker and the processes that it started, if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


if __name__ == "__main__":
    run_main(main, MODULE)
