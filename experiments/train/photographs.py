"""A training on photographs, and the evaluation of its network.

runs/<name>/        the files listed in folder.py, and
  classes.json      the classes: folder names, and names in words
  colours.json      mean, deviation and principal components of the training set's colours
  bad_images.txt    files that could not be decoded, with --bad-images skip
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import read_json, write_json
from experiments.cli.progress import Progress
from experiments.train.imagenet import ImagenetSettings
from experiments.train.session import Job, Session
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
from minicnn.training import crop_probabilities, evaluate_probabilities, top_error

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
    """Errors in percent, top1 and top5, with one crop and, if `crops` is 10, with the mean softmax of ten (_ten)."""
    found: dict[int, list[np.ndarray]] = {count: [] for count in CROPS if count <= crops}
    right: list[np.ndarray] = []
    every = range(0, len(pictures), EVALUATION_BATCH)
    own = every[cluster.shard(0, len(every))]
    pictures = pictures.take(np.arange(own.start, min(own.stop, len(pictures))))  # this rank's share
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
        result |= {f"loss{suffix}": evaluate_probabilities(p, labels).loss}
        result |= {f"top{k}{suffix}": top_error(p, labels, k) for k in (1, 5)}
    return result


def _joined(cluster: Communicator, parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part for of_rank in cluster.gather(parts) for part in of_rank])


@dataclass(frozen=True)
class PhotoJob(Job):
    """What to train on which files.

    save_every    steps between two checkpoints, in addition to the one after every epoch
    crops         1, or 10 to evaluate with the mean of ten crops as well
    """

    settings: ImagenetSettings
    data: PictureSet
    decoders: Decoders
    save_every: int
    crops: int

    def describe(self) -> dict[str, Any]:
        return {
            "experiment": "imagenet",
            "settings": self.settings.as_json(),
            "train": self.data.train.fingerprint(),
            "validation": self.data.validation.fingerprint(),
        }

    def begin(self, device: Device, cluster: Communicator) -> Session:
        return PhotoSession(self, device, cluster)


class PhotoSession(Session):
    """A training on files, which also saves its state within an epoch."""

    def __init__(self, job: PhotoJob, device: Device, cluster: Communicator):
        self.job, self.save_every, s = job, job.save_every, job.settings
        self.bad = BadImages(s.bad_images, cluster.on_root(lambda: _lines(job.folder / BAD)))
        self.colours = cluster.on_root(self._prepare)
        batches = PhotoBatches(
            job.data.train, s.batch, s.crop, self.colours, job.decoders, self.bad, s.seed,
            flip=s.flip, colour=s.colour, cluster=cluster,
        )  # fmt: skip
        super().__init__(job, batches, device, cluster)

    def _prepare(self) -> Colours:
        """Write the classes and the colours; return the colours."""
        folder, data = self.job.folder, self.job.data
        classes = zip(data.classes, data.readable, strict=True)
        write_json(folder / "classes.json", [list(pair) for pair in classes])
        path = folder / "colours.json"
        if not path.exists():
            with Progress(min(SAMPLE, len(data.train)), "colours of the training set") as progress:
                found = colours_of(data.train, self.job.decoders, self.bad, cache_folder(), progress)
            write_json(path, found.as_json())
        return read_colours(folder)

    def save(self) -> None:
        super().save()
        bad = self._all_bad()
        if bad:
            self.cluster.on_root(lambda: atomic_write_text(self.folder / BAD, "\n".join(bad) + "\n"))

    def _all_bad(self) -> list[str]:
        """The bad files that any rank has seen, each once."""
        return list(dict.fromkeys(message for seen in self.cluster.gather(self.bad.seen) for message in seen))

    def measure_epoch(self) -> tuple[dict[str, Any], str]:
        """Evaluate on the validation set, which is never used to choose anything."""
        found = self.evaluate(crops=1)
        row = {f"validation_{name}": found[name] for name in ("loss", "top1", "top5")}
        return row, f", validation top-1 and top-5 {found['top1']:.2f} and {found['top5']:.2f} %"

    def evaluate(self, crops: int) -> dict[str, float]:
        return evaluate_pictures(
            self.model, self.job.data.validation, self.colours.normaliser, self.settings, self.job.decoders, self.bad,
            crops=crops, device=self.device, cluster=self.cluster,
        )  # fmt: skip

    def evaluate_all(self) -> dict[str, Any]:
        found, row = self.evaluate(self.job.crops), self.history[-1]
        return {
            "epoch": self.trainer.epoch,
            "train_loss": row["train_loss"],  # during training, with crops, noise and dropout
            "train_error": row["train_error"],
            "test_loss": found["loss"],
            "test_error": found["top1"],
            **found,
            "bad_images": len(self._all_bad()),
        }


def read_colours(folder: Path) -> Colours:
    """colours.json of a run."""
    try:
        return Colours.from_json(read_json(folder / "colours.json"))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} has no usable colours.json ({error}); remove the file to compute it anew") from None


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []
