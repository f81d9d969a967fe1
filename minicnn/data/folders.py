"""Data sets that are folders of pictures: ImageNet (ILSVRC 2012) as it is unpacked, or any with one folder per class.

    DIR/train/<class>/*.JPEG                     the name of a class is that of its folder, "n01440764"
    DIR/val/<class>/*.JPEG   or   DIR/val/*.JPEG and a file with the labels (ground_truth.py)
    DIR/<class>/*.jpg                            without train/; then, as without val/, every tenth file of a class,
                                                 in the order of names, is kept for validation

Labels are 0, 1, ... in the order of the names of the classes.  Files are chosen by the end of their name (decode.py
lists which); others are left out and listed, hidden ones are ignored.  Links are followed, but not in circles.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minicnn.data.dataset import DataError, Dataset
from minicnn.data.decode import SUFFIXES, printable, read_square
from minicnn.data.ground_truth import class_names, labels_of_flat

TRAIN, VALIDATION = "train", ("val", "validation")
KEPT = 10  # without a validation set, one file in this many is for validation


@dataclass(frozen=True)
class Pictures:
    """Files with labels: names relative to root, labels (N,) int64."""

    root: Path
    names: tuple[str, ...]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def path(self, i: int) -> str:
        return os.path.join(self.root, self.names[i])

    def take(self, indices: np.ndarray) -> Pictures:
        return Pictures(self.root, tuple(self.names[i] for i in indices), self.labels[indices])

    def fingerprint(self) -> dict[str, int | str]:
        """Enough to notice other files or labels; the place of the folder does not matter."""
        sha = hashlib.sha256(np.ascontiguousarray(self.labels, "<i8").tobytes())
        for name in self.names:
            sha.update(os.fsencode(name) + b"\0")
        return {"count": len(self), "sha256": sha.hexdigest()[:16]}


@dataclass(frozen=True)
class PictureSet:
    """classes: names of folders; readable: the same in words, if the data set has them; ignored: files left out."""

    classes: tuple[str, ...]
    readable: tuple[str, ...]
    train: Pictures
    validation: Pictures
    ignored: tuple[str, ...]


def picture_set(root: str | os.PathLike[str], labels: Path | None = None) -> PictureSet:
    """The data set in a folder.  labels: the file with those of a flat validation folder, if it has another name.

    Raises DataError if it is not a data set, or if its parts do not fit together.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise DataError(
            f"there is no folder {printable(root)}; a data set is a folder with train/<class>/ and val/ in it"
        )
    train_root = root / TRAIN if (root / TRAIN).is_dir() else root
    validation_root = next((root / name for name in VALIDATION if (root / name).is_dir()), None)
    ignored: list[str] = []
    classes = tuple(name for name in _folders(train_root) if train_root != root or name not in VALIDATION)
    if not classes:
        raise DataError(_without_classes(root, train_root))
    train = _by_class(train_root, classes, ignored)
    present = set(train.labels.tolist())
    if missing := [name for i, name in enumerate(classes) if i not in present]:
        raise DataError(
            f"no pictures in {_some(missing)} of {printable(train_root)}; remove such a folder, or fill it: "
            "every folder is a class"
        )
    by_class = validation_root is None or (bool(_folders(validation_root)) and not _is_flat(validation_root))
    if by_class and labels is not None:
        raise DataError(f"{printable(labels)} is for a flat val/, but {printable(root)} has none: leave it out")
    if validation_root is None:
        train, validation = _every_tenth(train)
    elif by_class:
        if unknown := sorted(set(_folders(validation_root)) - set(classes)):
            raise DataError(f"{printable(validation_root)} has classes that {train_root.name} lacks: {_some(unknown)}")
        validation = _by_class(validation_root, classes, ignored)
    else:
        names = tuple(_files(validation_root, "", ignored))
        validation = Pictures(validation_root, names, labels_of_flat(root, validation_root, names, classes, labels))
    if not len(validation):
        place = printable(root)
        remedy = f"give at least one class two pictures or more, or make {place}/val/ with folders of the same classes"
        if validation_root is not None:
            remedy = "fill it, or remove it: every tenth picture of a class is then kept for validation"
        raise DataError(f"{printable(validation_root or root)} has no pictures for validation; {remedy}")
    return PictureSet(classes, class_names(root, classes), train, validation, tuple(ignored))


def _without_classes(root: Path, train_root: Path) -> str:
    """Why there are none in it, and what to do."""
    place = printable(train_root)
    if any(root.rglob("*.tar")):
        return f"{place} has no folders of classes in it; unpack the archives in it first"
    if any(_files(train_root, "", [])):
        example = f"{place}/cat/, {place}/dog/"
        return f"{place} has pictures but no folders: put those of each class into a folder of their own, {example}"
    return f"{place} has no folders of classes in it; make one for each, and put its pictures there"


def small_images(root: str | os.PathLike[str], side: int = 32) -> Dataset:
    """The data set in a folder as arrays in memory: of every picture the central square, of side x side pixels.

    The validation pictures are its test set.  A file that cannot be read is an ImageError that names it.
    """
    if side < 1:
        raise ValueError(f"small_images: side must be positive, got {side}")
    found = picture_set(root)
    parts = []
    for pictures in (found.train, found.validation):
        squares = [read_square(pictures.path(i), side) for i in range(len(pictures))]
        parts += [np.stack(squares), pictures.labels]
    return Dataset(Path(root).name, found.readable, *parts)


def pictures_in(folder: str | os.PathLike[str]) -> list[str]:
    """The paths of all pictures in a folder and below it, sorted."""
    if not Path(folder).is_dir():
        raise DataError(f"there is no folder {printable(Path(folder))}")
    return [os.path.join(folder, name) for name in _files(Path(folder), "", [])]


def _is_flat(folder: Path) -> bool:
    """Whether a validation folder holds its pictures together: Tiny ImageNet has them in val/images."""
    return _folders(folder) == ["images"]


def _by_class(root: Path, classes: tuple[str, ...], ignored: list[str]) -> Pictures:
    """The pictures in root/<class>/, class by class; other files are added to `ignored`."""
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = list(_files(root, name, ignored)) if (root / name).is_dir() else []
        names += found
        labels += [label] * len(found)
    return Pictures(root, tuple(names), np.array(labels, np.int64))


def _every_tenth(pictures: Pictures) -> tuple[Pictures, Pictures]:
    """(for training, for validation); of a class with 2 to 9 files, the last one is for validation."""
    kept = np.zeros(len(pictures), bool)
    for label in np.unique(pictures.labels):
        at = np.flatnonzero(pictures.labels == label)
        kept[at[KEPT - 1 :: KEPT] if len(at) >= KEPT else at[1:][-1:]] = True
    return pictures.take(np.flatnonzero(~kept)), pictures.take(np.flatnonzero(kept))


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _files(root: Path, inside: str, ignored: list[str], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Names relative to root of the pictures in a folder and in those below it, sorted."""
    here = os.path.realpath(root / inside)
    if here in above:  # a link back to where we came from
        return
    with os.scandir(root / inside) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = os.path.join(inside, entry.name)
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(root, name, ignored, (*above, here))
        elif entry.name.lower().endswith(SUFFIXES):  # a link to nothing too: decoding will say so
            yield name
        else:
            ignored.append(os.path.join(root, name))


def _some(names: list[str]) -> str:
    """The first of these names, for a message."""
    shown = ", ".join(printable(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
