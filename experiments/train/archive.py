"""The small files of a reproduction, packed into a few to commit or to move to another machine.

A tree has one folder per run and per analysis (reproduction/steps.py).  An archive holds the same in long tables:

  runs.json, analyses.json     every JSON file, by its path: settings, results, stamps, ...
  runs/*.csv, analyses/*.csv   the rows of all CSV files of that name; the first column names the file
  runs/predictions.npz         predicted classes of the test images per run, and the correct ones per data set
  runs/**/weights.npz, analyses/**/*.png    as in the tree

`pack` turns a tree into an archive, `unpack` an archive into a tree; `unpacked` is for readers and unpacks once per
process.
"""

from __future__ import annotations

import atexit
import csv
import io
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.train.folder import PREDICTIONS
from minicnn.checkpoint import CheckpointError, atomic_write_bytes, atomic_write_text, load, save

RUNS, ANALYSES = "runs", "analyses"  # folders of a tree
INDEX = f"{RUNS}.json"
Rows = list[list[str]]


def pack(tree: Path, archive: Path) -> None:
    """Make an archive of a tree; in an archive that is there already, what the tree does not have is removed."""
    again = is_archive(archive)
    for kind in (RUNS, ANALYSES):
        before = set(_files(archive / kind)) if again else set()
        index: dict[str, Any] = {}
        tables: dict[str, dict[str, Rows]] = {}
        arrays: dict[str, np.ndarray] = {}
        for path in _files(tree / kind):
            where = path.relative_to(tree / kind).as_posix()
            if path.suffix == ".json":
                index[where] = read_json(path)
                if isinstance(index[where], dict) and "command" in index[where]:
                    index[where]["command"] = portable(str(index[where]["command"]))
            elif path.suffix == ".csv":
                rows = _read_rows(path)
                tables.setdefault(_kind(path.name), {})[where] = rows
                if not rows:
                    index[where] = None
            elif path.name == PREDICTIONS:
                found, dataset = load(path)[0], read_json(path.with_name("config.json"))["settings"]["dataset"]
                arrays |= {f"predicted/{where}": found["predicted"], f"right/{dataset}": found["right"]}
            else:
                _copy(path, archive / kind / where)
                before.discard(archive / kind / where)
        _write_text(archive / f"{kind}.json", _json(index))
        for name, of_kind in tables.items():
            _write_text(archive / kind / name, _long(of_kind))
            before.discard(archive / kind / name)
        if arrays:
            _save(archive / kind / PREDICTIONS, arrays)
            before.discard(archive / kind / PREDICTIONS)
        for path in before:
            path.unlink()


def _kind(name: str) -> str:
    """images.csv for every file called <network>-images.csv, and so bounds.csv."""
    return re.sub(r"^.*-(?=(images|bounds)\.csv$)", "", name)


def unpack(archive: Path, tree: Path) -> None:
    """Restore the tree that `pack` packed; UsageError if the archive is damaged."""
    try:
        for kind in (RUNS, ANALYSES):
            _unpack(archive, kind, tree / kind)
    except (KeyError, AttributeError, TypeError, ValueError, csv.Error, CheckpointError, UsageError) as error:
        raise UsageError(f"the archive {archive} is damaged ({error}); get a new copy of it") from None


def _unpack(archive: Path, kind: str, tree: Path) -> None:
    index = read_json(archive / f"{kind}.json")
    for where, content in index.items():
        _write_text(tree / _inside(where), "" if content is None else _json(content))
    for path in _files(archive / kind):
        if path.suffix == ".csv":
            for where, rows in _parts(path).items():
                _write_text(tree / _inside(where), _text(rows))
        elif path == archive / kind / PREDICTIONS:
            arrays, _ = load(path)
            for where in [name.removeprefix("predicted/") for name in arrays if name.startswith("predicted/")]:
                dataset = index[str(Path(where).with_name("config.json"))]["settings"]["dataset"]
                predicted, right = arrays[f"predicted/{where}"], arrays[f"right/{dataset}"]
                _save(tree / _inside(where), {"predicted": predicted, "right": right})
        else:
            _copy(path, tree / path.relative_to(archive / kind))


def is_archive(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def check_target(folder: Path) -> None:
    """UsageError if a folder has runs in folders of their own: an archive among them could not be told apart."""
    if (folder / RUNS).exists() and not is_archive(folder):
        raise UsageError(f"--export: {folder} has a folder of runs, and is no archive; export to a new folder")


@cache
def unpacked(folder: Path) -> Path:
    """The tree of an archive, in a temporary folder that lives as long as this process; a tree is returned as it is."""
    if not is_archive(folder):
        return folder
    tree = Path(tempfile.mkdtemp(prefix="minicnn-archive-"))
    atexit.register(shutil.rmtree, tree, ignore_errors=True)
    unpack(folder, tree)
    return tree


def portable(command: str) -> str:
    """A command without paths of the machine that ran it: relative below the current folder, else only the name."""
    try:
        words = shlex.split(command)
    except ValueError:  # the command was read from a file, and may be anything
        return command
    parts = [word.rpartition("=") for word in words]  # --data=FILE, cifar100=FILE
    if not any(_is_elsewhere(path) for _, _, path in parts):
        return command
    return shlex.join(
        f"{name}{equals}{_portable(Path(path)) if _is_elsewhere(path) else path}" for name, equals, path in parts
    )


def _is_elsewhere(word: str) -> bool:
    return os.path.isabs(word) or word.startswith(f"{os.pardir}{os.sep}")


def _portable(path: Path) -> str:
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(Path(*path.parts[-2:])) if path.parent.name == RUNS else path.name


# Long tables: the rows of many tables below each other, with a first column that names the table of each row.


def _read_rows(path: Path) -> Rows:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def _text(rows: Iterable[Iterable[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _long(tables: Mapping[str, Rows]) -> str:
    """Tables may differ in their columns: where a table lacks a column, its cells are ABSENT."""
    heads = list(dict.fromkeys(head for rows in tables.values() for head in (rows[0] if rows else ())))
    lines = [["file", *heads]]
    for name, rows in tables.items():
        for row in rows[1:]:
            cells = dict(zip(rows[0], row, strict=True))
            lines.append([name, *(cells.get(head, ABSENT) for head in heads)])
    return _text(lines)


ABSENT = "n/a"  # a cell of a column that its table lacks


def _parts(path: Path) -> dict[str, Rows]:
    """The tables of a long table."""
    (_, *heads), *lines = _read_rows(path) or [[""]]
    found: dict[str, Rows] = {}
    for name, *cells in lines:
        if len(cells) != len(heads):
            raise ValueError(f"a row of {path.name} has {len(cells) + 1} cells")
        own = [i for i, cell in enumerate(cells) if cell != ABSENT]
        found.setdefault(name, [[heads[i] for i in own]]).append([cells[i] for i in own])
    return found


# Files are written only if they differ, so that remaking an archive changes nothing else.


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _inside(name: str) -> Path:
    """A path from an archive, which must not lead out of its folder."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name} leads out of it")
    return path


def _write_text(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        atomic_write_text(_made(path), text)


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    try:
        there, _ = load(path)
    except CheckpointError:
        there = {}
    if there.keys() != arrays.keys() or not all(np.array_equal(there[name], arrays[name]) for name in arrays):
        path.unlink(missing_ok=True)  # else `save` would keep it as the previous one
        save(_made(path), arrays)


def _copy(source: Path, target: Path) -> None:
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        atomic_write_bytes(_made(target), content)
