"""What the analyses share: finished runs with their weights and data, options, progress, where results go.

An analysis takes run folders (experiments/run.py says what is in one).  A folder of `--protocol single` stands for its
final network, a folder of `--protocol folds` for the networks of all folds.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments import protocols
from experiments.cifar import load_data, reductions
from experiments.common import UsageError, read_json
from experiments.run import fingerprint
from experiments.settings import Settings, from_json
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, load_newest
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import Dataset
from minicnn.nn import Sequential
from minicnn.random import Stream


@dataclass(frozen=True)
class Run:
    """A finished training: its settings and results; the weights and the data are read when they are needed."""

    folder: Path
    settings: Settings
    config: dict[str, Any]
    result: dict[str, Any]

    @property
    def name(self) -> str:
        """For files: that of its folder, with the one above where it is a part of a protocol."""
        part = self.folder.name == "final" or re.fullmatch(r"fold\d+", self.folder.name)
        return f"{self.folder.resolve().parent.name}-{self.folder.name}" if part else self.folder.resolve().name

    @property
    def label(self) -> str:
        s = self.settings
        what = "VGG" if s.model == "vgg" else s.width
        names = {"relu": "ReLU", "leaky": "leaky ReLU", "avr": "AVR", "crelu": "CReLU"}
        where = f" at {','.join(map(str, s.at))}" if s.model == "vgg" and s.at else ""
        scale = f" x{s.scale:g}" if s.scale != 1 else ""
        return f"{names.get(s.act, s.act)}{where} ({what}{scale})"

    @property
    def reduced(self) -> list[str]:
        """What makes it smaller than the paper's networks; empty: comparable."""
        return reductions(self.settings)

    def model(self, device: Device, *, untrained: int | None = None) -> Sequential:
        """The network with the weights that its results are of; or untrained, as it would begin with that seed."""
        model = replace(self.settings, seed=self.settings.seed if untrained is None else untrained).build_model()
        if untrained is None:
            best = self.config["hold_out"]["count"] > 0
            try:
                arrays, _ = load_newest(self.folder / ("best.npz" if best else "checkpoint.npz"))
                model.load_state_dict(arrays if best else _below("model/", arrays))
            except (CheckpointError, ValueError) as error:
                raise UsageError(f"the weights of {self.folder} cannot be used: {_line(error)}") from None
            broken = [name for name, values in model.state_dict().items() if not np.isfinite(values).all()]
            if broken:
                raise UsageError(f"the weights of {self.folder} are damaged: NaN or inf in {', '.join(broken)}")
        return model.to(device)

    def normaliser(self, data: Dataset) -> Normaliser:
        """That of the images it was trained on."""
        return Normaliser.of(data.train_images[self.training_images(data)])

    def training_images(self, data: Dataset) -> np.ndarray:
        """Their indices: from the settings, checked against the fingerprint in config.json."""
        chosen, held = protocols.indices(self.settings, data), int(self.config["hold_out"]["count"])
        candidates = [protocols.split(chosen, held, self.settings.seed)[0]]
        fold = re.fullmatch(r"fold(\d+)", self.folder.name)
        if fold and held:
            order = Stream(self.settings.seed).child("folds").generator().permutation(chosen)
            parts = np.array_split(order, round(len(chosen) / held))
            if int(fold[1]) <= len(parts):
                candidates.append(np.sort(np.concatenate([p for i, p in enumerate(parts, 1) if i != int(fold[1])])))
        for candidate in candidates:
            if fingerprint(candidate) == self.config["train"]:
                return candidate
        raise UsageError(f"{self.folder}: the images that it was trained on are not those of its settings")


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _line(error: Exception) -> str:
    return re.sub(r"\s*\n\s*", "; ", str(error))


def open_runs(folders: Sequence[Path]) -> list[Run]:
    """The finished runs of the folders that --run named; UsageError where there is none."""
    runs = [_open(folder) for given in folders for folder in _expand(given)]
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


def _open(folder: Path) -> Run:
    config = read_json(folder / "config.json")
    if not (folder / "result.json").exists():
        raise UsageError(f"{folder} is not finished: run its command with --resume first")
    result = read_json(folder / "result.json")
    try:
        settings = from_json(config["settings"])
        missing = [key for key in ("train", "hold_out") if key not in config]
        missing += [key for key in ("train_error", "test_error") if key not in result]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} holds a run of another version: {_line(error)}") from None
    if missing:
        raise UsageError(f"{folder} holds a run of another version: no {', '.join(missing)}")
    return Run(folder, settings, config, result)


def images_of(runs: Sequence[Run], where: Path | None) -> Dataset:
    """The data set of all runs, which must be the same."""
    names = sorted({run.settings.dataset for run in runs})
    if len(names) > 1:
        raise UsageError(f"the runs are of different data sets ({', '.join(names)}); analyse them one after the other")
    return load_data(runs[0].settings, where)


def sample(count: int, size: int, seed: int) -> np.ndarray:
    """Indices of `count` test images drawn from `size`, or all of them."""
    if not 1 <= count <= size:
        raise UsageError(f"--subset must be in 1 .. {size}, got {count}")
    if count == size:
        return np.arange(size)
    return np.sort(Stream(seed).child("analysis sample").generator().permutation(size)[:count])


def parser(module: str, description: str | None, *, needs_run: bool = True) -> argparse.ArgumentParser:
    """The options that all analyses have."""
    p = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--run",
        type=Path,
        action="append",
        required=needs_run,
        default=None if needs_run else [],
        metavar="DIR",
        help="folder of a finished run; may be given several times",
    )
    p.add_argument("--out", type=Path, help=f"folder for results (default runs/{module.rpartition('.')[2]})")
    p.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu, gpu or gpu:N")
    p.add_argument("--dry-run", action="store_true", help="say what would be read, done and written, and stop")
    return p


def data_option(p: argparse.ArgumentParser) -> None:
    p.add_argument("--data", type=Path, help="folder or archive with the data set (default: the cache, else download)")


def out_folder(args: argparse.Namespace, module: str) -> Path:
    return args.out or Path("runs") / module.rpartition(".")[2]


def announce(args: argparse.Namespace, module: str, what: str, files: Sequence[str]) -> None:
    """What --dry-run prints: nothing is opened."""
    sources = [str(path) for path in [*args.run, *([args.weights] if getattr(args, "weights", None) else [])]]
    print(f"would read   {', '.join(sources)}")
    print(f"would do     {what}")
    print(f"would write  {', '.join(files)} in {out_folder(args, module)}")


def not_comparable(runs: Sequence[Run]) -> str:
    """The word on the paper's numbers: which runs they cannot be compared with, and why."""
    lines = [f"  {run.label}, {run.name}: {', '.join(run.reduced)}" for run in runs if run.reduced]
    if not lines:
        return ""
    return "The paper's numbers are not comparable with these reduced runs:\n" + "\n".join(lines)


class Progress:
    """A bar on a terminal, a line now and then elsewhere.

    with Progress(total, "images") as progress:   ... progress(10) says that 10 more are done
    """

    def __init__(self, total: int, what: str, unit: str = "image"):
        self.total, self.what, self.unit, self.done = total, what, unit, 0

    @cached_property
    def _bar(self) -> Any:
        from tqdm import tqdm

        return tqdm(total=self.total, desc=self.what, unit=self.unit, leave=False, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        self._terminal, self._spoke = sys.stderr.isatty(), time.monotonic()
        return self

    def __call__(self, more: int = 1) -> None:
        self.done += more
        if self._terminal:
            self._bar.update(more)
        elif time.monotonic() - self._spoke > 20 or self.done == self.total:
            self._spoke = time.monotonic()
            print(f"{self.what}: {self.done}/{self.total} {self.unit}s", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bar.close()


def batches(images: np.ndarray, normalise: Normaliser, size: int) -> Iterator[np.ndarray]:
    """Normalised images, a batch at a time."""
    for start in range(0, len(images), size):
        yield normalise(images[start : start + size])
