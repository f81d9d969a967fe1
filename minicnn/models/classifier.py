"""A trained network together with what it takes to ask it about pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from minicnn.backend import CPU, Device, device_of
from minicnn.data.augment import CENTRE, TEN, Normaliser, check_images
from minicnn.data.decode import read_square
from minicnn.nn import Sequential
from minicnn.training import crop_probabilities

Prediction = list[tuple[str, float]]  # classes and their probabilities, the most probable first


@dataclass(frozen=True)
class Classifier:
    """What a network was trained with: it sees a picture only through these.

    model        the network
    normalise    with the mean and deviation of its training set
    classes      their names; the index is the label
    side         the central square of a picture is brought to side x side pixels
    crop         the network sees crop x crop of them: all where the two are equal, else the mean over ten crops
    """

    model: Sequential
    normalise: Normaliser
    classes: tuple[str, ...]
    side: int
    crop: int

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """What the network sees of a picture."""
        return (self.crop, self.crop, 3)

    @property
    def device(self) -> Device:
        """Where its weights are."""
        return next((device_of(value.data) for _, value in self.model.named_state()), CPU)

    def read(self, path: str | os.PathLike[str]) -> np.ndarray:
        """A picture from a file, turned upright, as (side, side, 3) uint8; ImageError if it cannot be used."""
        return read_square(os.fspath(path), self.side)

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """The softmax outputs (N, classes) for images (N, side, side, 3) of bytes."""
        check_images("Classifier", images, channels=3)
        if images.shape[1:3] != (self.side, self.side):
            raise ValueError(
                f"Classifier: images must have shape (N, {self.side}, {self.side}, 3), got {images.shape}; "
                "`read` makes such an image of a file"
            )
        if not len(images):
            return np.zeros((0, len(self.classes)), np.float32)
        crops = (CENTRE,) if self.crop == self.side else TEN
        return crop_probabilities(self.model, images, self.normalise, crops, self.crop, device=self.device)

    def predict(self, *paths: str | os.PathLike[str], count: int = 5) -> list[Prediction]:
        """For each file the `count` most probable classes."""
        for path in paths:
            if not isinstance(path, str | os.PathLike):
                raise TypeError(
                    f"predict: takes names of files, predict('a.jpg', 'b.jpg'), got {type(path).__name__}; arrays of "
                    "images are for `probabilities`"
                )
        images = np.array([self.read(path) for path in paths], np.uint8).reshape(-1, self.side, self.side, 3)
        return [self.best(p, count) for p in self.probabilities(images)]

    def best(self, p: np.ndarray, count: int = 5) -> Prediction:
        """The `count` most probable classes of softmax outputs p (classes,); of equal ones the first."""
        if count < 1:
            raise ValueError(f"best: count must be at least 1, got {count}")
        order = np.argsort(-p, kind="stable")[:count]
        return [(self.classes[i], float(p[i])) for i in order]
