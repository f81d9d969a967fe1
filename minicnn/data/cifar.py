"""CIFAR-10 and CIFAR-100: 50,000 training and 10,000 test images of 32 x 32 pixels.

    dataset = load("cifar10")                   # from the cache folder, else downloaded into it
    dataset = load("cifar100", data="~/data")   # from there, wherever it came from

The path of the bytes: `find` (or `download.fetch`) gives the version and the verified contents of its files,
`assemble` makes arrays of them.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np

from minicnn.data.archive import read_archive
from minicnn.data.cifar_files import CIFAR10, CIFAR100
from minicnn.data.dataset import DataError, Dataset
from minicnn.data.download import fetch, how_to_get
from minicnn.data.files import Contents, File, Source, Version, cache_folder, read_file, store
from minicnn.data.formats import SIDE

SOURCES = {source.name: source for source in (CIFAR10, CIFAR100)}


def load(name: str, data: str | os.PathLike[str] | None = None, *, download: bool = True) -> Dataset:
    """CIFAR-10 ("cifar10") or CIFAR-100 with its fine labels ("cifar100").

    data        a folder or an archive to read it from, in any form that is published: the binary version, the python
                version (torchvision makes such a folder), or an archive of either; then nothing is downloaded
    download    without `data`: whether to download what is not in the cache folder
    """
    if name not in SOURCES:
        raise ValueError(f"load: there is no {name!r}; choose from {', '.join(SOURCES)}")
    return load_source(SOURCES[name], data, download=download)


def load_source(source: Source, data: str | os.PathLike[str] | None = None, *, download: bool = True) -> Dataset:
    """`load` for any data set that is published in the form of CIFAR."""
    if data is not None:
        place = Path(os.path.expanduser(data))
        found = find(source, place)
        if found is None:
            raise DataError(_not_there(source, place))
        return assemble(source, *found)
    cache = cache_folder()
    found = find(source, cache, unpack=True)
    if found is None and not download:
        raise DataError(f"{source.name} is not in {cache}.\n{how_to_get(source, cache)}")
    return assemble(source, *(found or fetch(source, cache)))


def find(source: Source, place: Path, *, unpack: bool = False) -> tuple[Version, Contents] | None:
    """The version of a data set that is in a folder, or in an archive, and its verified files; None if there is none.

    unpack    store the files of an archive beside it, which makes the next time faster
    """
    if os.path.isfile(place):
        return read_archive(place, source)
    for version in source.versions:
        for folder in (place / version.folder, place):
            if not _missing(version, folder):
                return version, {file.name: read_file(folder / file.name, file) for file in version.files}
    for archive in (archive for version in source.versions for archive in version.archives):
        if os.path.isfile(place / archive.name):
            version, contents = read_archive(place / archive.name, source)
            if unpack:
                with contextlib.suppress(DataError):  # the data is at hand all the same
                    store(place / version.folder, contents)
            return version, contents
    return None


def _missing(version: Version, folder: Path) -> list[str]:
    return [file.name for file in version.files if not os.path.isfile(folder / file.name)]


def _not_there(source: Source, place: Path) -> str:
    if not os.path.exists(place):
        return f"{place}: there is no such file or folder"
    lines = [f"{place}: there is no {source.name} in it.  Name a folder with any of these, or one of these:"]
    lines.append(source.accepted())
    for version in source.versions:
        for folder in (place / version.folder, place):
            missing = _missing(version, folder)
            if len(missing) < len(version.files):
                lines.append(f"{folder} is incomplete: {', '.join(missing)} missing")
    lines.append("If none is named, minicnn looks in its cache folder, and downloads.")
    return "\n".join(lines)


def assemble(source: Source, version: Version, contents: Contents) -> Dataset:
    """Arrays of the contents of all files, which are taken out of `contents` one by one: both need memory."""
    train_images, train_labels = _join(source, version, version.train, contents)
    test_images, test_labels = _join(source, version, version.test, contents)
    return Dataset(source.name, source.classes, train_images, train_labels, test_images, test_labels)


def _join(
    source: Source, version: Version, files: tuple[File, ...], contents: Contents
) -> tuple[np.ndarray, np.ndarray]:
    count = sum(file.images for file in files)
    images = np.empty((count, SIDE, SIDE, 3), np.uint8)  # (N, 32, 32, 3)
    labels = np.empty(count, np.int64)  # (N,)
    start = 0
    for file in files:
        planes, some_labels = _parse(source, version, file, contents.pop(file.name))
        here = slice(start, start + file.images)
        for channel in range(3):  # three times as fast as transposing
            images[here, :, :, channel] = planes[:, channel]
        labels[here] = some_labels
        start = here.stop
    return images, labels


def _parse(source: Source, version: Version, file: File, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    try:
        planes, labels = version.format.parse(content)
    except DataError as error:
        raise DataError(f"{version.folder}/{file.name}: {error}") from error
    if len(planes) != file.images or labels.min() < 0 or labels.max() >= len(source.classes):
        raise DataError(
            f"{version.folder}/{file.name}: expected {file.images} images with labels below {len(source.classes)}, "
            f"got {len(planes)} with labels {labels.min()} to {labels.max()}"
        )
    return planes, labels
