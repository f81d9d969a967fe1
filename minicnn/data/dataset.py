"""What every data set gives, and the error that says why it could not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class DataError(RuntimeError):
    """Data is missing, damaged or cannot be stored.  The message says which file, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """Labelled images, split into a training and a test set.

    name            "cifar10"
    classes         names of the classes; the index is the label
    train_images    (N, H, W, 3) uint8, 32x32 in those of the catalogue
    train_labels    (N,) int64
    test_images, test_labels    the same for the test set
    """

    name: str
    classes: tuple[str, ...]
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
