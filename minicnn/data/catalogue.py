"""The data sets of small images, by name.  To add one, write a function that gives a `Dataset`, and list it here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from minicnn.data.dataset import Dataset

Place = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded: how many classes and images it has, and how to get it."""

    classes: int
    train: int
    test: int
    load: Callable[[Place], Dataset]


def _cifar(name: str) -> Callable[[Place], Dataset]:
    def load(where: Place) -> Dataset:
        from minicnn.data import cifar  # here: it brings what downloads need

        return cifar.load(name, where)

    return load


def _textures(where: Place) -> Dataset:
    from minicnn.data.textures import textures

    return textures(seed=0)


CATALOGUE: dict[str, Entry] = {
    "cifar10": Entry(10, 50_000, 10_000, _cifar("cifar10")),
    "cifar100": Entry(100, 50_000, 10_000, _cifar("cifar100")),
    "textures": Entry(10, 5_000, 1_000, _textures),
}


def load(name: str, where: Place = None) -> Dataset:
    """The data set of this name: from the folder or archive `where`, or else from the cache or a download."""
    if name not in CATALOGUE:
        raise ValueError(f"load: there is no {name!r}; choose from {', '.join(CATALOGUE)}")
    return CATALOGUE[name].load(where)
