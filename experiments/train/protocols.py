"""The paper's ways to report an error: plain, single, folds.

plain    train on the whole training set, test.
single   hold out 10,000 images and find the epoch with the lowest error on them; then train from scratch on all, and
         stop either after as many epochs ("epochs", what the code of the cited paper does), or when the loss on those
         10,000, now among the training images, is down to the training loss of the first network at its best epoch
         ("loss", what the cited paper says).  The second may never happen: the schedule ends it.
folds    K folds: network i trains on the others and chooses its epoch by the error on fold i.  "Average" is the mean
         test error with its standard error, "Vote" the error of the averaged softmax outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.cli.files import write_json
from experiments.train.arrays import Job
from experiments.train.cifar import Settings
from experiments.train.session import chosen_images, read_result
from minicnn.cluster import ALONE, Communicator
from minicnn.data.dataset import Dataset
from minicnn.random import Stream
from minicnn.training import judge

Runner = Callable[[Job], dict[str, Any]]


def training_indices(settings: Settings, data: Dataset) -> np.ndarray:
    """The training images that a run uses."""
    return chosen_images(len(data.train_labels), settings.subset, settings.seed)


def plain(settings: Settings, folder: Path, data: Dataset, run: Runner, hold_out: int = 0) -> dict[str, Any]:
    """Train, then test; with `hold_out`, on so many images less, which choose the epoch."""
    chosen = training_indices(settings, data)
    train, held = split(chosen, hold_out, settings.seed)
    return {"protocol": "plain", **run(Job(settings, folder, train, held))}


def single(
    settings: Settings,
    folder: Path,
    data: Dataset,
    run: Runner,
    *,
    hold_out: int,
    stop: str,
    cluster: Communicator = ALONE,
) -> dict[str, Any]:
    chosen = training_indices(settings, data)
    train, held = split(chosen, hold_out, settings.seed)
    search = run(Job(settings, folder / "search", train, held))
    if stop == "epochs":
        job = Job(settings, folder / "final", chosen, stop_epoch=search["epoch"])
    else:
        job = Job(settings, folder / "final", chosen, watched=held, stop_loss=search["epoch_loss"])
    final = run(job)
    seconds = search["seconds"] + final["seconds"]
    result = {"protocol": "single", "stop": stop, "search": search, **final, "seconds": seconds}
    cluster.on_root(lambda: write_json(folder / "result.json", result))
    return result


def folds(
    settings: Settings,
    folder: Path,
    data: Dataset,
    run: Runner,
    *,
    count: int,
    only: int | None,
    cluster: Communicator = ALONE,
) -> dict[str, Any] | None:
    """Train the folds that are missing (or only one), then collect; None while some are missing."""
    chosen = training_indices(settings, data)
    if count > len(chosen):
        raise UsageError(f"--folds must be at most the number of training images, {len(chosen)}, got {count}")
    for i in range(1, count + 1) if only is None else [only]:
        train, held = split_fold(chosen, i, count, settings.seed)
        run(Job(settings, folder / f"fold{i}", train, held))
    return cluster.on_root(lambda: collect_folds(folder, data, count))


def collect_folds(folder: Path, data: Dataset, count: int) -> dict[str, Any] | None:
    """Average and Vote from the folders of all folds, which may come from other machines."""
    folders = [folder / f"fold{i}" for i in range(1, count + 1)]
    if not all((f / "result.json").exists() for f in folders):
        return None
    results = [read_result(f) for f in folders]
    vote = np.mean([_probabilities(f, len(data.test_labels)) for f in folders], axis=0)
    errors = np.array([r["test_error"] for r in results])
    result = {
        "protocol": "folds",
        "folds": results,
        "train_error": float(np.mean([r["train_error"] for r in results])),
        "average": float(errors.mean()),
        "standard_error": float(errors.std(ddof=1) / np.sqrt(count)),
        "vote": judge(vote, data.test_labels).error,
        "seconds": sum(r["seconds"] for r in results),
    }
    write_json(folder / "result.json", result)
    return result


def _probabilities(folder: Path, images: int) -> np.ndarray:
    """The softmax outputs (images, classes) that a finished training left."""
    path = folder / "test_probabilities.npy"
    try:
        found = np.load(path, allow_pickle=False)
        fits = found.ndim == 2 and len(found) == images and bool(np.isfinite(found).all())
    except Exception:  # damaged headers make NumPy raise almost anything
        fits = False
    if not fits:
        raise UsageError(f"{path} is missing or damaged; remove {folder} and train it again")
    return found


def missing_folds(folder: Path, count: int) -> list[int]:
    return [i for i in range(1, count + 1) if not (folder / f"fold{i}" / "result.json").exists()]


def split(chosen: np.ndarray, hold_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(to train on, held out), at random."""
    if not 0 <= hold_out < len(chosen):
        raise UsageError(f"cannot hold out {hold_out} of {len(chosen)} training images")
    order = Stream(seed).child("hold-out").generator().permutation(chosen)
    return np.sort(order[hold_out:]), np.sort(order[:hold_out])


def split_fold(chosen: np.ndarray, i: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(to train on, held out) of fold i, 1 .. count: a random part is held out, every image in one fold."""
    order = Stream(seed).child("folds").generator().permutation(chosen)
    parts = np.array_split(order, count)
    held = parts.pop(i - 1)
    return np.sort(np.concatenate(parts)), np.sort(held)
