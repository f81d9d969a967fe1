"""Trainings that are done, by their folders: settings, results, weights.

A folder of `--protocol single` stands for its final network, a folder of `--protocol folds` for the networks of all
folds (experiments/run.py, experiments/imagenet_run.py and experiments/sessions.py say what is in a folder).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.cli.values import is_number
from experiments.train import protocols
from experiments.train.cifar import Settings
from experiments.train.imagenet import ImagenetSettings
from experiments.train.photographs import read_colours
from experiments.train.session import fingerprint, read_result
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, load, load_newest, previous
from minicnn.data.augment import Normaliser
from minicnn.data.colour import Colours
from minicnn.data.dataset import Dataset
from minicnn.nn import Sequential
from minicnn.training import below

EXPORTED = "weights.npz"  # the weights of a run without its checkpoint


@dataclass(frozen=True)
class Run:
    """A training: its settings and results; the weights are read when they are needed."""

    folder: Path
    settings: Any
    config: dict[str, Any]
    result: dict[str, Any]

    @property
    def name(self) -> str:
        """For files: that of its folder, with the one above where it is a part of a protocol."""
        part = self.folder.name == "final" or re.fullmatch(r"fold\d+", self.folder.name)
        return f"{self.folder.resolve().parent.name}-{self.folder.name}" if part else self.folder.resolve().name

    @property
    def label(self) -> str:
        return self.settings.label

    @property
    def reduced(self) -> list[str]:
        """What makes it smaller than the paper's networks; empty: comparable."""
        return self.settings.reductions

    def model(self, device: Device, *, untrained: int | None = None) -> Sequential:
        """The network with the weights that its results are of; or untrained, as it would begin with that seed."""
        model = replace(self.settings, seed=self.settings.seed if untrained is None else untrained).build_model()
        if untrained is None:
            try:
                model.load_state_dict(self._weights())
            except (CheckpointError, ValueError) as error:
                raise UsageError(f"the weights of {self.folder} cannot be used: {_line(error)}") from None
            broken = [name for name, values in model.state_dict().items() if not np.isfinite(values).all()]
            if broken:
                raise UsageError(f"the weights of {self.folder} are damaged: NaN or inf in {', '.join(broken)}")
        return model.to(device)

    @property
    def _checkpoint(self) -> Path:
        best = self.config.get("hold_out", {"count": 0})["count"] > 0  # of the epoch that these images chose
        return self.folder / ("best.npz" if best else "checkpoint.npz")

    @property
    def has_weights(self) -> bool:
        """An exported run may have none."""
        return self._checkpoint.exists() or previous(self._checkpoint).exists() or (self.folder / EXPORTED).exists()

    def _weights(self) -> dict[str, np.ndarray]:
        """The state of the network: of the checkpoint, or as experiments.reproduce exported it."""
        path = self._checkpoint
        if (self.folder / EXPORTED).exists() and not path.exists():
            return load(self.folder / EXPORTED)[0]
        arrays, _ = load_newest(path)
        return arrays if path.name == "best.npz" else below("model/", arrays)

    def normaliser(self, data: Dataset) -> Normaliser:
        """That of the images it was trained on."""
        raise NotImplementedError(f"{type(self).__name__} does not define normaliser(data)")


@dataclass(frozen=True)
class CifarRun(Run):
    """A run of experiments.cifar."""

    settings: Settings

    def normaliser(self, data: Dataset) -> Normaliser:
        return Normaliser.of(data.train_images[self.training_images(data)])

    def training_images(self, data: Dataset) -> np.ndarray:
        """Their indices: from the settings, checked against the fingerprint in config.json."""
        chosen, held = protocols.training_indices(self.settings, data), int(self.config["hold_out"]["count"])
        seed = self.settings.seed
        candidates = [protocols.split(chosen, held, seed)[0]]
        fold = re.fullmatch(r"fold(\d+)", self.folder.name)
        count = round(len(chosen) / held) if held else 0
        if fold and count > 1 and 1 <= int(fold[1]) <= count:
            candidates.append(protocols.split_fold(chosen, int(fold[1]), count, seed)[0])
        for candidate in candidates:
            if fingerprint(candidate) == self.config["train"]:
                return candidate
        raise UsageError(f"{self.folder}: the images that it was trained on are not those of its settings")


@dataclass(frozen=True)
class PhotoRun(Run):
    """A run of experiments.imagenet: what it needs to know of its pictures is in its folder."""

    settings: ImagenetSettings

    def normaliser(self, data: Dataset) -> Normaliser:
        return self.colours.normaliser

    @property
    def colours(self) -> Colours:
        return read_colours(self.folder)

    @property
    def classes(self) -> list[tuple[str, str]]:
        """(name of the folder, the same in words) by label."""
        try:
            return [(str(name), str(words)) for name, words in read_json(self.folder / "classes.json")]
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{self.folder} has no usable classes.json ({_line(error)})") from None


def _line(error: Exception) -> str:
    return re.sub(r"\s*\n\s*", "; ", str(error))


def open_runs(folders: Sequence[Path]) -> list[Run]:
    """The finished runs of the folders that --run named; UsageError where there is none."""
    runs = [open_run(folder) for given in folders for folder in _expand(given)]
    twice = {run.name for run in runs if [other.name for other in runs].count(run.name) > 1}
    if twice:
        raise UsageError(f"two runs are called {', '.join(sorted(twice))}, and would write the same files; rename one")
    return runs


def _expand(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; train a network with python -m experiments.cifar")
    if (folder / "config.json").exists():
        return [folder]
    if (folder / "final").is_dir():
        return [folder / "final"]
    folds = sorted(folder.glob("fold*"), key=lambda path: (len(path.name), path.name))
    if folds:
        return folds
    inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
    hint = f"; it holds the runs {', '.join(inside)}: name one of them" if inside else ""
    raise UsageError(f"{folder} is not the folder of a run: it has no config.json{hint}")


def open_run(folder: Path, *, finished: bool = True) -> Run:
    """The run in a folder; a `finished` one has results."""
    if not (folder / "config.json").exists():
        raise UsageError(f"{folder} is not the folder of a run: it has no config.json")
    config = read_json(folder / "config.json")
    if finished and not (folder / "result.json").exists():
        raise UsageError(f"{folder} is not finished: run its command with --resume first")
    result = read_result(folder) if (folder / "result.json").exists() else {}
    try:
        photos = config.get("experiment") == "imagenet"
        settings = (ImagenetSettings if photos else Settings).from_json(config["settings"])
        counted = ("train", *(() if photos else ("hold_out",)))
        missing = [key for key in counted if not is_number(config.get(key, {}).get("count"))]
        missing += ["test_error"] if finished and "test_error" not in result else []
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} holds a run of another version: {_line(error)}") from None
    if missing:
        raise UsageError(f"{folder} holds a run of another version: no {', '.join(missing)}")
    return (
        PhotoRun(folder, settings, config, result)
        if isinstance(settings, ImagenetSettings)
        else CifarRun(folder, settings, config, result)
    )
