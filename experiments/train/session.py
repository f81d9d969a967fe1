"""A training in a folder, whatever it trains on: claiming the folder, saving, resuming.

runs/<name>/
  config.json       settings, what it trains on, environment, command
  checkpoint.npz    the newest state; checkpoint.previous.npz the one before
  metrics.csv       a row an epoch
  result.json       written last: a folder that has one is finished
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.environment import environment
from experiments.cli.files import locked, read_json, write_csv, write_json
from experiments.cli.values import is_number
from minicnn.backend import Device
from minicnn.checkpoint import CheckpointError, load_newest, previous, save
from minicnn.cluster import ALONE, Communicator
from minicnn.data.files import sweep
from minicnn.random import Stream
from minicnn.training import Interrupted, Trainer, TrainingError


class Session:
    """A training under way: the trainer, the history, the time it took."""

    def __init__(self, folder: Path, trainer: Trainer):
        self.folder, self.trainer, self.model, self.cluster = folder, trainer, trainer.model, trainer.cluster
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0  # of training, all sessions together
        self._since = time.monotonic()

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
                raise ValueError("its history is no table")
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.folder} is not one of this run: {error}; remove it to start anew"
            ) from None
        if self.history:  # it may have been stopped before the table was written
            self.cluster.on_root(lambda: write_csv(self.folder / "metrics.csv", self.history))
        print(
            f"resuming {self.folder} at epoch {self.trainer.epoch + 1}, step {self.trainer.step + 1}", file=sys.stderr
        )

    def clock(self) -> None:
        """Count the time since the last call."""
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now

    def train(self, stop: Callable[[], bool]) -> None:
        """Train to the end; raise Interrupted when stop() says so."""
        raise NotImplementedError(f"{type(self).__name__} does not define train(stop)")

    def finish(self) -> dict[str, Any]:
        """Evaluate, write result.json and give its content."""
        raise NotImplementedError(f"{type(self).__name__} does not define finish()")


def run_in(
    folder: Path,
    description: dict[str, Any],
    begin: Callable[[], Session],
    *,
    device: Device,
    resume: bool,
    command: str,
    stop: Callable[[], bool] = lambda: False,
    cluster: Communicator = ALONE,
) -> dict[str, Any]:
    """Train in a folder and give the content of result.json.

    A finished folder gives its result at once.  An unfinished one needs `resume`, and the same description, which
    says what determines the result.  When stop() says so, the state is saved and Interrupted raised.  The number of
    ranks is not part of it; rank 0 alone reads and writes the folder.
    """
    different = [rank for rank, theirs in enumerate(cluster.gather(description)) if theirs != description]
    if different:
        raise UsageError(
            f"rank {different[0]} sees other data or settings than rank {cluster.rank}: is --data the same?"
        )
    with contextlib.ExitStack() as held:

        def claim() -> tuple[dict[str, Any] | None, bool]:
            """The result, if there is one, and whether there is a state to go on from."""
            result, state = folder / "result.json", folder / "checkpoint.npz"
            if not result.exists():  # else nothing is written, and the folder may be read-only
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(folder))
                sweep(folder, age=-math.inf)  # nobody else is writing here
            _write_config(folder, description, resume, {**environment(device), "ranks": cluster.size}, command)
            if result.exists():  # perhaps by the process that had the lock before
                return read_result(folder), True
            return None, state.exists() or previous(state).exists()

        result, begun = cluster.on_root(claim)
        if result is not None:
            return result
        session = begin()
        if begun:
            session.resume()
        try:
            session.train(stop)
        except Interrupted:
            session.save()
            raise
        return session.finish()


def _write_config(folder: Path, ours: dict[str, Any], resume: bool, where: dict[str, Any], command: str) -> None:
    """Write config.json, or check that the one there describes the same training."""
    path = folder / "config.json"
    if not path.exists():
        write_json(path, {**ours, "environment": where, "command": command})
        return
    stored = read_json(path)
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        raise UsageError(f"{path} is damaged: no settings; remove the folder or choose another --out")
    different = [
        f"{name}: {stored['settings'].get(name)} there, {value} here"
        for name, value in ours["settings"].items()
        if stored["settings"].get(name) != value
    ]
    different += [
        f"{n}: {stored.get(n)} there, {ours[n]} here" for n in ours if n != "settings" and stored.get(n) != ours[n]
    ]
    if different:
        raise UsageError(
            f"{folder} holds another run:\n  " + "\n  ".join(different) + "\nChoose another --out, or remove the folder"
        )
    if not resume and not (folder / "result.json").exists():
        raise UsageError(f"{folder} holds an unfinished run: add --resume to go on, or choose another --out")


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
            f"the weights of rank {different[0]} are not those of rank 0 any more.  All ranks need the same kind of "
            "processor or GPU and the same versions of Python's packages; the last checkpoint is good"
        )


def read_result(folder: Path) -> dict[str, Any]:
    """result.json of a finished training; its numbers go into tables, so what is none there is damage."""
    path = folder / "result.json"
    result = read_json(path)
    if not isinstance(result, dict):
        raise UsageError(f"{path} is damaged: no results in it; remove the folder")
    for name in ("train_error", *(("average", "vote") if "average" in result else ("test_error",)), "seconds"):
        if not is_number(result.get(name)):
            raise UsageError(f"{path} is damaged: {name} is {result.get(name)!r}; remove the folder")
    return result


def chosen_images(count: int, subset: int | None, seed: int) -> np.ndarray:
    """Indices of the images, of `count`, that a run trains on: all, or a random subset that depends on the seed."""
    if subset is None:
        return np.arange(count)
    if not 1 <= subset <= count:
        raise UsageError(f"--subset must be in 1 .. {count}, got {subset}")
    return np.sort(Stream(seed).child("subset").generator().permutation(count)[:subset])


def fingerprint(indices: np.ndarray) -> dict[str, Any]:
    """Enough to notice that a run is resumed with other images."""
    digest = hashlib.sha256(np.ascontiguousarray(indices, dtype="<i8").tobytes()).hexdigest()
    return {"count": len(indices), "sha256": digest[:16]}
