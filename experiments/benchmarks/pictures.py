"""How fast pictures are read: the ImageNet pipeline beside a bare loop of Pillow (for experiments.pipeline)."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import numpy as np

from minicnn.data.colour import Colours
from minicnn.data.decode import View, decode
from minicnn.data.folders import Pictures
from minicnn.data.photographs import BadImages, PhotoBatches
from minicnn.data.workers import Decoders

SIDE, CROP, BATCH = 256, 224, 64
DIFFERENT = 50  # generated pictures; the others are further names of the same files


def generate(folder: Path) -> Path:
    """JPEGs of 500x375 pixels and about 100 kB, as photographs have."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(DIFFERENT):
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int64)
        pixels = np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg", quality=90)
    return folder


def measure(paths: list[str], workers: int, rounds: int) -> dict[str, list[float]]:
    """Pictures per second, one number per round."""
    found: dict[str, list[float]] = {"bare decode and resize": [], "pipeline": []}
    colours = Colours.of(decode(View(path, SIDE), SIDE) for path in paths[:10])
    pictures = Pictures(Path(), tuple(paths), np.zeros(len(paths), np.int64))
    context = multiprocessing.get_context("spawn")
    with Decoders(workers, SIDE) as decoders, context.Pool(workers) as pool:
        batches = PhotoBatches(pictures, BATCH, CROP, colours, decoders, BadImages(), seed=0)
        parts = [paths[i::workers] for i in range(workers)]
        for number in range(rounds + 1):
            marks = [time.perf_counter()]
            pool.map(bare_loop, parts, chunksize=1)
            marks.append(time.perf_counter())
            for _ in batches.epoch(number):
                pass
            marks.append(time.perf_counter())
            if number:  # the first round warms up
                for speeds, seconds in zip(found.values(), np.diff(marks).tolist(), strict=True):
                    speeds.append(len(paths) / seconds)
    return found


def bare_loop(paths: list[str]) -> None:
    from PIL import Image

    for path in paths:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
        scale = SIDE / min(rgb.size)
        rgb.resize((round(scale * rgb.width), round(scale * rgb.height)), Image.Resampling.BILINEAR)
