"""Run one check on one answer, in a separate process that exercises/check.py starts and stops.

python -m exercises.worker TASK FILE SEED RESULT      writes {"verdict": ..., "message": ...} to the file RESULT
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from exercises.catalogue import TASKS
from exercises.grading import AnswerError, numpy_alone, own_lines

MEMORY = 8 * 2**30  # bytes of address space: a mistake in a shape should not stop the machine


def judge(task: str, path: Path, seed: int) -> tuple[str, str]:
    """("right" or "wrong" or "trouble", message).  Trouble is a mistake in the check, not in the answer."""
    checker = importlib.import_module(f"exercises.checkers.{task}")
    try:
        answer = load(path)
        if TASKS[task].numpy_alone:
            numpy_alone(path)
        checker.check(answer, np.random.default_rng(seed))
    except AnswerError as wrong:
        return "wrong", str(wrong)
    except MemoryError:
        return "wrong", "your program asks for too much memory"
    except Exception as error:
        return "trouble", f"the check itself failed ({type(error).__name__}: {error}); please report it with your file"
    return "right", ""


def load(path: Path) -> ModuleType:
    """The student's file as a module."""
    spec = importlib.util.spec_from_file_location("answer", path)
    if spec is None or spec.loader is None:
        raise AnswerError(f"{path} is not a Python file: its name must end in .py")
    answer = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(answer)
    except SyntaxError as error:
        raise AnswerError(f"{path} is not Python: line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise AnswerError(f"importing your file raises\n{own_lines(answer, error)}") from None
    return answer


def limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system can
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(prog="python -m exercises.worker", description=__doc__)
    p.add_argument("task", choices=TASKS)
    p.add_argument("path", type=Path)
    p.add_argument("seed", type=int)
    p.add_argument("result", type=Path)
    args = p.parse_args(arguments)
    if args.seed < 0 or not args.path.is_file() or not args.result.parent.is_dir() or args.result.is_dir():
        p.error("the seed must not be negative; the answer and the folder of the result must exist")
    limit_memory()
    verdict, message = judge(args.task, args.path, args.seed)
    args.result.write_text(json.dumps({"verdict": verdict, "message": message}))


if __name__ == "__main__":
    main(sys.argv[1:])
