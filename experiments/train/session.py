"""A training in a folder, whatever it trains on: claiming the folder, the epochs, saving, resuming, finishing.

A `Job` says what to train in which folder (folder.py lists its files), and `run_job` runs it; a `Session` is a training
under way.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.environment import environment, products
from experiments.cli.files import locked, write_csv, write_json
from experiments.cli.progress import EpochBar
from experiments.train.folder import read_result, write_config
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, load_newest, previous, save
from minicnn.cluster import ALONE, Communicator
from minicnn.data.files import sweep
from minicnn.data.loader import BatchSource
from minicnn.nn import Sequential
from minicnn.training import Interrupted, Totals, Trainer, TrainingError, check_alive


@dataclass(frozen=True)
class Job:
    """What to train, and in which folder."""

    settings: Any
    folder: Path

    def describe(self) -> dict[str, Any]:
        """What determines the result: another job in the same folder is refused."""
        raise NotImplementedError(f"{type(self).__name__} does not define describe()")

    def for_predictions(self) -> dict[str, Any]:
        """What config.json says beside this, so that the network can be used without its training images."""
        return {}

    def begin(self, device: Device, cluster: Communicator) -> Session:
        raise NotImplementedError(f"{type(self).__name__} does not define begin(device, cluster)")

    def upgrade(self) -> None:
        """Bring a folder that an older version finished up to date."""


class Session:
    """A training under way: the trainer, the history, the time it took."""

    save_every: float = math.inf  # steps between saves within an epoch, in addition to the save at its end

    def __init__(self, job: Job, batches: BatchSource, device: Device, cluster: Communicator):
        self.folder, self.settings, self.device, self.cluster = job.folder, job.settings, device, cluster
        self.model = self.build_model().to(device)
        optimiser = self.settings.build_optimiser(self.model, len(batches))
        own = {"seed": self.settings.seed, "smoothing": self.settings.smoothing}
        self.trainer = Trainer(self.model, optimiser, batches, device=device, cluster=cluster, **own)
        self.last = self.settings.epochs  # the last epoch
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0  # of training, all sessions together
        self._since = time.monotonic()

    # What a kind of training defines.

    def build_model(self) -> Sequential:
        return self.settings.build_model()

    def measure_epoch(self) -> tuple[dict[str, Any], str]:
        """After an epoch: more columns for its row, and words about them."""
        raise NotImplementedError(f"{type(self).__name__} does not define measure_epoch()")

    def reached(self) -> bool:
        """Whether the training may end before the last epoch."""
        return False

    def evaluate_all(self) -> dict[str, Any]:
        """At the end: the content of result.json apart from the time; also writes any other final files."""
        raise NotImplementedError(f"{type(self).__name__} does not define evaluate_all()")

    # What all trainings share.

    def train(self, stop: Callable[[], bool]) -> None:
        """Train to the end; raise Interrupted when stop() says so."""
        trainer = self.trainer
        while trainer.epoch < self.last and not self.reached():
            with EpochBar(trainer, self.last) as bar:
                saved = trainer.step

                def on_step(trainer: Trainer, bar: EpochBar = bar) -> None:
                    nonlocal saved
                    bar.update(trainer)
                    if trainer.step - saved >= self.save_every:
                        self.save()
                        saved = trainer.step

                totals = trainer.finish_epoch(on_step=on_step, stop=stop)
                check_alive(totals, self.settings.classes)
                more, words = self.measure_epoch()
                self.history.append(self._row(totals, more))
                bar.close(self.history[-1], words)
            self.save()
            self._write_metrics()

    def _row(self, totals: Totals, more: dict[str, Any]) -> dict[str, Any]:
        """A row of metrics.csv; the learning rate is that of the last step."""
        optimiser = self.trainer.optimiser
        row = {"epoch": self.trainer.epoch, "train_loss": totals.mean_loss, "train_error": totals.error}
        return {**row, **more, "lr": optimiser.lr(optimiser.steps - 1)}

    def _write_metrics(self) -> None:
        self.cluster.on_root(lambda: write_csv(self.folder / "metrics.csv", self.history))

    def finish(self) -> dict[str, Any]:
        """Evaluate the network, write result.json and return its content."""
        print("evaluating ...", file=sys.stderr)
        result = self.evaluate_all()
        self.clock()
        result["seconds"] = self.seconds
        self.cluster.on_root(lambda: write_json(self.folder / "result.json", result))
        return result

    def save(self) -> None:
        arrays, metadata = self.trainer.state()
        self.clock()
        _check_same(self.cluster, arrays)
        metadata |= {"history": self.history, "seconds": self.seconds}
        self.cluster.on_root(lambda: save(self.folder / "checkpoint.npz", arrays, metadata))

    def resume(self) -> None:
        arrays, metadata = self.cluster.on_root(lambda: load_newest(self.folder / "checkpoint.npz"))
        try:
            self.trainer.restore(arrays, metadata)
            self.history, self.seconds = list(metadata["history"]), float(metadata["seconds"])
            if not all(isinstance(row, dict) and row.keys() == self.history[0].keys() for row in self.history):
                raise ValueError("its history is not a table")
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.folder} is not from this run: {error}; remove it to start again"
            ) from None
        if self.history:  # it may have been stopped before the table was written
            self._write_metrics()
        where = f"epoch {self.trainer.epoch + 1}, step {self.trainer.step + 1}"
        print(f"resuming {self.folder} at {where}", file=sys.stderr)

    def clock(self) -> None:
        """Count the time since the last call."""
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now


def run_job(
    job: Job,
    *,
    device: Device,
    resume: bool,
    command: str,
    stop: Callable[[], bool] = lambda: False,
    cluster: Communicator = ALONE,
) -> dict[str, Any]:
    """Run a job in its folder and return the content of result.json.

    A finished folder gives its result at once.  An unfinished one needs `resume` and the same description, which
    says what determines the result.  When stop() says so, the state is saved and Interrupted is raised.  The number of
    ranks is not part of the description; rank 0 alone reads and writes the folder.
    """
    folder, description = job.folder, job.describe()
    different = [rank for rank, theirs in enumerate(cluster.gather(description)) if theirs != description]
    if different:
        raise UsageError(
            f"rank {different[0]} and rank {cluster.rank} see different data or settings: is --data the same?"
        )
    with contextlib.ExitStack() as held:

        def claim() -> tuple[dict[str, Any] | None, bool]:
            """The result, if there is one, and whether there is a state to resume from."""
            result, state = folder / "result.json", folder / "checkpoint.npz"
            if not result.exists():  # else nothing is written, and the folder may be read-only
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(folder))
                sweep(folder, age=-math.inf)  # nobody else is writing here

            def more() -> dict[str, Any]:
                where = {**environment(device), "ranks": cluster.size}
                return {**job.for_predictions(), "environment": where, "command": command}

            write_config(folder, description, job.settings.ADDED, resume, products(device), more)
            if result.exists():  # perhaps by the process that had the lock before
                job.upgrade()
                return read_result(folder), True
            return None, state.exists() or previous(state).exists()

        result, begun = cluster.on_root(claim)
        if result is not None:
            return result
        session = job.begin(device, cluster)
        if begun:
            session.resume()
        try:
            session.train(stop)
        except Interrupted:
            session.save()
            raise
        return session.finish()


def _check_same(cluster: Communicator, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise if the ranks have drifted apart: they start alike, and add the same bits in every step."""
    if cluster.size == 1:
        return
    digest = hashlib.sha256()
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    digests = cluster.gather(digest.hexdigest())
    different = [rank for rank, theirs in enumerate(digests) if theirs != digests[0]]
    if different:
        raise TrainingError(
            f"the weights of rank {different[0]} no longer match those of rank 0.  All ranks need the same kind of "
            "processor or GPU and the same versions of Python packages; the last checkpoint is good"
        )
