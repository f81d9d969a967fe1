"""Finished trainings, read from their folders: settings, results, weights, predictions.

A folder of `--protocol single` stands for its final network, a folder of `--protocol folds` for one network per fold
(folder.py lists the files in a folder).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError, hint
from experiments.cli.files import read_json
from experiments.cli.values import is_number
from experiments.train import protocols
from experiments.train.archive import INDEX, RUNS, is_archive, unpacked
from experiments.train.cifar import CifarSettings
from experiments.train.folder import PREDICTIONS, fingerprint, read_result
from experiments.train.imagenet import ImagenetSettings
from experiments.train.photographs import read_colours
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, DamagedError, load
from minicnn.data.augment import Normaliser
from minicnn.data.catalogue import load as load_data
from minicnn.data.dataset import Dataset
from minicnn.models import Classifier
from minicnn.nn import Sequential
from minicnn.training import arrays_under

WEIGHTS = "weights.npz"  # the weights of a network whose checkpoint is not here


@dataclass(frozen=True)
class Run:
    """A training in its folder: settings and result; weights are read when they are needed.

    parts    for a protocol with several trainings, the runs of the networks that it reports on; else empty
    """

    folder: Path
    settings: Any
    config: dict[str, Any]
    result: dict[str, Any]
    parts: tuple[Run, ...] = ()

    @property
    def networks(self) -> tuple[Run, ...]:
        """The networks that it reports on: one, or one per fold."""
        return self.parts or (self,)

    @property
    def name(self) -> str:
        """A name for files: its folder's, after the parent folder's if it is a part of a protocol."""
        part = self.folder.name == "final" or re.fullmatch(r"fold\d+", self.folder.name)
        return f"{self.folder.resolve().parent.name}-{self.folder.name}" if part else self.folder.resolve().name

    @property
    def label(self) -> str:
        return self.settings.label

    @property
    def reduced(self) -> list[str]:
        """How it is reduced from the paper's network; empty if the two are comparable."""
        return self.settings.reductions

    @property
    def test_error(self) -> float:
        """In percent, the mean over its networks."""
        return sum(float(network.result["test_error"]) for network in self.networks) / len(self.networks)

    @property
    def seconds(self) -> float:
        return float(self.result.get("seconds", 0.0))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that an analysis of it depends on; the same on every machine that has a copy."""
        content = [
            [one.config["settings"], one.config["train"], {k: v for k, v in one.result.items() if k != "seconds"}]
            for one in self.networks
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    # Weights.

    def model(self, device: str | Device, *, untrained: int | None = None, data: Dataset | None = None) -> Sequential:
        """The network with the weights behind its results; or as it would start with the seed `untrained`.

        data    what it was trained on: without it, layers whose start is made from images (`settings.prepared`) are
                those of a network that starts without
        """
        model = replace(self.settings, seed=self.settings.seed if untrained is None else untrained).build_model()
        if untrained is not None and data is not None and self.settings.prepared:
            self.settings.prepare(model, data.train_images[self.training_images(data)], self.normaliser(data))
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
        best = self.config.get("hold_out", {"count": 0})["count"] > 0  # weights of the epoch that these images chose
        return self.folder / ("best.npz" if best else "checkpoint.npz")

    @property
    def has_weights(self) -> bool:
        """Whether its weights are here; a run from an archive may have none."""
        if self.parts:
            return all(part.has_weights for part in self.parts)
        return any(path.exists() for path in (self._checkpoint, self.folder / WEIGHTS))

    def _weights(self) -> dict[str, np.ndarray]:
        """The state of the network that gave the results, from its checkpoint or an archive.

        Never from the checkpoint before it, which holds another network than the one that result.json speaks of.
        """
        path = self._checkpoint
        if (self.folder / WEIGHTS).exists() and not path.exists():
            return load(self.folder / WEIGHTS)[0]
        if not path.exists():
            raise CheckpointError(f"{path} is missing; copy it from where it was trained, or train it again")
        try:
            arrays, metadata = load(path)
        except DamagedError:
            remedy = "remove the folder and train it again" if self.result else "continue its training with --resume"
            raise CheckpointError(f"{path} is damaged; {remedy}") from None
        there, known = metadata.get("epoch"), self.result.get("epoch")
        if known is not None and there != known:
            raise CheckpointError(
                f"{path} holds the network after epoch {there}, but the results are of epoch {known}; "
                "put back the file that was there, or remove the folder and train it again"
            )
        return arrays if path.name == "best.npz" else arrays_under("model/", arrays)

    # Images.

    def normaliser(self, data: Dataset) -> Normaliser:
        """The normaliser of the images it was trained on."""
        if self.settings.PHOTOGRAPHS:
            return read_colours(self.folder).normaliser
        return Normaliser.of(data.train_images[self.training_images(data)])

    def classifier(self, device: str | Device, where: Path | None = None) -> Classifier:
        """Its network with what it takes to ask it about pictures.

        where    has the data set, if its folder is from an older version: mean and classes are then found there
        """
        if self.settings.PHOTOGRAPHS:
            classes = tuple(words for _, words in self.classes)
            normalise, side = read_colours(self.folder).normaliser, self.settings.side
        else:
            (normalise, classes), side = self._for_predictions(where), self.settings.input[0]
        return Classifier(self.model(device), normalise, classes, side, self.settings.input[0])

    def _for_predictions(self, where: Path | None) -> tuple[Normaliser, tuple[str, ...]]:
        """Mean and deviation of the training images, and the names of the classes."""
        stored = [self.config.get(name) for name in ("mean", "std", "classes")]
        if all(values is None for values in stored):
            words = f"{self.name} is from an older version, without the mean of its images and the names of its classes"
            with hint(f"{words}; the data set has them: --data names a folder or an archive with it"):
                data = load_data(self.settings.dataset, where)
            return self.normaliser(data), data.classes
        mean, std, classes = (values if isinstance(values, list) else [] for values in stored)
        numbers = len(mean) == len(std) == 3 and all(map(is_number, [*mean, *std])) and min(std) > 0
        numbers = numbers and all(0 <= value <= 1 for value in mean)
        if not numbers or len(classes) != self.settings.classes or not all(isinstance(name, str) for name in classes):
            raise UsageError(f"{self.folder / 'config.json'} is damaged: it has no usable mean, std and classes")
        return Normaliser(tuple(mean), tuple(std)), tuple(classes)

    def training_images(self, data: Dataset) -> np.ndarray:
        """Indices of the images it was trained on: from the settings, checked against config.json's fingerprint."""
        chosen, held = self.settings.chosen_images(len(data.train_labels)), int(self.config["hold_out"]["count"])
        seed = self.settings.seed
        candidates = [protocols.split(chosen, held, seed)[0]]
        fold = re.fullmatch(r"fold(\d+)", self.folder.name)
        count = round(len(chosen) / held) if held else 0
        if fold and count > 1 and 1 <= int(fold[1]) <= count:
            candidates.append(protocols.split_fold(chosen, int(fold[1]), count, seed)[0])
        for candidate in candidates:
            if fingerprint(candidate) == self.config["train"]:
                return candidate
        raise UsageError(f"{self.folder}: its training images do not match its settings")

    @property
    def classes(self) -> list[tuple[str, str]]:
        """For a network trained on photographs, by label: (folder name, name in words)."""
        try:
            return [(str(name), str(words)) for name, words in read_json(self.folder / "classes.json")]
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{self.folder} has no usable classes.json ({_line(error)})") from None

    def predictions(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(predicted, right) labels of the test images; None if they are missing or from another network."""
        try:
            arrays, _ = load(self.folder / PREDICTIONS)
            if "probabilities" in arrays:
                predicted, right = arrays["probabilities"].argmax(axis=1), arrays["labels"]
            else:  # from an archive
                predicted, right = arrays["predicted"], arrays["right"]
            error = 100 * float((predicted != right).mean())
        except (CheckpointError, KeyError, ValueError, AttributeError):
            return None
        same = math.isclose(error, float(self.result["test_error"]), abs_tol=1e-6)
        return (predicted, right) if same else None


def _line(error: Exception) -> str:
    return re.sub(r"\s*\n\s*", "; ", str(error))


def open_runs(folders: Sequence[Path]) -> list[Run]:
    """The networks of the finished runs in these folders; UsageError if there is none."""
    return distinct([open_run(folder) for given in folders for folder in _expand(given)])


def distinct(runs: list[Run]) -> list[Run]:
    """The same runs; UsageError if two have one name."""
    twice = {run.name for run in runs if [other.name for other in runs].count(run.name) > 1}
    if twice:
        raise UsageError(f"two runs are called {', '.join(sorted(twice))}, and would write the same files; rename one")
    return runs


def check_weights(folders: Sequence[Path]) -> None:
    """UsageError for a run in an archive that does not have its weights; other folders are not looked at."""
    for folder in folders:
        if (place := _in_archive(folder)) is None:
            continue
        archive, there = place[0], sorted(path.parent.name for path in (place[0] / RUNS).rglob(WEIGHTS))
        if missing := [run.name for run in open_runs([folder]) if not run.has_weights]:
            known = f"it has those of {', '.join(there)}" if there else "it has none at all"
            raise UsageError(f"the archive {archive} has no weights of {', '.join(missing)}; {known}")


def _in_archive(folder: Path) -> tuple[Path, str] | None:
    """(archive, pattern of the runs in it) if a path stands for some of an archive."""
    if is_archive(folder):
        return folder, "*"
    return (folder.parent, folder.name) if is_archive(folder.parent) and not folder.is_dir() else None


def _expand(folder: Path) -> list[Path]:
    """The folders of networks that a path stands for; in an archive, docs/results/cifar10-* stands for many."""
    if (place := _in_archive(folder)) is not None:
        archive, pattern = place
        inside = sorted((unpacked(archive) / RUNS).glob(pattern))
        if not inside:
            raise UsageError(f"the archive {archive} has no run {pattern}; {archive / INDEX} lists its runs")
        return [found for run in inside for found in _expand(run)]
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; train a network with python -m experiments.cifar")
    if (folder / "config.json").exists():
        return [folder]
    if (folder / "final").is_dir():
        return [folder / "final"]
    folds = sorted(folder.glob("fold*"), key=lambda path: (len(path.name), path.name))
    if folds:
        return folds
    names = sorted(path.parent.name for path in folder.glob("*/config.json"))
    hint = f"; it holds the runs {', '.join(names)}: name one of them" if names else ""
    raise UsageError(f"{folder} is not the folder of a run: it has no config.json{hint}")


def open_run(folder: str | Path, *, finished: bool = True) -> Run:
    """The run of one network in a folder; `finished` requires that it has results."""
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise UsageError(f"{folder} is not the folder of a run: it has no config.json")
    config = read_json(folder / "config.json")
    if finished and not (folder / "result.json").exists():
        raise UsageError(f"{folder} is not finished: run its command with --resume first")
    result = read_result(folder) if (folder / "result.json").exists() else {}
    try:
        photos = config.get("experiment") == "imagenet"
        settings = (ImagenetSettings if photos else CifarSettings).from_json(config["settings"])
        counted = ("train", *(() if photos else ("hold_out",)))
        missing = [key for key in counted if not is_number(config.get(key, {}).get("count"))]
        missing += ["test_error"] if finished and "test_error" not in result else []
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} holds a run from another version: {_line(error)}") from None
    if missing:
        raise UsageError(f"{folder} holds a run from another version: no {', '.join(missing)}")
    return Run(folder, settings, config, result)
