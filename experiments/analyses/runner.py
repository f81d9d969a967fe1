"""What the analyses share: the images they look at, options, where results go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.cli.app import UsageError, argument_parser
from experiments.train.run import Run
from minicnn.data.augment import Normaliser
from minicnn.data.catalogue import load
from minicnn.data.dataset import Dataset
from minicnn.data.decode import ImageError, read_square
from minicnn.data.folders import pictures_in
from minicnn.random import Stream

PHOTOGRAPHS = 500  # that an analysis reads where it is not told how many


def images_of(runs: Sequence[Run], where: Path | None, most: int | None = None) -> Dataset:
    """The data set of all runs, which must be the same; of photographs at most so many (default PHOTOGRAPHS)."""
    names = sorted({run.settings.dataset for run in runs})
    if len(names) > 1:
        raise UsageError(f"the runs are of different data sets ({', '.join(names)}); analyse them one after the other")
    if names == ["imagenet"]:
        sides = {run.settings.side for run in runs}
        if len(sides) > 1:
            raise UsageError("the runs are of pictures of different sizes; analyse them one after the other")
        return photographs(where, sides.pop(), PHOTOGRAPHS if most is None else most)
    return load(runs[0].settings.dataset, where)


def photographs(where: Path | None, side: int, most: int) -> Dataset:
    """Squares of up to `most` pictures from any folder, drawn at random; of an ImageNet folder, from val/."""
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
            raise UsageError(f"{where} has no pictures that can be read")
    images = np.array(squares, np.uint8).reshape(-1, side, side, 3)
    none, labels = np.zeros((0, side, side, 3), np.uint8), np.zeros(len(images), np.int64)
    return Dataset("photographs", (), none, labels[:0], images, labels)


def sample(count: int, size: int) -> np.ndarray:
    """Indices of `count` test images drawn from `size`, the same each time; or all of them."""
    if not 1 <= count <= size:
        raise UsageError(f"--subset must be in 1 .. {size}, got {count}")
    if count == size:
        return np.arange(size)
    return np.sort(Stream(0).child("analysis sample").generator().permutation(size)[:count])


def parser(module: str, description: str | None, *, needs_run: bool = True) -> argparse.ArgumentParser:
    """The options that all analyses have."""
    p = argument_parser(module, description)
    p.add_argument(
        "--run",
        type=Path,
        action="extend",
        nargs="+",
        required=needs_run,
        default=None if needs_run else [],
        metavar="DIR",
        help="folders of finished runs; may be given several times",
    )
    p.add_argument("--out", type=Path, help=f"folder for results (default runs/{module.rpartition('.')[2]})")
    p.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu, gpu or gpu:N")
    p.add_argument("--dry-run", action="store_true", help="say what would be read, done and written, and stop")
    return p


def data_option(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--data",
        type=Path,
        help="folder or archive with the data set (default: the cache, else download); for ImageNet networks any "
        "folder with pictures",
    )


def out_folder(args: argparse.Namespace, module: str) -> Path:
    return args.out or Path("runs") / module.rpartition(".")[2]


def announce(args: argparse.Namespace, module: str, what: str, files: Sequence[str]) -> None:
    """What --dry-run prints: nothing is opened."""
    sources = [str(path) for path in [*args.run, *([args.weights] if getattr(args, "weights", None) else [])]]
    print(f"would read   {', '.join(sources)}")
    print(f"would do     {what}")
    print(f"would write  {', '.join(files)} in {out_folder(args, module)}")


def not_comparable(runs: Sequence[Run]) -> str:
    """The word on the paper's numbers: which runs they cannot be compared with, and why."""
    lines = [f"  {run.label}: {', '.join(run.reduced)}" for run in runs if run.reduced]
    if not lines:
        return ""
    return "\n".join(["The paper's numbers are not comparable with these reduced runs:", *dict.fromkeys(lines)])


def batches(images: np.ndarray, normalise: Normaliser, size: int) -> Iterator[np.ndarray]:
    """Normalised images, a batch at a time."""
    for start in range(0, len(images), size):
        yield normalise(images[start : start + size])
