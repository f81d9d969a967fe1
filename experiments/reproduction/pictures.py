"""Small folders of pictures with the layout of ImageNet, for machines without ImageNet.

Pictures of textures are made by formulas, and results on them prove nothing.  Pieces of photographs are real, and a few
photographs are at hand on most machines; a class is then one photograph.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minicnn.checkpoint import atomic_write
from minicnn.data.decode import ImageError, read_whole
from minicnn.data.textures import textures

TRAIN, VALIDATION = 200, 60  # pictures
SIZES = (48, 96)  # of sides of textures, in pixels: from, to
LONGEST = 1024  # pixels of a photograph's longer side, before it is cut
SHARE = 0.7  # of a photograph's width, from the left: its training pieces are taken there, the others right of it
SMALLEST = 32  # pixels of its sides
PIECE = (0.5, 1.0)  # side of a piece, as a share of the largest that fits: from, to


class Picture(NamedTuple):
    part: str  # train or val
    label: str
    image: Any  # Pillow's


def of_textures(train: int, validation: int) -> Iterator[Picture]:
    """Textures of ten classes, each picture with its own width and height."""
    from PIL import Image

    data, rng = textures(train, validation), np.random.default_rng(0)
    parts = {"train": (data.train_images, data.train_labels), "val": (data.test_images, data.test_labels)}
    for part, (images, labels) in parts.items():
        for image, label in zip(images, labels, strict=True):
            width, height = (int(side) for side in rng.integers(*SIZES, 2))
            large = Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC)
            yield Picture(part, data.classes[label].replace(" ", "-"), large)


def of_photographs(photographs: Sequence[Path], train: int, validation: int) -> Iterator[Picture]:
    """Squares from anywhere in the left part of each photograph to train on, and of the right part to judge by.

    No pixel is in both, so a network must recognise a photograph by what it shows and not by the piece itself.
    """
    from PIL import Image

    rng = np.random.default_rng(0)
    for i, path in enumerate(photographs):
        whole = read_whole(path, LONGEST)
        if min(whole.shape[:2]) < SMALLEST:
            raise ImageError(path, f"too small to cut into pieces: a side has fewer than {SMALLEST} pixels")
        border = round(SHARE * whole.shape[1])
        for part, total, pixels in (("train", train, whole[:, :border]), ("val", validation, whole[:, border:])):
            for _ in range(len(range(i, total, len(photographs)))):  # the total, dealt out to the photographs
                side = round(min(pixels.shape[:2]) * rng.uniform(*PIECE))
                top, left = (int(rng.integers(0, size - side + 1)) for size in pixels.shape[:2])
                piece = pixels[top : top + side, left : left + side]
                yield Picture(part, path.stem, Image.fromarray(piece))


def write_pictures(folder: Path, pictures: Iterator[Picture]) -> None:
    """train/<class>/*.JPEG and val/<class>/*.JPEG; the folder gets its name only when all are written."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for i, (part, label, image) in enumerate(pictures):
        place = unfinished / part / label
        place.mkdir(parents=True, exist_ok=True)
        atomic_write(place / f"{i:05d}.JPEG", partial(image.save, format="JPEG", quality=90))
    unfinished.rename(folder)
