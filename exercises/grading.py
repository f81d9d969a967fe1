"""What the checks share: calling an answer, comparing numbers, and saying what is wrong in a way that teaches."""

from __future__ import annotations

import ast
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

IMPORTERS = ("importlib", "pkgutil", "runpy")  # modules of the standard library that could import anything else


class AnswerError(Exception):
    """The answer is not right yet.  The message names the input, what was expected and what it got."""


def call(answer: ModuleType, name: str, *args: Any, **options: Any) -> Any:
    """answer.name(*args, **options).  An error becomes an AnswerError that shows the answer's lines, not ours."""
    return run(answer, function(answer, name), *args, **options)


def function(answer: ModuleType, name: str) -> Any:
    found = getattr(answer, name, None)
    if not callable(found):
        raise AnswerError(f"there is no function {name} in your file; its signature is in the starter file")
    return found


def run(answer: ModuleType, work: Any, *args: Any, **options: Any) -> Any:
    """work(*args, **options), where work comes from the answer: one of its functions, or what they return."""
    try:
        return work(*args, **options)
    except NotImplementedError as error:
        raise AnswerError(f"{own_lines(answer, error)}\nThis part is not written yet.") from None
    except (Exception, SystemExit) as error:
        given = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in options.items())])
        name = getattr(work, "__name__", str(work))
        raise AnswerError(f"{name}({given}) raises\n{own_lines(answer, error)}") from None


def own_lines(answer: ModuleType, error: BaseException) -> str:
    """The error, and where in the student's file it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == answer.__file__]
    lines = [f"  line {f.lineno}, in {f.name}:  {f.line}" for f in frames]
    return "\n".join([*lines, f"  {type(error).__name__}: {error}"])


def shown(value: Any) -> str:
    """A value in one line: small arrays in full, large ones by their shape."""
    if not isinstance(value, np.ndarray):
        return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)
    if value.size > 24:
        return f"<array of shape {value.shape}, {value.dtype}>"
    text = np.array2string(value, precision=6, separator=", ", max_line_width=10_000)
    return " ".join(text.split())


def same(what: str, got: Any, expected: np.ndarray, *, given: str = "", tolerance: float = 1e-9) -> None:
    """Raise AnswerError, naming the worst entry, unless `got` equals `expected` up to `tolerance` of the largest entry.

    given    the input in words, for the message
    """
    got = array(what, got, given=given)
    if got.shape != expected.shape:
        raise AnswerError(
            f"{what} has the wrong shape{_on(given)}\n  expected  {expected.shape}\n  got       {got.shape}"
        )
    if got.size == 0:
        return
    scale = max(1.0, float(abs(expected).max()))
    error = np.where(np.isfinite(got), abs(got - expected), np.inf)
    if float(error.max()) > tolerance * scale:
        at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
        place = f"[{', '.join(map(str, at))}]" if at else ""
        raise AnswerError(
            f"{what} is wrong{_on(given)}\n"
            f"  expected  {what}{place} = {float(expected[at]):.9g}\n  got       {what}{place} = {float(got[at]):.9g}"
        )


def array(what: str, value: Any, *, given: str = "") -> np.ndarray:
    """`value` as an array of floats, or AnswerError."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise AnswerError(f"{what} should be an array of numbers{_on(given)}, got {type(value).__name__}") from None


def matrix(what: str, value: Any) -> np.ndarray:
    """`value` as a matrix of finite numbers, at least 1 x 1, or AnswerError."""
    found = array(what, value)
    if found.ndim != 2 or 0 in found.shape or not np.isfinite(found).all():
        raise AnswerError(f"{what} should be a matrix of finite numbers, got shape {found.shape}: {shown(found)}")
    return found


def parts(what: str, value: Any, count: int) -> tuple[Any, ...]:
    """`value` as a tuple of `count` entries, or AnswerError."""
    if not isinstance(value, tuple | list) or len(value) != count:
        size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
        raise AnswerError(f"{what} should be a tuple of {count}, got {type(value).__name__}{size}")
    return tuple(value)


def _on(given: str) -> str:
    return f" for {given}" if given else ""


def numpy_alone(path: Path) -> None:
    """Raise AnswerError if the file imports anything but NumPy and the standard library: the answer may be in there."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module):
                modules = [module or ""]
            case ast.Name("__import__"):
                modules = ["__import__"]
            case _:
                continue
        for top in (module.split(".")[0] for module in modules):
            if top != "numpy" and (top not in sys.stdlib_module_names or top in IMPORTERS):
                raise AnswerError(f"line {node.lineno} uses {top or 'files beside it'}: this task is for NumPy alone")
