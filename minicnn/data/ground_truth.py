"""What ImageNet says besides its pictures: the labels of a flat validation folder, and what the classes are called.

Labels are found in the folder of the data set, in val/, or in the development kit unpacked beside them:

    ILSVRC2012_validation_ground_truth.txt   one number per line, for the files in the order of their names, as in
                                             meta.mat of the development kit, which must be there too
    LOC_val_solution.csv                     Kaggle: ILSVRC2012_val_00000001,n01751748 111 108 472 249
    val.txt, val_annotations.txt             one file and its class per line; the class by name, or by number from 0

Names of classes: synset_words.txt, LOC_synset_mapping.txt, words.txt ("n01440764 tench, Tinca tinca"), or meta.mat.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minicnn.data.dataset import DataError
from minicnn.data.decode import printable

BY_NUMBER = "ILSVRC2012_validation_ground_truth.txt"
LABELS = ("LOC_val_solution.csv", "val.txt", "val_annotations.txt", BY_NUMBER)
WORDS = ("synset_words.txt", "LOC_synset_mapping.txt", "words.txt")
KITS = ("", "val", "data", "devkit/data", "ILSVRC2012_devkit_t12/data", "ILSVRC2012_devkit_t12")


def labels_of_flat(
    root: Path, folder: Path, names: Sequence[str], classes: Sequence[str], given: Path | None
) -> np.ndarray:
    """(N,) int64 for the files of a flat folder."""
    path = given or _find(root, LABELS)
    if path is None:
        raise DataError(
            f"{printable(folder)} holds pictures without folders of classes, and no file with their labels "
            f"({', '.join(LABELS)}) was found; name that file"
        )
    number = {name: i for i, name in enumerate(classes)}
    lines = [line.split() for line in path.read_text(errors="surrogateescape").replace(",", " ").splitlines()]
    lines = [line for line in lines if line and line[0] != "ImageId"]
    if all(len(line) == 1 for line in lines):
        if len(lines) != len(names):
            raise DataError(f"{printable(path)} has {len(lines)} labels for {len(names)} files in {printable(folder)}")
        wnids = {str(int(row[0])): str(row[1]) for row in _synsets(root, path)}
        found = {name: wnids.get(line[0], line[0]) for name, line in zip(names, lines, strict=True)}
    else:
        found = {_stem(line[0]): line[1] for line in lines if len(line) > 1}
        found = {name: found[_stem(name)] for name in names if _stem(name) in found}
    if missing := [name for name in names if name not in found]:
        raise DataError(f"{printable(path)} has no label for {len(missing)} files, {printable(missing[0])} the first")
    labels = np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        label = number.get(found[name])
        if label is None and re.fullmatch("[0-9]{1,9}", found[name]) and int(found[name]) < len(classes):
            label = int(found[name])
        if label is None:
            raise DataError(f"{printable(path)}: {found[name]!r}, of {printable(name)}, is not a class of train")
        labels[i] = label
    return labels


def class_names(root: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """What the classes are called in words; their own names where nothing says it."""
    path = _find(root, WORDS)
    words: dict[str, str] = {}
    if path is not None:
        for line in path.read_text(errors="replace").splitlines():
            wnid, _, text = line.strip().replace("\t", " ").partition(" ")
            words[wnid] = text.strip()
    elif _find(root, ("meta.mat",)) is not None:
        words = {str(row[1]): str(row[2]) for row in _synsets(root, None)}
    return tuple(words.get(name) or name for name in classes)


def _synsets(root: Path, beside: Path | None) -> Iterator[Any]:
    """The rows (number, wnid, words, ...) of the classes in the development kit's meta.mat."""
    near = beside.parent / "meta.mat" if beside is not None else None
    path = near if near is not None and near.is_file() else _find(root, ("meta.mat",))
    if path is None:
        raise DataError(f"{printable(beside or root)} numbers the classes as meta.mat does, which was not found")
    from scipy.io import loadmat

    try:
        rows = np.atleast_1d(loadmat(path, squeeze_me=True)["synsets"])
        yield from (row for row in rows if int(row[4]) == 0)  # children: only the leaves are classes
    except Exception as error:
        raise DataError(f"{printable(path)} is not the meta.mat of ILSVRC 2012 ({error})") from None


def _stem(name: str) -> str:
    """Names of the validation files are unique without folder and suffix; Kaggle leaves the suffix out."""
    return os.path.splitext(os.path.basename(name))[0]


def _find(root: Path, names: Sequence[str]) -> Path | None:
    places = (root / kit / name for name in names for kit in KITS)
    return next((path for path in places if path.is_file()), None)
