"""The small part of what was done, in a few files to commit or to move to another machine.

A tree has one folder per run and per analysis (reproduction/steps.py).  An archive is the same in long tables:

  runs.json           config.json, result.json, ... of every run, by its folder
  metrics.csv         one row per run and epoch
  predictions.npz     predicted classes of the test images per run, and the right ones per data set
  weights/            of some networks
  analyses.json       stamps and other JSON of every analysis, by its folder
  analyses/*.csv      one row per analysis and row of its tables; pictures stay where they are in the tree

`pack` makes an archive of a tree, `unpack` a tree of an archive, `unpacked` does so once per process for whoever reads.
"""

from __future__ import annotations

import atexit
import csv
import io
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
from experiments.cli.files import read_json, write_json
from minicnn.checkpoint import CheckpointError, atomic_write_bytes, atomic_write_text, load, save

RUNS, ANALYSES = "runs", "analyses"  # folders of a tree
INDEX, METRICS, PREDICTIONS, WEIGHTS = "runs.json", "metrics.csv", "predictions.npz", "weights"
Rows = list[list[str]]


def pack(tree: Path, archive: Path) -> None:
    """Write what is in a tree; what is there already is replaced where it differs."""
    runs: dict[str, dict[str, Any]] = {}
    metrics: dict[str, Rows] = {}
    arrays: dict[str, np.ndarray] = {}
    weights: dict[str, Path] = {}
    for path in sorted((tree / RUNS).rglob("*.*")):
        name, of_run = path.parent.relative_to(tree / RUNS).as_posix(), path.suffix == ".json"
        if of_run:
            runs.setdefault(name, {})[path.name] = read_json(path)
        elif path.name == METRICS:
            metrics[name] = _read_rows(path)
        elif path.name == PREDICTIONS:
            found, dataset = load(path)[0], read_json(path.with_name("config.json"))["settings"]["dataset"]
            arrays |= {f"predicted/{name}": found["predicted"], f"right/{dataset}": found["right"]}
        elif path.name == "weights.npz":
            weights[name.replace("/", "--") + ".npz"] = path
    _write(archive / INDEX, _portable_commands(runs))
    _write_text(archive / METRICS, _long("run", metrics))
    _save(archive / PREDICTIONS, arrays)
    _copy_all(archive / WEIGHTS, weights)
    _pack_analyses(tree / ANALYSES, archive)


def _pack_analyses(tree: Path, archive: Path) -> None:
    analyses: dict[str, dict[str, Any]] = {}
    tables: dict[str, dict[str, Rows]] = {}
    pictures: dict[str, Path] = {}
    for path in sorted(tree.rglob("*.*")):
        inside = path.relative_to(tree)
        name, where = inside.parts[0], "/".join(inside.parts[1:])
        entry = analyses.setdefault(name, {"tables": []})
        if path.suffix == ".json":
            entry[where] = read_json(path)
        elif path.suffix == ".csv":
            entry["tables"].append(where)  # some are empty
            tables.setdefault(_kind(path.name), {})[inside.as_posix()] = _read_rows(path)
        elif path.suffix == ".png":
            pictures[inside.as_posix()] = path
    _write(archive / f"{ANALYSES}.json", _portable_commands(analyses))
    for kind, of_kind in tables.items():
        _write_text(archive / ANALYSES / kind, _long("file", of_kind))
    _copy_all(archive / ANALYSES, pictures)


def _kind(name: str) -> str:
    """images.csv for all files that are called <network>-images.csv."""
    return re.sub(r"^.*-(?=images\.csv$)", "", name)


def unpack(archive: Path, tree: Path) -> None:
    """What `pack` wrote, as a tree again; UsageError where it is damaged."""
    try:
        _unpack(archive, tree)
    except (KeyError, AttributeError, TypeError, ValueError, csv.Error, CheckpointError) as error:
        raise UsageError(f"the archive {archive} is damaged ({error}); get it again") from None


def _unpack(archive: Path, tree: Path) -> None:
    runs = read_json(archive / INDEX)
    for name, entry in runs.items():
        for file, content in entry.items():
            write_json(_made(tree / RUNS / _inside(name) / _inside(file)), content)
    for name, rows in _parts(archive / METRICS).items():
        _write_text(tree / RUNS / _inside(name) / METRICS, _text(rows))
    arrays = load(archive / PREDICTIONS)[0] if (archive / PREDICTIONS).exists() else {}
    for key, predicted in arrays.items():
        kind, _, name = key.partition("/")
        if kind == "predicted":
            right = arrays[f"right/{runs[name]['config.json']['settings']['dataset']}"]
            _save(tree / RUNS / _inside(name) / PREDICTIONS, {"predicted": predicted, "right": right})
    for path in (archive / WEIGHTS).glob("*.npz"):
        _copy(path, tree / RUNS / path.stem.replace("--", "/") / "weights.npz")
    for name, entry in read_json(archive / f"{ANALYSES}.json").items():
        for where, content in entry.items():
            if where != "tables":
                write_json(_made(tree / ANALYSES / _inside(name) / _inside(where)), content)
        for where in entry["tables"]:
            _write_text(tree / ANALYSES / _inside(name) / _inside(where), "")
    for path in (archive / ANALYSES).glob("*.csv"):
        for where, rows in _parts(path).items():
            _write_text(tree / ANALYSES / _inside(where), _text(rows))
    for path in (archive / ANALYSES).glob("*/**/*.png"):
        _copy(path, tree / ANALYSES / path.relative_to(archive / ANALYSES))


def is_archive(folder: Path) -> bool:
    return (folder / INDEX).is_file()


@cache
def unpacked(folder: Path) -> Path:
    """The tree of an archive, in a temporary folder that goes with this process; a folder that is a tree as it is."""
    if not is_archive(folder):
        return folder
    tree = Path(tempfile.mkdtemp(prefix="minicnn-archive-"))
    atexit.register(shutil.rmtree, tree, ignore_errors=True)
    unpack(folder, tree)
    return tree


def _portable_commands(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for entry in entries.values():
        for content in entry.values():
            if isinstance(content, dict) and "command" in content:
                content["command"] = portable(str(content["command"]))
    return entries


def portable(command: str) -> str:
    """A command with no paths of the machine that ran it: below the current folder relative, others by their name."""
    try:
        words = shlex.split(command)
    except ValueError:  # it is from a file
        return command
    if not any(map(os.path.isabs, words)):
        return command
    return shlex.join(_portable(Path(word)) if os.path.isabs(word) else word for word in words)


def _portable(path: Path) -> str:
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(Path(*path.parts[-2:])) if path.parent.name == RUNS else path.name


# Long tables: the rows of many tables below each other, with a first column that says which they are of.


def _read_rows(path: Path) -> Rows:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def _text(rows: Iterable[Iterable[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _long(first: str, tables: Mapping[str, Rows]) -> str:
    """Tables may differ in their columns: a cell that a table does not have is empty, and its head is listed."""
    heads = list(dict.fromkeys(head for rows in tables.values() for head in (rows[0] if rows else ())))
    lines = [[first, *heads]]
    for name, rows in tables.items():
        for row in rows[1:]:
            cells = dict(zip(rows[0], row, strict=True))
            lines.append([name, *(cells.get(head, ABSENT) for head in heads)])
    return _text(lines)


ABSENT = "n/a"  # a cell of a column that its table does not have


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


# Files are written only where they differ, so that an archive can be made again and again.


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _inside(name: str) -> Path:
    """A path from an archive, which must not lead out of its folder."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name} leads out of it")
    return path


def _write(path: Path, value: Any) -> None:
    if not path.exists() or read_json(path) != value:
        write_json(_made(path), value)


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


def _copy_all(folder: Path, files: Mapping[str, Path]) -> None:
    for name, source in files.items():
        _copy(source, folder / name)
