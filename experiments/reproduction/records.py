"""What is there already: finished trainings and analyses, in the folder of the reproduction and in exported ones.

An export holds the small part of each run, to be committed or moved: config.json, metrics.csv, result.json, the test
predictions (predictions.npz) and, of small networks, the weights (weights.npz).  Analyses are exported whole.  It has
the same layout, so an export is read as any other folder.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.reproduction.steps import RUNS, STAMP, Step, Training
from experiments.train.cifar import Settings, settings
from experiments.train.run import Run, open_run
from experiments.train.session import read_result
from minicnn.checkpoint import CheckpointError, load
from minicnn.data.catalogue import load as load_dataset
from minicnn.data.dataset import DataError

PREDICTIONS = "predictions.npz"


@dataclass(frozen=True)
class Record:
    """A finished training: the networks that it reports on (several for folds), and its result.json."""

    training: Training
    folder: Path
    parts: tuple[Run, ...]
    result: dict[str, Any]

    @property
    def test_error(self) -> float:
        """In percent, the mean over its networks."""
        return sum(float(run.result["test_error"]) for run in self.parts) / len(self.parts)

    @property
    def seconds(self) -> float:
        return float(self.result.get("seconds", 0.0))

    @property
    def reduced(self) -> list[str]:
        return self.parts[0].reduced

    @cached_property
    def fingerprint(self) -> str:
        """Changes with whatever an analysis of it depends on; the same on every machine that has a copy."""
        content = [
            [run.config["settings"], run.config["train"], {k: v for k, v in run.result.items() if k != "seconds"}]
            for run in self.parts
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def has_weights(self) -> bool:
        return all(run.has_weights for run in self.parts)


def read_record(training: Training, folder: Path) -> Record | None:
    """The finished training in a folder; None if there is none yet, UsageError if what is there is something else."""
    folders = [folder / part for part in training.parts]
    for place in folders:
        if (place / "config.json").exists():
            config = read_json(place / "config.json")
            if not isinstance(config, dict) or not training.is_mine(config.get("settings")):
                raise UsageError(f"{place} holds a run of other settings; remove it, or choose another --out")
    if not all((place / "result.json").exists() for place in (folder, *folders)):
        return None
    return Record(training, folder, tuple(open_run(place) for place in folders), read_result(folder))


class Records:
    """Finished trainings and analyses in some folders, the first of which is written to."""

    def __init__(self, roots: Sequence[Path]):
        self.roots = list(roots)
        self.problems: dict[str, str] = {}  # by step: why what is there cannot be used
        self._found: dict[str, Record] = {}

    @property
    def root(self) -> Path:
        return self.roots[0]

    def training(self, training: Training) -> Record | None:
        """The finished training in the first folder that has it."""
        name = training.name
        if name not in self._found:
            for root in self.roots:
                try:
                    record = read_record(training, root / RUNS / name)
                except (UsageError, OSError) as error:
                    self.problems.setdefault(name, str(error))
                    continue
                if record is not None:
                    self._found[name] = record
                    self.problems.pop(name, None)
                    break
        return self._found.get(name)

    def analysis(self, step: Step) -> Path | None:
        """The folder with the finished analysis, made of the trainings as they are now."""
        stamp = self.stamp(step)
        if stamp is None:
            return None
        for folder in (step.folder(root) for root in self.roots):
            try:
                same = (folder / STAMP).exists() and read_json(folder / STAMP) == stamp
            except UsageError:
                same = False
            if same and all((folder / name).exists() for name in step.makes if _can_be_made(name)):
                return folder
        return None

    def stamp(self, step: Step) -> dict[str, Any] | None:
        """What an analysis is made of: its options, and its trainings; None while some are missing."""
        records = {training.name: self.training(training) for training in step.of}
        inputs = {name: record.fingerprint for name, record in records.items() if record is not None}
        if len(inputs) < len(records):
            return None
        stamp: dict[str, Any] = {"options": list(step.options), "inputs": inputs}
        return stamp if step.file is None else {**stamp, "file": _digest(step.file)}

    def done(self, step: Step) -> bool:
        """Whether there is nothing left to do for a step."""
        if step.training is not None:
            return self.training(step.training) is not None
        if step.makes:
            return self.analysis(step) is not None
        return step.folder(self.root).is_dir()


def _digest(path: Path) -> str:
    """Of the content of a file; "" if there is none, as in a dry run."""
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _can_be_made(name: str) -> bool:
    return not name.endswith(".png") or find_spec("matplotlib") is not None


def epochs_done(folder: Path) -> int:
    """How far an unfinished training is, all its networks together."""
    rows = 0
    for path in folder.rglob("metrics.csv"):
        rows += max(0, len(path.read_text(errors="replace").splitlines()) - 1)
    return rows


@cache
def _test_labels(settings: Settings, data: Path | None) -> np.ndarray | None:
    """None where the data is not at hand: asked for once, since that may be a download which fails slowly."""
    try:
        return load_dataset(settings.dataset, data).test_labels
    except DataError:
        return None


def wrong_images(run: Run, data: Path | None) -> np.ndarray | None:
    """(images,) bool: which test images a network gets wrong; None where its predictions are not at hand."""
    found = predictions(run, data)
    return None if found is None else found[0] != found[1]


def predictions(run: Run, data: Path | None) -> tuple[np.ndarray, np.ndarray] | None:
    """(predicted, right) labels of the test images: of an export, or from the probabilities and the data set."""
    try:
        if (run.folder / PREDICTIONS).exists():
            arrays, _ = load(run.folder / PREDICTIONS)
            predicted, right = arrays["predicted"], arrays["right"]
            error = 100 * float((predicted != right).mean())
            same = math.isclose(error, float(run.result["test_error"]), abs_tol=1e-6)
            return (predicted, right) if same else None  # else they are of another network than result.json
        p = np.load(run.folder / "test_probabilities.npy", allow_pickle=False)
        labels = _test_labels(settings(dataset=run.settings.dataset), data)
    except (OSError, ValueError, KeyError, CheckpointError, AttributeError):
        return None
    if labels is None or len(p) != len(labels):
        return None
    kind = np.min_scalar_type(run.settings.classes)
    return p.argmax(axis=1).astype(kind), labels.astype(kind)
