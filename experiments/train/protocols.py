"""The paper's ways to report an error: plain, single, folds.

plain    train on the whole training set, test.
single   hold out 10,000 images and find the epoch with the lowest error on them; then train from scratch on all, and
         stop either after as many epochs ("epochs", as the cited paper's code does), or when the loss on those
         10,000, now among the training images, has come down to the training loss of the first network at its best
         epoch ("loss", as the cited paper says).  It may never get there; then the schedule ends the training.
folds    K folds: network i trains on the other folds and chooses its epoch by the error on fold i.  "Average" is the
         mean test error with its standard error, "Vote" the error of the averaged softmax outputs.

A protocol is a generator: it yields one job after the other, is sent the result of each, and returns its own result.
`follow` is the loop that runs the jobs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import write_json
from experiments.train.arrays import ArrayJob
from experiments.train.cifar import CifarSettings
from experiments.train.folder import read_predictions, read_result
from minicnn.cluster import ALONE, Communicator
from minicnn.data.dataset import Dataset
from minicnn.random import Stream
from minicnn.training import evaluate_probabilities

Result = dict[str, Any]
Protocol = Generator[ArrayJob, Result, Result | None]


def follow(protocol: Protocol, run: Callable[[ArrayJob], Result]) -> Result | None:
    """Run the jobs of a protocol in turn; return its result, or None while parts of it are missing."""
    try:
        job = next(protocol)
        while True:
            print(f"{job.folder}: {len(job.train)} images, {len(job.hold_out)} held out", file=sys.stderr)
            job = protocol.send(run(job))
    except StopIteration as end:
        return end.value


def plain(
    settings: CifarSettings, folder: Path, data: Dataset, hold_out: int = 0, kind: Callable[..., ArrayJob] = ArrayJob
) -> Protocol:
    """Train, then test; `hold_out` images are kept from training and choose the epoch."""
    train, held = split(settings.chosen_images(len(data.train_labels)), hold_out, settings.seed)
    result = yield kind(settings, folder, data, train, held)
    return {"protocol": "plain", **result}


def single(settings: CifarSettings, folder: Path, data: Dataset, hold_out: int, stop: str) -> Protocol:
    chosen = settings.chosen_images(len(data.train_labels))
    train, held = split(chosen, hold_out, settings.seed)
    search = yield ArrayJob(settings, folder / "search", data, train, held)
    when: dict[str, Any] = {"stop_epoch": search["epoch"]}
    if stop == "loss":
        when = {"watched": held, "stop_loss": search["epoch_loss"]}
    final = yield ArrayJob(settings, folder / "final", data, chosen, **when)
    seconds = search["seconds"] + final["seconds"]
    return {"protocol": "single", "stop": stop, "search": search, **final, "seconds": seconds}


def folds(
    settings: CifarSettings,
    folder: Path,
    data: Dataset,
    count: int,
    only: int | None = None,
    cluster: Communicator = ALONE,
) -> Protocol:
    """Train the folds that are missing (or only one), then collect; None while some are missing."""
    chosen = settings.chosen_images(len(data.train_labels))
    if count > len(chosen):
        raise UsageError(f"--folds must be at most the number of training images, {len(chosen)}, got {count}")
    for i in range(1, count + 1) if only is None else [only]:
        train, held = split_fold(chosen, i, count, settings.seed)
        yield ArrayJob(settings, folder / f"fold{i}", data, train, held)
    return cluster.on_root(lambda: None if missing_folds(folder, count) else collect_folds(folder, count))


def collect_folds(folder: Path, count: int) -> Result:
    """Average and Vote from the folders of all folds, which may come from other machines."""
    folders = [folder / f"fold{i}" for i in range(1, count + 1)]
    results = [read_result(f) for f in folders]
    outputs, labels = zip(*map(read_predictions, folders), strict=True)
    if not all(np.array_equal(labels[0], other) for other in labels):
        raise UsageError(f"the folds in {folder} were tested on different images; remove those from another run")
    errors = np.array([r["test_error"] for r in results])
    return {
        "protocol": "folds",
        "folds": results,
        "train_error": float(np.mean([r["train_error"] for r in results])),
        "average": float(errors.mean()),
        "standard_error": float(errors.std(ddof=1) / np.sqrt(count)),
        "vote": evaluate_probabilities(np.mean(outputs, axis=0), labels[0]).error,
        "seconds": sum(r["seconds"] for r in results),
    }


def write_result(folder: Path, result: Result | None) -> None:
    """Write result.json of a protocol with several trainings; a plain training has written its own."""
    if result is not None and result["protocol"] != "plain":
        write_json(folder / "result.json", result)


def missing_folds(folder: Path, count: int) -> list[int]:
    return [i for i in range(1, count + 1) if not (folder / f"fold{i}" / "result.json").exists()]


def split(chosen: np.ndarray, hold_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(to train on, held out), drawn at random."""
    if not 0 <= hold_out < len(chosen):
        raise UsageError(f"cannot hold out {hold_out} of {len(chosen)} training images")
    order = Stream(seed).child("hold-out").generator().permutation(chosen)
    return np.sort(order[hold_out:]), np.sort(order[:hold_out])


def split_fold(chosen: np.ndarray, i: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(to train on, held out) for fold i, 1 .. count: the folds are random, and every image is in exactly one."""
    order = Stream(seed).child("folds").generator().permutation(chosen)
    parts = np.array_split(order, count)
    held = parts.pop(i - 1)
    return np.sort(np.concatenate(parts)), np.sort(held)
