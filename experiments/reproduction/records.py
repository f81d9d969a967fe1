"""What already exists: finished trainings and analyses, in the folder of the reproduction and in imported ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.reproduction.steps import STAMP, Analysis, Step, Training
from experiments.train.archive import unpacked
from experiments.train.folder import read_result
from experiments.train.run import Run, open_run


def read_run(training: Training, folder: Path) -> Run | None:
    """The finished training in a folder; None if there is none yet, UsageError if the folder holds something else."""
    folders = [folder / part for part in training.parts]
    for place in folders:
        if (place / "config.json").exists():
            config = read_json(place / "config.json")
            if not isinstance(config, dict) or not training.is_mine(config.get("settings")):
                raise UsageError(f"{place} holds a run with other settings; remove it, or choose another --out")
    if not all((place / "result.json").exists() for place in (folder, *folders)):
        return None
    parts = tuple(open_run(place) for place in folders)
    if training.protocol == "plain":
        return parts[0]
    return replace(parts[0], folder=folder, result=read_result(folder), parts=parts)


class Records:
    """Finished trainings and analyses: in the folder of the reproduction, and in imported folders and archives."""

    def __init__(self, root: Path, imported: Sequence[Path] = ()):
        self.root = root
        self.sources = {unpacked(place): place for place in imported}
        self.roots = [root, *self.sources]
        self.problems: dict[str, str] = {}  # by step: why an existing result cannot be used
        self._found: dict[str, Run] = {}

    def run(self, training: Training) -> Run | None:
        """The finished training in the first folder that has it."""
        name = training.name
        if name not in self._found:
            for root in self.roots:
                try:
                    run = read_run(training, training.folder(root))
                except (UsageError, OSError) as error:
                    self.problems.setdefault(name, str(error))
                    continue
                if run is not None:
                    self._found[name] = run
                    self.problems.pop(name, None)
                    break
        return self._found.get(name)

    def source(self, folder: Path) -> Path | None:
        """The imported folder or archive that a run or analysis comes from; None: it belongs to this reproduction."""
        return next((place for root, place in self.sources.items() if folder.is_relative_to(root)), None)

    def analysis(self, step: Analysis) -> Path | None:
        """The folder with the finished analysis, made from the trainings as they are now."""
        stamp = self.stamp(step)
        if stamp is None:
            return None
        for root in self.roots:
            folder = step.folder(root)
            try:
                same = (folder / STAMP).exists() and read_json(folder / STAMP) == stamp
            except UsageError:
                same = False
            if same and all((folder / name).exists() for name in step.makes if self._must_be(name, root)):
                return folder
        return None

    def _must_be(self, name: str, root: Path) -> bool:
        """Pictures need matplotlib, and an archive has only those that a page shows."""
        return not name.endswith(".png") or (root == self.root and find_spec("matplotlib") is not None)

    def stamp(self, step: Analysis) -> dict[str, Any] | None:
        """What an analysis is made from: its options and its trainings; None while a training is missing."""
        runs = {training.name: self.run(training) for training in step.of}
        inputs = {name: run.fingerprint for name, run in runs.items() if run is not None}
        if len(inputs) < len(runs):
            return None
        stamp: dict[str, Any] = {"options": list(step.options), "inputs": inputs}
        return stamp if step.file is None else {**stamp, "file": _digest(step.file)}

    def done(self, step: Step) -> bool:
        """Whether there is nothing left to do for a step."""
        if isinstance(step, Training):
            return self.run(step) is not None
        if step.makes:
            return self.analysis(step) is not None
        return step.folder(self.root).is_dir()


def _digest(path: Path) -> str:
    """The digest of a file; "" if it does not exist, as in a dry run."""
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def epochs_done(folder: Path) -> int:
    """How many epochs of an unfinished training are done, summed over its networks."""
    rows = 0
    for path in folder.rglob("metrics.csv"):
        rows += max(0, len(path.read_text(errors="replace").splitlines()) - 1)
    return rows
