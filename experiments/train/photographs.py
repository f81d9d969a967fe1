"""One training on a folder of photographs, in one folder, and the evaluation of what came of it.

runs/<name>/        as sessions.py says, and
  classes.json      the classes: names of folders, and in words
  colours.json      mean, deviation and principal components of the training set's colours
  bad_images.txt    files that could not be decoded, with --bad-images skip
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import read_json, write_csv, write_json
from experiments.cli.progress import EpochBar, Progress
from experiments.train.imagenet import ImagenetSettings
from experiments.train.session import Session
from minicnn.backend import Device
from minicnn.checkpoint import atomic_write_text
from minicnn.cluster import ALONE, Communicator
from minicnn.data.augment import CENTRE, TEN, Normaliser
from minicnn.data.colour import Colours
from minicnn.data.files import cache_folder
from minicnn.data.folders import Pictures, PictureSet
from minicnn.data.photographs import SAMPLE, BadImages, PhotoBatches, colours_of, squares
from minicnn.data.workers import Decoders
from minicnn.nn import Module
from minicnn.training import Totals, Trainer, check_alive, crop_probabilities, judge, top_error

CROPS = {1: (CENTRE,), 10: TEN}
EVALUATION_BATCH = 64
BAD = "bad_images.txt"


def evaluate_pictures(
    model: Module,
    pictures: Pictures,
    normalise: Normaliser,
    settings: ImagenetSettings,
    decoders: Decoders,
    bad: BadImages,
    *,
    crops: int,
    device: Device,
    cluster: Communicator = ALONE,
) -> dict[str, float]:
    """Errors in percent, top1 and top5, of one crop and (_ten) of the mean softmax of ten, if `crops` is 10."""
    found: dict[int, list[np.ndarray]] = {count: [] for count in CROPS if count <= crops}
    right: list[np.ndarray] = []
    every = range(0, len(pictures), EVALUATION_BATCH)
    own = every[cluster.shard(0, len(every))]
    pictures = pictures.take(np.arange(own.start, min(own.stop, len(pictures))))  # of this rank
    with (
        Progress(len(pictures), "validation, one crop" + (" and ten" if crops == 10 else "")) as progress,
        closing(squares(pictures, decoders, bad, batch=EVALUATION_BATCH)) as batches,
    ):
        for images, labels in batches:
            right.append(labels)
            for count, parts in found.items():
                parts.append(crop_probabilities(model, images, normalise, CROPS[count], settings.crop, device=device))
            progress(len(images))
    labels = _joined(cluster, right)
    result: dict[str, float] = {"images": len(labels)}
    for count, parts in found.items():
        p, suffix = _joined(cluster, parts), "_ten" if count == 10 else ""
        result |= {f"loss{suffix}": judge(p, labels).loss}
        result |= {f"top{k}{suffix}": top_error(p, labels, k) for k in (1, 5)}
    return result


def _joined(cluster: Communicator, parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part for of_rank in cluster.gather(parts) for part in of_rank])


class PhotoSession(Session):
    """A training on files; the state is saved every `save_every` steps, and after every epoch."""

    def __init__(
        self,
        folder: Path,
        settings: ImagenetSettings,
        data: PictureSet,
        decoders: Decoders,
        *,
        device: Device,
        save_every: int,
        crops: int,
        cluster: Communicator = ALONE,
    ):
        self.settings, self.data, self.decoders, self.device = settings, data, decoders, device
        self.save_every, self.crops = save_every, crops
        self.bad = BadImages(settings.bad_images, cluster.on_root(lambda: _lines(folder / BAD)))
        self.colours = cluster.on_root(lambda: self._prepare(folder))
        batches = PhotoBatches(
            data.train,
            settings.batch,
            settings.crop,
            self.colours,
            decoders,
            self.bad,
            settings.seed,
            flip=settings.flip,
            colour=settings.colour,
            cluster=cluster,
        )
        model = settings.build_model().to(device)
        optimiser = settings.build_optimiser(model, len(batches))
        trainer = Trainer(model, optimiser, batches, device=device, seed=settings.seed, cluster=cluster)
        super().__init__(folder, trainer)

    def _prepare(self, folder: Path) -> Colours:
        """Write the classes and the colours; give the latter."""
        classes = zip(self.data.classes, self.data.readable, strict=True)
        write_json(folder / "classes.json", [list(pair) for pair in classes])
        path = folder / "colours.json"
        if not path.exists():
            train = self.data.train
            with Progress(min(SAMPLE, len(train)), "colours of the training set") as progress:
                write_json(path, colours_of(train, self.decoders, self.bad, cache_folder(), progress).as_json())
        return read_colours(folder)

    def save(self) -> None:
        super().save()
        bad = self._all_bad()
        if bad:
            self.cluster.on_root(lambda: atomic_write_text(self.folder / BAD, "\n".join(bad) + "\n"))

    def _all_bad(self) -> list[str]:
        """What all ranks have seen, each file once."""
        return list(dict.fromkeys(message for seen in self.cluster.gather(self.bad.seen) for message in seen))

    def train(self, stop: Callable[[], bool]) -> None:
        trainer, last = self.trainer, self.settings.epochs
        while trainer.epoch < last:
            with EpochBar(trainer, last) as bar:
                saved = trainer.step

                def on_step(trainer: Trainer, bar: EpochBar = bar) -> None:
                    nonlocal saved
                    bar.update(trainer)
                    if trainer.step - saved >= self.save_every:
                        self.save()
                        saved = trainer.step

                totals = trainer.finish_epoch(on_step=on_step, stop=stop)
                check_alive(totals, self.settings.classes)
                row = self._row(totals)
                self.history.append(row)
                errors = f"{row['validation_top1']:.2f} and {row['validation_top5']:.2f} %"
                bar.close(row, f", validation top-1 and top-5 {errors}")
            self.save()
            self.cluster.on_root(lambda: write_csv(self.folder / "metrics.csv", self.history))

    def _row(self, totals: Totals) -> dict[str, Any]:
        """Of an epoch, with the validation set, which nothing is chosen by."""
        found = self.evaluate(crops=1)
        rate = self.trainer.optimiser.lr(self.trainer.optimiser.steps - 1)
        return {
            "epoch": self.trainer.epoch,
            "train_loss": totals.mean_loss,
            "train_error": totals.error,
            **{f"validation_{name}": found[name] for name in ("loss", "top1", "top5")},
            "lr": rate,
        }

    def evaluate(self, crops: int) -> dict[str, float]:
        return evaluate_pictures(
            self.model,
            self.data.validation,
            self.colours.normaliser,
            self.settings,
            self.decoders,
            self.bad,
            crops=crops,
            device=self.device,
            cluster=self.cluster,
        )

    def finish(self) -> dict[str, Any]:
        print("evaluating ...", file=sys.stderr)
        found = self.evaluate(self.crops)
        self.clock()
        row = self.history[-1]
        result = {
            "epoch": self.trainer.epoch,
            "train_loss": row["train_loss"],  # while it trained, with crops, noise and dropout
            "train_error": row["train_error"],
            "test_loss": found["loss"],
            "test_error": found["top1"],
            **found,
            "bad_images": len(self._all_bad()),
            "seconds": self.seconds,
        }
        self.cluster.on_root(lambda: write_json(self.folder / "result.json", result))
        return result


def read_colours(folder: Path) -> Colours:
    """colours.json of a run."""
    try:
        return Colours.from_json(read_json(folder / "colours.json"))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} has no usable colours.json ({error}); remove it to compute it again") from None


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []
