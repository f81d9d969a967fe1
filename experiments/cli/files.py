"""Result files: JSON, CSV, and a lock on their folder."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.cli.app import UsageError
from minicnn.checkpoint import atomic_write_text


def write_json(path: Path, value: Any) -> None:
    atomic_write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path, remedy: str = "get a new copy of it, or remove its folder") -> Any:
    try:
        return json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged ({error}); {remedy}") from None


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows with the same columns; None is an empty cell.  Without rows, the file is empty."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    atomic_write_text(path, text.getvalue())


@contextlib.contextmanager
def locked(folder: Path, doing: str = "training") -> Iterator[None]:
    """Let only one process at a time do this in a folder."""
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
