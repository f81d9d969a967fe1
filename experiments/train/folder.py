"""The files in the folder of a run, and how they are written and read.

runs/<name>/
  config.json       settings, what it trains on, environment, command; for small images also what a prediction needs:
                    mean and deviation of the training images, names of the classes
  checkpoint.npz    the newest state; checkpoint.previous.npz the one before
  metrics.csv       one row per epoch
  predictions.npz   the softmax outputs for the test images, and their labels (small images)
  result.json       written last: a folder that has one is finished

and, for small images, best.npz (the weights with the lowest hold-out error, where images are held out) and curves.png
(metrics.csv as a picture); for photographs classes.json, colours.json and bad_images.txt (photographs.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError, duration
from experiments.cli.files import read_json, write_json
from experiments.cli.values import is_number
from minicnn.checkpoint import DamagedError, load, save
from minicnn.training import is_chance

PREDICTIONS = "predictions.npz"


def write_config(
    folder: Path,
    ours: dict[str, Any],
    added: dict[str, Any],
    resume: bool,
    products: str,
    more: Callable[[], dict[str, Any]],
) -> None:
    """Write config.json, or check that the one there describes the same training; `added` is Settings.ADDED.

    products  how exact they are; what is written has it in its environment
    more()    what else is written, and is not compared
    """
    path = folder / "config.json"
    if not path.exists():
        write_json(path, {**ours, **more()})
        return
    remedy = "remove the folder or choose another --out"
    stored = read_json(path, remedy)
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        raise UsageError(f"{path} is damaged: it has no settings; {remedy}")
    there = added | stored["settings"]
    pairs = [(name, there.get(name), value) for name, value in ours["settings"].items()]
    pairs += [(name, stored.get(name), value) for name, value in ours.items() if name != "settings"]
    pairs.append(("precision", stored.get("environment", {}).get("precision", "float32"), products))
    different = [f"{name}: {there} there, {here} here" for name, there, here in pairs if there != here]
    if different:
        raise UsageError(
            f"{folder} holds another run:\n  " + "\n  ".join(different) + "\nChoose another --out, or remove the folder"
        )
    if not resume and not (folder / "result.json").exists():
        raise UsageError(f"{folder} holds an unfinished run: add --resume to continue it, or choose another --out")


def read_result(folder: Path) -> dict[str, Any]:
    """result.json of a finished training; its numbers go into tables, so any other value counts as damage."""
    path = folder / "result.json"
    result = read_json(path)
    if not isinstance(result, dict):
        raise UsageError(f"{path} is damaged: it has no results; remove the folder")
    for name in ("train_error", *(("average", "vote") if "average" in result else ("test_error",)), "seconds"):
        if not is_number(result.get(name)):
            raise UsageError(f"{path} is damaged: {name} is {result.get(name)!r}; remove the folder")
    return result


def write_predictions(folder: Path, probabilities: np.ndarray, labels: np.ndarray) -> None:
    """The softmax outputs (images, classes) for the test images, and the right labels."""
    (folder / PREDICTIONS).unlink(missing_ok=True)  # else `save` would keep an earlier training's as the previous one
    save(folder / PREDICTIONS, {"probabilities": probabilities, "labels": labels})


def read_predictions(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """(softmax outputs (images, classes), labels (images,)) of a finished training; UsageError if there are none."""
    try:
        arrays, _ = load(folder / PREDICTIONS)
        p, labels = arrays["probabilities"], arrays["labels"]
        fits = p.ndim == 2 and labels.shape == p.shape[:1] and labels.dtype.kind in "iu" and np.isfinite(p).all()
    except (DamagedError, KeyError):
        fits = False
    if not fits:
        raise UsageError(f"{folder / PREDICTIONS} is missing or damaged; remove {folder} and train it again")
    return p, labels


def closing(folder: Path, seconds: float, finished: bool) -> str:
    """The last line of a training; `finished` if it was before this command began."""
    if finished:
        before = f"{folder} was finished before, after {duration(seconds)} of training"
        return f"nothing was trained: {before}.  To train again, choose another --out"
    return f"saved in {folder}, {duration(seconds)} of training"


def at_chance(error: float, classes: int, images: int) -> str:
    """A paragraph that says so where an error (percent, of this many images) is what guessing would give, else ""."""
    if not is_chance(error, classes, images):
        return ""
    guess = f"guessing among {classes} classes gives {100 * (1 - 1 / classes):.4g} %"
    remedy = "Train it longer, on more images, or with another learning rate"
    return f"\n\nAs far as {images:,} images can tell, this is chance level: {guess}.  {remedy}."


def fingerprint(indices: np.ndarray) -> dict[str, Any]:
    """Enough to notice when a run is resumed with other images."""
    digest = hashlib.sha256(np.ascontiguousarray(indices, dtype="<i8").tobytes()).hexdigest()
    return {"count": len(indices), "sha256": digest[:16]}
