"""One training on arrays, in one folder: it can be stopped at any moment, resumed, and ends in the same bits.

runs/<name>/        as sessions.py says, and
  best.npz          the weights with the lowest hold-out error, where images are held out
  curves.png        metrics.csv as a picture
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import write_csv, write_json
from experiments.cli.progress import EpochBar
from experiments.figures.curves import draw_curves
from experiments.train.cifar import Settings
from experiments.train.session import Session, fingerprint, run_in
from minicnn.backend import Device
from minicnn.checkpoint import atomic_write, load_newest, save
from minicnn.cluster import ALONE, Communicator
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import Dataset
from minicnn.data.loader import Batches
from minicnn.training import Evaluation, Totals, Trainer, check_alive, evaluate


@dataclass(frozen=True)
class Job:
    """What to train on which images, and when to stop.

    train, hold_out   indices into the training set; hold_out may be empty
    watched           indices whose loss decides when to stop, if `stop_loss` is given ("single" protocol)
    stop_epoch        stop after so many epochs, before the end of the schedule
    """

    settings: Settings
    folder: Path
    train: np.ndarray
    hold_out: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    watched: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    stop_loss: float | None = None
    stop_epoch: int | None = None

    def describe(self) -> dict[str, Any]:
        """What distinguishes this job from others in the same folder."""
        return {
            "settings": self.settings.as_json(),
            "train": fingerprint(self.train),
            "hold_out": fingerprint(self.hold_out),
            "stop_loss": self.stop_loss,
            "stop_epoch": self.stop_epoch,
        }


def run(
    job: Job,
    data: Dataset,
    *,
    device: Device,
    resume: bool,
    command: str,
    stop: Callable[[], bool] = lambda: False,
    cluster: Communicator = ALONE,
) -> dict[str, Any]:
    """Train, then read the test set once; give the content of result.json (sessions.run_in says when)."""
    images, batch = len(job.train), job.settings.batch
    if job.settings.model == "vgg" and (images - 1) % batch == 0:
        raise UsageError(
            f"{images} images in batches of {batch} would leave a batch of one image, which has no variance, and vgg "
            "has batch normalisation: change --batch or --subset"
        )
    begin = lambda: ArraySession(job, data, device, cluster)
    return run_in(
        job.folder, job.describe(), begin, device=device, resume=resume, command=command, stop=stop, cluster=cluster
    )


class ArraySession(Session):
    """A training on images in memory: the best weights so far are kept, where images are held out."""

    def __init__(self, job: Job, data: Dataset, device: Device, cluster: Communicator):
        self.job, self.data, self.device = job, data, device
        s = job.settings
        images, labels = data.train_images[job.train], data.train_labels[job.train]
        self.normalise = Normaliser.of(images)
        batches = Batches(images, labels, s.batch, self.normalise, s.augmentation(), s.seed, cluster)
        model = s.build_model().to(device)
        optimiser = s.build_optimiser(model, len(batches))
        trainer = Trainer(model, optimiser, batches, device=device, seed=s.seed, cluster=cluster)
        super().__init__(job.folder, trainer)

    def train(self, stop: Callable[[], bool]) -> None:
        job, trainer = self.job, self.trainer
        last = min(job.settings.epochs, job.stop_epoch or job.settings.epochs)
        while trainer.epoch < last and not self._reached():
            with EpochBar(trainer, last) as bar:
                totals = trainer.finish_epoch(on_step=bar.update, stop=stop)
                check_alive(totals, job.settings.classes)
                row = self._row(totals)
                self.history.append(row)
                held = row["hold_out_error"]
                if held is not None and held <= min(before["hold_out_error"] for before in self.history):
                    self.cluster.on_root(self._keep_best)
                bar.close(row, "" if held is None else f", hold-out error {held:.2f} %")
            self.save()
            self.cluster.on_root(lambda: write_csv(job.folder / "metrics.csv", self.history))

    def _keep_best(self) -> None:
        save(self.job.folder / "best.npz", self.model.state_dict(), {"epoch": self.trainer.epoch})

    def _row(self, totals: Totals) -> dict[str, Any]:
        row: dict[str, Any] = {
            "epoch": self.trainer.epoch,
            "train_loss": totals.mean_loss,
            "train_error": totals.error,
            "hold_out_loss": None,
            "hold_out_error": None,
            "watched_loss": None,
            "lr": self.trainer.optimiser.lr(self.trainer.optimiser.steps - 1),
        }
        if len(self.job.hold_out):
            held = self.evaluate(self.job.hold_out)
            row |= {"hold_out_loss": held.loss, "hold_out_error": held.error}
        if self.job.stop_loss is not None:
            row["watched_loss"] = self.evaluate(self.job.watched).loss
        return row

    def _reached(self) -> bool:
        """Whether the loss on the watched images is down to the one aimed at."""
        target = self.job.stop_loss
        return target is not None and bool(self.history) and self.history[-1]["watched_loss"] <= target

    def evaluate(self, indices: np.ndarray) -> Evaluation:
        """Of images of the training set."""
        return self._evaluate(self.data.train_images[indices], self.data.train_labels[indices])

    def _evaluate(self, images: np.ndarray, labels: np.ndarray) -> Evaluation:
        return evaluate(self.model, images, labels, self.normalise, device=self.device, cluster=self.cluster)

    def finish(self) -> dict[str, Any]:
        """Evaluate the weights (the best on the hold-out, if there is one) on the training and the test set."""
        epoch = self.trainer.epoch
        if len(self.job.hold_out):
            arrays, metadata = self.cluster.on_root(lambda: load_newest(self.job.folder / "best.npz"))
            self.model.load_state_dict(arrays)
            epoch = metadata["epoch"]
        print("evaluating ...", file=sys.stderr)
        train = self.evaluate(self.job.train)
        test = self._evaluate(self.data.test_images, self.data.test_labels)
        self.clock()
        row = self.history[epoch - 1]
        result = {
            "epoch": epoch,
            "epoch_loss": row["train_loss"],  # while it trained, with augmentation and dropout
            "train_loss": train.loss,
            "train_error": train.error,
            "hold_out_error": row["hold_out_error"],
            "test_loss": test.loss,
            "test_error": test.error,
            "seconds": self.seconds,
        }
        self.cluster.on_root(lambda: self._write(result, test.probabilities))
        return result

    def _write(self, result: dict[str, Any], probabilities: np.ndarray) -> None:
        folder = self.job.folder
        atomic_write(folder / "test_probabilities.npy", lambda file: np.save(file, probabilities))
        draw_curves(folder / "curves.png", self.history, result, title=self.job.settings.name)
        write_json(folder / "result.json", result)
