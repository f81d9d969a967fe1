"""Pictures of textures with the layout of ImageNet, for scales without ImageNet.  Results on them prove nothing."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from minicnn.checkpoint import atomic_write
from minicnn.data.textures import textures

TRAIN, VALIDATION = 200, 60  # pictures
SIZES = (48, 96)  # of sides, in pixels: from, to


def write_pictures(folder: Path, train: int, validation: int) -> None:
    """train/<class>/*.JPEG and val/<class>/*.JPEG; the folder gets its name only when all are written."""
    from PIL import Image

    data, unfinished = textures(train, validation), folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    rng = np.random.default_rng(0)
    parts = {"train": (data.train_images, data.train_labels), "val": (data.test_images, data.test_labels)}
    for part, (images, labels) in parts.items():
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            place = unfinished / part / data.classes[label].replace(" ", "-")
            place.mkdir(parents=True, exist_ok=True)
            width, height = (int(side) for side in rng.integers(*SIZES, 2))
            large = Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC)
            atomic_write(place / f"{i:05d}.JPEG", partial(large.save, format="JPEG", quality=90))
    unfinished.rename(folder)
