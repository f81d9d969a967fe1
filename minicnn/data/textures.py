"""Textures: a data set made by formulas, so that everything runs offline.

For smoke runs and teaching only.  It says nothing about the paper: results on it are never shown as evidence.

Ten classes of 32x32 colour images, each with random colours, phase, scale, contrast and noise:

    horizontal, vertical and diagonal stripes, checks, dots, rings, rays, a plaid, a gradient, noise

An image is low + (high - low) * pattern + noise, where pattern is a function of the position with values in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minicnn.data.dataset import Dataset
from minicnn.random import Stream

SIZE = 32
BLOCK = 500  # images drawn together, from one stream
Pattern = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]

# u, v: position in periods, (n, 32, 32), with a random origin; angle and noise: for those that want them
PATTERNS: dict[str, Pattern] = {
    "horizontal stripes": lambda u, v, angle, noise: _wave(v),
    "vertical stripes": lambda u, v, angle, noise: _wave(u),
    "diagonal stripes": lambda u, v, angle, noise: _wave((u + np.sign(angle) * v) / np.sqrt(2)),
    "checks": lambda u, v, angle, noise: (np.floor(2 * u) + np.floor(2 * v)) % 2,
    "dots": lambda u, v, angle, noise: (_wave(u) * _wave(v) > 0.6).astype(float),
    "rings": lambda u, v, angle, noise: _wave(
        np.hypot(u - u.mean((1, 2), keepdims=True), v - v.mean((1, 2), keepdims=True))
    ),
    "rays": lambda u, v, angle, noise: _wave(
        np.arctan2(v - v.mean((1, 2), keepdims=True), u - u.mean((1, 2), keepdims=True)) * 3 / np.pi + angle
    ),
    "plaid": lambda u, v, angle, noise: (_wave(u) + _wave(v)) / 2,
    "gradient": lambda u, v, angle, noise: _to_unit(np.cos(np.pi * angle) * u + np.sin(np.pi * angle) * v),
    "noise": lambda u, v, angle, noise: _to_unit(noise),
}


def _wave(t: np.ndarray) -> np.ndarray:
    """A sine between 0 and 1, one period per unit."""
    return (1 + np.sin(2 * np.pi * t)) / 2


def _to_unit(t: np.ndarray) -> np.ndarray:
    """Each image stretched to [0, 1]."""
    low, high = t.min((1, 2), keepdims=True), t.max((1, 2), keepdims=True)
    return (t - low) / (high - low)


def textures(train: int = 5000, test: int = 1000, *, seed: int = 0) -> Dataset:
    """A data set of `train` + `test` images; image i depends on the seed, its split and i alone."""
    if train < 1 or test < 1:
        raise ValueError(f"textures: needs at least one image in each split, got {train} and {test}")
    return Dataset("textures", tuple(PATTERNS), *_split(train, seed, "train"), *_split(test, seed, "test"))


def _split(n: int, seed: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    stream = Stream(seed).child("textures", split)
    blocks = [_block(stream.at(block)) for block in range(-(-n // BLOCK))]
    images, labels = (np.concatenate(arrays)[:n] for arrays in zip(*blocks, strict=True))
    return images, labels


def _block(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """BLOCK images (BLOCK, 32, 32, 3) uint8 and their labels, equally many of each class."""
    rng = stream.generator()
    labels = rng.permutation(np.arange(BLOCK) % len(PATTERNS))
    column, row = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    period = rng.uniform(5, 12, (BLOCK, 1, 1))
    u, v = (axis / period + rng.uniform(0, 1, (BLOCK, 1, 1)) for axis in (column, row))
    angle, noise = rng.uniform(-1, 1, (BLOCK, 1, 1)), rng.uniform(0, 1, (BLOCK, SIZE, SIZE))
    pattern = np.empty((BLOCK, SIZE, SIZE))
    for label, draw in enumerate(PATTERNS.values()):
        of_class = labels == label
        pattern[of_class] = draw(u[of_class], v[of_class], angle[of_class], noise[of_class])
    low, high = rng.uniform(0, 1, (2, BLOCK, 1, 1, 3))
    images = low + (high - low) * pattern[..., None] + rng.normal(0, 0.08, (BLOCK, SIZE, SIZE, 3))
    return (255 * np.clip(images, 0, 1)).round().astype(np.uint8), labels.astype(np.int64)
