"""One training in one folder: it can be stopped at any moment, resumed, and ends in the same bits.

runs/<name>/
  config.json       settings, split, environment, command
  checkpoint.npz    the newest state; checkpoint.previous.npz the one before
  best.npz          the weights with the lowest hold-out error, where images are held out
  metrics.csv       a row an epoch
  curves.png        the same as a picture
  result.json       written last: a folder that has one is finished
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import UsageError, duration, environment, locked, read_json, write_csv, write_json
from experiments.pictures import draw_curves
from experiments.settings import Settings
from minicnn.backend import Device
from minicnn.checkpoint import load_newest, previous, save
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import Dataset
from minicnn.data.loader import Batches
from minicnn.training import Evaluation, Interrupted, Totals, Trainer, check_alive, evaluate


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
) -> dict[str, Any]:
    """Train, then read the test set once; give the content of result.json.

    A finished folder gives its result at once.  An unfinished one needs `resume`.  When stop() says so, the state is
    saved and Interrupted raised.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    with locked(job.folder):
        _claim(job, resume, command, device)
        if (job.folder / "result.json").exists():
            return read_json(job.folder / "result.json")
        session = Session(job, data, device)
        if (job.folder / "checkpoint.npz").exists() or previous(job.folder / "checkpoint.npz").exists():
            session.resume()
        try:
            session.train(stop)
        except Interrupted:
            session.save()
            raise
        return session.finish()


def _claim(job: Job, resume: bool, command: str, device: Device) -> None:
    """Write config.json, or check that the one there describes the same job."""
    path = job.folder / "config.json"
    if not path.exists():
        write_json(path, {**job.describe(), "environment": environment(device), "command": command})
        return
    stored, ours = read_json(path), job.describe()
    different = [
        f"{name}: {stored.get('settings', {}).get(name)} there, {value} here"
        for name, value in ours["settings"].items()
        if stored.get("settings", {}).get(name) != value
    ]
    different += [
        f"{n}: {stored.get(n)} there, {ours[n]} here" for n in ours if n != "settings" and stored.get(n) != ours[n]
    ]
    if different:
        raise UsageError(
            f"{job.folder} holds another run:\n  "
            + "\n  ".join(different)
            + "\nChoose another --out, or remove the folder"
        )
    if not resume and not (job.folder / "result.json").exists():
        raise UsageError(f"{job.folder} holds an unfinished run: add --resume to go on, or choose another --out")


class Session:
    """A training under way: the trainer, the history, the best weights so far."""

    def __init__(self, job: Job, data: Dataset, device: Device):
        self.job, self.data, self.device = job, data, device
        s = job.settings
        images, labels = data.train_images[job.train], data.train_labels[job.train]
        self.normalise = Normaliser.of(images)
        batches = Batches(images, labels, s.batch, self.normalise, s.augmentation(), s.seed)
        self.model = s.build_model().to(device)
        optimiser = s.build_optimiser(self.model, len(batches))
        self.trainer = Trainer(self.model, optimiser, batches, device=device, seed=s.seed)
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0  # of training, all sessions together
        self._since = time.monotonic()

    # saving

    def save(self) -> None:
        arrays, metadata = self.trainer.state()
        self._clock()
        save(self.job.folder / "checkpoint.npz", arrays, {**metadata, "history": self.history, "seconds": self.seconds})

    def resume(self) -> None:
        arrays, metadata = load_newest(self.job.folder / "checkpoint.npz")
        self.trainer.restore(arrays, metadata)
        self.history, self.seconds = metadata["history"], metadata["seconds"]
        print(
            f"resuming {self.job.folder} at epoch {self.trainer.epoch + 1}, step {self.trainer.step + 1}",
            file=sys.stderr,
        )

    def _clock(self) -> None:
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now

    # training

    def train(self, stop: Callable[[], bool]) -> None:
        job, trainer = self.job, self.trainer
        last = min(job.settings.epochs, job.stop_epoch or job.settings.epochs)
        while trainer.epoch < last and not self._reached():
            with Bar(self, last) as bar:
                totals = trainer.finish_epoch(on_step=bar.update, stop=stop)
                check_alive(totals, job.settings.classes)
                self.history.append(self._row(totals))
                if len(job.hold_out) and self.history[-1]["hold_out_error"] <= min(
                    row["hold_out_error"] for row in self.history
                ):
                    save(job.folder / "best.npz", self.model.state_dict(), {"epoch": trainer.epoch})
                bar.close(self.history[-1])
            self.save()
            write_csv(job.folder / "metrics.csv", self.history)

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
        images, labels = self.data.train_images[indices], self.data.train_labels[indices]
        return evaluate(self.model, images, labels, self.normalise, device=self.device)

    # the end

    def finish(self) -> dict[str, Any]:
        """Evaluate the weights (the best on the hold-out, if there is one) on the training and the test set."""
        epoch = self.trainer.epoch
        if len(self.job.hold_out):
            arrays, metadata = load_newest(self.job.folder / "best.npz")
            self.model.load_state_dict(arrays)
            epoch = metadata["epoch"]
        print("evaluating ...", file=sys.stderr)
        train = self.evaluate(self.job.train)
        test = evaluate(self.model, self.data.test_images, self.data.test_labels, self.normalise, device=self.device)
        np.save(self.job.folder / "test_probabilities.npy", test.probabilities)
        self._clock()
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
        draw_curves(self.job.folder / "curves.png", self.history, result, title=self.job.settings.name)
        write_json(self.job.folder / "result.json", result)
        return result


class Bar:
    """Progress of an epoch: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, session: Session, last: int):
        self.session, self.last = session, last
        self.trainer = session.trainer

    def __enter__(self) -> Bar:
        self._start = time.monotonic()
        self._first = self.trainer.step
        self._spoke = self._start
        self._bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=len(self.trainer.batches),
                initial=self._first,
                desc=f"epoch {self.trainer.epoch + 1}/{self.last}",
                unit="batch",
                leave=False,
                dynamic_ncols=True,
            )
        return self

    def update(self, trainer: Trainer) -> None:
        now = time.monotonic()
        done = trainer.step - self._first
        speed = done * trainer.batches.batch / max(1e-9, now - self._start)
        left = (self.last - trainer.epoch) * len(trainer.batches) - trainer.step
        text = (
            f"loss {trainer.totals.mean_loss:.3f}, error {trainer.totals.error:.1f} %, {speed:.0f} images/s, "
            f"{duration(left * trainer.batches.batch / max(1e-9, speed))} left"
        )
        if self._bar is not None:
            self._bar.update(trainer.step - self._bar.n)
            self._bar.set_postfix_str(text)
        elif now - self._spoke > 60:
            self._spoke = now
            where = f"epoch {trainer.epoch + 1}/{self.last}, step {trainer.step}/{len(trainer.batches)}"
            print(f"{where}: {text}", file=sys.stderr, flush=True)

    def close(self, row: dict[str, Any]) -> None:
        """The line that remains of an epoch."""
        held = "" if row["hold_out_error"] is None else f", hold-out error {row['hold_out_error']:.2f} %"
        line = (
            f"epoch {row['epoch']}/{self.last}: loss {row['train_loss']:.4f}, train error {row['train_error']:.2f} %"
            f"{held}, lr {row['lr']:.2g}, {duration(time.monotonic() - self._start)}"
        )
        if self._bar is not None:
            self._bar.close()
        print(line, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def fingerprint(indices: np.ndarray) -> dict[str, Any]:
    """Enough to notice that a run is resumed with other images."""
    import hashlib

    digest = hashlib.sha256(np.ascontiguousarray(indices, dtype="<i8").tobytes()).hexdigest()
    return {"count": len(indices), "sha256": digest[:16]}
