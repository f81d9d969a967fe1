"""The two forms of CIFAR's files: bytes in, images and labels out, without a copy.

Both store an image as three planes of 32 x 32 bytes: all of red, then green, then blue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minicnn.data.dataset import DataError
from minicnn.data.pickled import Bytes, loads

SIDE = 32
PIXELS = 3 * SIDE * SIDE

Planes = tuple[np.ndarray, np.ndarray]  # images (n, 3, 32, 32) uint8, labels (n,) of integers


@dataclass(frozen=True)
class Binary:
    """Records of `label_bytes` labels and 3072 pixels.  CIFAR-100 has two labels, coarse and fine: we use the last."""

    label_bytes: int

    def parse(self, content: bytes) -> Planes:
        record = self.label_bytes + PIXELS
        if not content or len(content) % record:
            raise DataError(f"{len(content):,} bytes are not records of {record:,}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, record)  # (n, record)
        return rows[:, self.label_bytes :].reshape(-1, 3, SIDE, SIDE), rows[:, self.label_bytes - 1]


@dataclass(frozen=True)
class Pickled:
    """A pickled dictionary with the pixels under b"data" and a list of labels under `label_key`."""

    label_key: bytes

    def parse(self, content: bytes) -> Planes:
        batch = loads(content)
        if type(batch) is not dict:
            raise DataError("the pickle is not a dictionary")
        pixels, labels = batch.get(b"data"), batch.get(self.label_key)
        if not isinstance(pixels, Bytes) or pixels.columns != PIXELS:
            raise DataError(f"the pickle has no 'data' of shape (n, {PIXELS})")
        if type(labels) is not list or len(labels) != pixels.rows or not all(type(label) is int for label in labels):
            raise DataError(f"the pickle has no {self.label_key.decode()!r} with {pixels.rows} integers")
        return np.frombuffer(pixels.values, np.uint8).reshape(-1, 3, SIDE, SIDE), np.array(labels, np.int64)
