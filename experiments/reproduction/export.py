"""The small part of what was done, in a folder to commit or to move to another machine (records.py reads it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.reproduction.records import PREDICTIONS, Record, Records, predictions
from experiments.reproduction.steps import RUNS, STAMP, Step
from experiments.train.run import EXPORTED, Run, open_run
from minicnn.backend import CPU
from minicnn.checkpoint import CheckpointError, atomic_write_bytes, load, save

COPIED = ("config.json", "metrics.csv", "result.json", "classes.json", "colours.json", PREDICTIONS, EXPORTED)
LARGEST_WEIGHTS, LARGEST_FILE = 1_000_000, 200_000  # bytes, of a network and of a file of an analysis


def export(records: Records, steps: Sequence[Step], folder: Path, data: Mapping[str, Path]) -> tuple[int, int]:
    """Write what is finished of the steps; (trainings, analyses) that were.

    Weights are exported of the networks that an analysis looks at, one seed of each: enough to look at them again.
    """
    trainings = analyses = 0
    looked_at = {training.name for step in steps for training in step.of if training.settings.seed == 0}
    for step in steps:
        if step.training is not None:
            record = records.training(step.training)
            if record is not None:
                _export_training(record, folder / RUNS / step.name, data.get(step.data), step.name in looked_at)
                trainings += 1
        elif (source := records.analysis(step) if step.makes else None) is not None:
            _copy_small_files(source, step.folder(folder))
            analyses += 1
    return trainings, analyses


def _export_training(record: Record, folder: Path, data: Path | None, weights: bool) -> None:
    for run, part in zip(record.parts, record.training.parts, strict=True):
        _export_run(run, folder / part, data, weights)
    if record.training.protocol != "plain":
        atomic_write_bytes(folder / "result.json", (record.folder / "result.json").read_bytes())


def _export_run(run: Run, folder: Path, data: Path | None, weights: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() == run.folder.resolve():
        return
    for name in COPIED:
        if (run.folder / name).exists():
            _copy(run.folder / name, folder / name)
    if (found := predictions(run, data)) is not None:
        _save(folder / PREDICTIONS, dict(zip(("predicted", "right"), found, strict=True)))
    elif predictions(open_run(folder), data) is None:
        (folder / PREDICTIONS).unlink(missing_ok=True)  # of a network that was there before
    arrays = run.model(CPU).state_dict() if weights and run.has_weights else {}
    if arrays and sum(array.nbytes for array in arrays.values()) <= LARGEST_WEIGHTS:
        _save(folder / EXPORTED, arrays)
    elif weights:
        (folder / EXPORTED).unlink(missing_ok=True)


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Unless they are there already."""
    try:
        there, _ = load(path)
    except CheckpointError:
        there = {}
    if there.keys() != arrays.keys() or not all(np.array_equal(there[name], arrays[name]) for name in arrays):
        path.unlink(missing_ok=True)  # else `save` would keep it as the previous one
        save(path, arrays)


def _copy_small_files(source: Path, folder: Path) -> None:
    """The stamp comes last: a folder that has it is complete."""
    if folder.resolve() == source.resolve():
        return
    files = [path for path in source.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST_FILE]
    for path in sorted(files, key=lambda path: path.name == STAMP):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, target)


def _copy(source: Path, target: Path) -> None:
    """Unless it is there already, so that an export can be made again and again."""
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        atomic_write_bytes(target, content)
