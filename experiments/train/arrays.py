"""A training on images in memory."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.figures.curves import draw_curves
from experiments.train.cifar import CifarSettings
from experiments.train.folder import PREDICTIONS, fingerprint, write_predictions
from experiments.train.session import Job, Session
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, DamagedError, load, save
from minicnn.cluster import Communicator
from minicnn.data.augment import MIRRORED, SIX, Normaliser, View
from minicnn.data.dataset import Dataset
from minicnn.data.loader import Batches
from minicnn.training import Evaluation, errors_of_views, evaluate

NO_IMAGES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class ArrayJob(Job):
    """What to train on which images, and when to stop.

    train, hold_out   indices into the training set; hold_out may be empty
    watched           indices whose loss decides when to stop, if `stop_loss` is given ("single" protocol)
    stop_epoch        stop after this many epochs, before the end of the schedule
    """

    settings: CifarSettings
    data: Dataset
    train: np.ndarray
    hold_out: np.ndarray = field(default_factory=lambda: NO_IMAGES)
    watched: np.ndarray = field(default_factory=lambda: NO_IMAGES)
    stop_loss: float | None = None
    stop_epoch: int | None = None

    def describe(self) -> dict[str, Any]:
        return {
            "settings": self.settings.as_json(),
            "train": fingerprint(self.train),
            "hold_out": fingerprint(self.hold_out),
            "stop_loss": self.stop_loss,
            "stop_epoch": self.stop_epoch,
        }

    def for_predictions(self) -> dict[str, Any]:
        normalise = Normaliser.of(self.data.train_images[self.train])
        return {"mean": list(normalise.mean), "std": list(normalise.std), "classes": list(self.data.classes)}

    def begin(self, device: Device, cluster: Communicator) -> Session:
        images, batch = len(self.train), self.settings.batch
        if self.settings.model == "vgg" and (images - 1) % batch == 0:
            raise UsageError(
                f"{images} images in batches of {batch} would leave a batch of one image, which has no variance for "
                "vgg's batch normalisation: change --batch or --subset"
            )
        return ArraySession(self, device, cluster)

    def upgrade(self) -> None:
        """Older versions saved the outputs without the labels."""
        old = self.folder / "test_probabilities.npy"
        if old.exists() and not (self.folder / PREDICTIONS).exists():
            with contextlib.suppress(Exception):  # a damaged file makes NumPy raise almost anything
                write_predictions(self.folder, np.load(old, allow_pickle=False), self.data.test_labels)


class ArraySession(Session):
    """A training on images in memory; if some are held out, it keeps the best weights so far."""

    def __init__(self, job: ArrayJob, device: Device, cluster: Communicator):
        self.job, s = job, job.settings
        images, labels = job.data.train_images[job.train], job.data.train_labels[job.train]
        self.normalise = Normaliser.of(images)
        batches = Batches(images, labels, s.batch, self.normalise, s.augmentation(), s.seed, cluster)
        super().__init__(job, batches, device, cluster)
        s.prepare(self.model, images, self.normalise)
        self.last = min(s.epochs, job.stop_epoch or s.epochs)

    def measure_epoch(self) -> tuple[dict[str, Any], str]:
        row: dict[str, Any] = {"hold_out_loss": None, "hold_out_error": None, "watched_loss": None}
        words = ""
        if len(self.job.hold_out):
            held = self.evaluate(self.job.hold_out)
            row |= {"hold_out_loss": held.loss, "hold_out_error": held.error}
            words = f", hold-out error {held.error:.2f} %"
            if all(held.error <= before["hold_out_error"] for before in self.history):
                self.cluster.on_root(self._keep_best)
        if self.job.stop_loss is not None:
            row["watched_loss"] = self.evaluate(self.job.watched).loss
        return row, words

    def _keep_best(self) -> None:
        save(self.folder / "best.npz", self.model.state_dict(), {"epoch": self.trainer.epoch})

    def _best(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The weights with the lowest hold-out error; never those before them, which a damaged file leaves."""
        try:
            return load(self.folder / "best.npz")
        except DamagedError:
            lost = f"{self.folder / 'best.npz'} is missing or damaged: the best weights are lost"
            raise CheckpointError(f"{lost}; remove {self.folder} and train again") from None

    def reached(self) -> bool:
        """Whether the loss on the watched images has come down to `stop_loss`."""
        target = self.job.stop_loss
        return target is not None and bool(self.history) and self.history[-1]["watched_loss"] <= target

    def evaluate(self, indices: np.ndarray | None, view: View | None = None) -> Evaluation:
        """Evaluate on these images of the training set, or, given None, on the test set; as they are, or a view."""
        data = self.job.data
        images, labels = data.test_images, data.test_labels
        if indices is not None:
            images, labels = data.train_images[indices], data.train_labels[indices]
        images = images if view is None else view.of(images)
        return evaluate(self.model, images, labels, self.normalise, device=self.device, cluster=self.cluster)

    def evaluate_all(self) -> dict[str, Any]:
        """Evaluate the weights (the hold-out's best, if there is one) on the training set, and once on the test set."""
        epoch = self.trainer.epoch
        if len(self.job.hold_out):
            arrays, metadata = self.cluster.on_root(self._best)
            self.model.load_state_dict(arrays)
            epoch = metadata["epoch"]
        train, test = self.evaluate(self.job.train), self.evaluate(None)
        row = self.history[epoch - 1]
        result = {
            "epoch": epoch,
            "epoch_loss": row["train_loss"],  # during training, with augmentation and dropout
            "train_loss": train.loss,
            "train_error": train.error,
            "hold_out_error": row["hold_out_error"],
            "test_loss": test.loss,
            "test_error": test.error,
        }
        result |= self._evaluate_views(test.probabilities)
        self.cluster.on_root(lambda: self._leave(result, test.probabilities))
        return result

    def _evaluate_views(self, as_they_are: np.ndarray) -> dict[str, float]:
        """Test errors when the outputs for several views of each image are averaged: beside the plain one, always.

        With sprint also for the six views of the public records, which weigh them a little differently.
        """
        wanted: dict[str, tuple[View, ...]] = {"test_error_mirrored": MIRRORED}
        if self.settings.model == "sprint":
            wanted["test_error_six_views"] = SIX
        labels = self.job.data.test_labels
        return errors_of_views(as_they_are, lambda view: self.evaluate(None, view).probabilities, labels, wanted)

    def _leave(self, result: dict[str, Any], probabilities: np.ndarray) -> None:
        write_predictions(self.folder, probabilities, self.job.data.test_labels)
        smoothed = self.settings.smoothing > 0
        draw_curves(self.folder / "curves.png", self.history, result, title=self.settings.name, smoothed=smoothed)
