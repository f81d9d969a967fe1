"""The colours of a training set: mean and deviation of each channel, and the principal components of RGB values.

Krizhevsky et al. 2012 add to every pixel of a training image, drawn once for each image and use,

    sum_i  alpha_i lambda_i p_i        alpha_i ~ N(0, 0.1)

where lambda_i and p_i (i = 1, 2, 3) are the eigenvalues and unit eigenvectors of the covariance of RGB values.  The
formula depends on their unit: with values in 0 .. 1, as here and elsewhere, lambda_1 is about 0.2 for
photographs and the noise about 0.02; in 0 .. 255 it would be larger than any pixel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minicnn.data.augment import Normaliser
from minicnn.data.dataset import DataError

ALPHA = 0.1  # the deviation of alpha


@dataclass(frozen=True)
class Colours:
    """For pixel values in 0 .. 1.  The largest eigenvalue is first; components[i] is p_i, its largest entry > 0."""

    images: int  # how many these were computed from
    mean: tuple[float, ...]
    std: tuple[float, ...]
    eigenvalues: tuple[float, ...]
    components: tuple[tuple[float, ...], ...]

    @staticmethod
    def of(pictures: Iterable[np.ndarray]) -> Colours:
        """The colours of uint8 images (H, W, 3); exact, since all sums are of integers."""
        images, pixels = 0, 0
        first, second = np.zeros(3), np.zeros((3, 3))  # integers below 2^53: exact up to 10^11 pixels
        for picture in pictures:
            values = picture.reshape(-1, 3).astype(np.float64)
            first += values.sum(axis=0)
            second += values.T @ values
            images, pixels = images + 1, pixels + len(values)
        if not pixels:
            raise DataError("no picture of the training set could be read, so there is no mean of its colours")
        mean = first / pixels / 255
        covariance = second / pixels / 255**2 - np.outer(mean, mean)
        std = np.sqrt(np.maximum(np.diag(covariance), 0))
        if not (std > 1e-6).all():
            raise DataError("a colour is the same in all pixels of the training set; it cannot be normalised")
        eigenvalues, vectors = np.linalg.eigh(covariance)  # the smallest first
        components = vectors.T[::-1]
        components = components * np.sign(components[np.arange(3), np.abs(components).argmax(axis=1)])[:, None]
        return Colours(
            images,
            tuple(mean.tolist()),
            tuple(std.tolist()),
            tuple(np.maximum(eigenvalues[::-1], 0).tolist()),
            tuple(tuple(row) for row in components.tolist()),
        )

    @property
    def normaliser(self) -> Normaliser:
        return Normaliser(self.mean, self.std)

    def noise(self, alpha: np.ndarray) -> np.ndarray:
        """What is added to each channel of each image, (n, 3), for alpha (n, 3)."""
        return (alpha * np.array(self.eigenvalues)) @ np.array(self.components)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(stored: Any) -> Colours:
        """What `as_json` wrote; ValueError, KeyError or TypeError if it is anything else."""
        values = {name: np.array(stored[name], np.float64) for name in ("mean", "std", "eigenvalues", "components")}
        for name, array in values.items():
            if array.shape != ((3, 3) if name == "components" else (3,)) or not np.isfinite(array).all():
                raise ValueError(f"{name} are not those of three colours: {stored[name]!r}")
        if not isinstance(stored["images"], int):
            raise ValueError(f"images must be an integer, got {stored['images']!r}")
        components = tuple(tuple(row) for row in values.pop("components").tolist())
        rest = {name: tuple(array.tolist()) for name, array in values.items()}
        Normaliser(rest["mean"], rest["std"])  # raises if nothing can be normalised by them
        return Colours(images=stored["images"], components=components, **rest)
