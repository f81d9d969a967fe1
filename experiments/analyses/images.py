"""The images that analyses look at: test images, or photographs for networks trained on ImageNet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.cli.app import UsageError, hint
from experiments.train.run import Run
from minicnn.data.augment import Normaliser
from minicnn.data.catalogue import load
from minicnn.data.dataset import Dataset
from minicnn.data.decode import ImageError, read_square
from minicnn.data.folders import pictures_in
from minicnn.random import Stream

MOST_PHOTOGRAPHS = 500  # read unless --subset says otherwise


def data_option(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--data",
        type=Path,
        help="folder or archive with the data set (default: the cache, else download); for ImageNet networks any "
        "folder with pictures",
    )


def images_of(runs: Sequence[Run], where: Path | None, most: int | None = None) -> Dataset:
    """The data set of the runs, which must share one; at most `most` photographs (default MOST_PHOTOGRAPHS)."""
    names = sorted({run.settings.dataset for run in runs})
    if len(names) > 1:
        raise UsageError(f"the runs are of different data sets ({', '.join(names)}); analyse one data set at a time")
    if not runs[0].settings.PHOTOGRAPHS:
        with hint("--data names a folder or an archive with the data set"):
            return load(names[0], where)
    sides = {run.settings.side for run in runs}
    if len(sides) > 1:
        raise UsageError("the runs use pictures of different sizes; analyse one size at a time")
    return photographs(where, sides.pop(), MOST_PHOTOGRAPHS if most is None else most)


def photographs(where: Path | None, side: int, most: int) -> Dataset:
    """Squares cut from up to `most` pictures of a folder, drawn at random; an ImageNet folder gives those in val/."""
    squares = []
    if most:
        if where is None:
            raise UsageError("--data DIR is needed: a folder with pictures")
        names = pictures_in(where / "val" if (where / "val").is_dir() else where)
        for i in np.sort(Stream(0).child("photographs").generator().permutation(len(names))[:most]):
            try:
                squares.append(read_square(names[i], side))
            except ImageError as error:
                print(f"left out: {error}", file=sys.stderr)
        if not squares:
            raise UsageError(f"{where} has no readable pictures; name another folder with --data")
    images = np.array(squares, np.uint8).reshape(-1, side, side, 3)
    none, labels = np.zeros((0, side, side, 3), np.uint8), np.zeros(len(images), np.int64)
    return Dataset("photographs", (), none, labels[:0], images, labels)


def sample(count: int, size: int) -> np.ndarray:
    """Indices of `count` out of `size` test images, drawn at random but the same each time."""
    if not 1 <= count <= size:
        raise UsageError(f"--subset must be in 1 .. {size}, got {count}")
    if count == size:
        return np.arange(size)
    return np.sort(Stream(0).child("analysis sample").generator().permutation(size)[:count])


def batches(images: np.ndarray, normalise: Normaliser, size: int) -> Iterator[np.ndarray]:
    """Normalised images, `size` at a time."""
    for start in range(0, len(images), size):
        yield normalise(images[start : start + size])
