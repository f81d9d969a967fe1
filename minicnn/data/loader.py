"""Batches of a training set, made ready while the network computes.

Everything random about an epoch (the order, the flips, the shifts) is drawn at its start from streams named by the seed
and the epoch.  Batch k of epoch e is therefore the same wherever one begins: a resumed run starts in the middle.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from minicnn.backend import Array
from minicnn.cluster import ALONE, Communicator
from minicnn.data.augment import Augmentation, Normaliser, check_images, check_labels, flip_and_shift
from minicnn.random import Stream

AHEAD = 3  # batches made ready in advance

Labelled = Generator[tuple[Array, Array], None, None]  # (images, labels), batch by batch


class BatchSource(Protocol):
    """What a Trainer trains on: epochs of batches that can be entered at any batch.  A batch may be empty.

    On many ranks each gets its own part of every batch; `batch` and the length are those of the whole.
    """

    @property
    def batch(self) -> int: ...

    def __len__(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0) -> Labelled: ...


@dataclass(frozen=True)
class Batches:
    """The training set in batches, shuffled and augmented anew in every epoch.

    images (N, H, W, C) uint8, labels (N,) integers.  The last batch of an epoch is smaller unless `batch` divides N.
    """

    images: np.ndarray
    labels: np.ndarray
    batch: int
    normalise: Normaliser
    augmentation: Augmentation
    seed: int
    cluster: Communicator = ALONE

    def __post_init__(self) -> None:
        check_images("Batches", self.images, channels=len(self.normalise.mean))
        check_labels("Batches", self.labels, len(self.images))
        if self.batch < 1:
            raise ValueError(f"Batches: the batch size must be at least 1, got {self.batch}")
        most = min(self.images.shape[1:3]) - 1
        if self.augmentation.reflect and self.augmentation.shift > most:
            raise ValueError(
                f"Batches: images of {self.images.shape[1:3]} have no {self.augmentation.shift} pixels inside of an "
                f"edge to mirror; shift them by at most {most}, or without reflect"
            )

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.images) // self.batch)

    def epoch(self, epoch: int, start: int = 0) -> Labelled:
        """(x float32, labels) of the batches start, start + 1, ... of an epoch, made in another thread."""
        return ahead(self._make(epoch, start), AHEAD)

    def draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What is random about an epoch: the order of the images (N,), and in that order flips (N,), shifts (N, 2)."""
        n, stream = len(self.images), Stream(self.seed).at(epoch)
        order = stream.child("shuffle").generator().permutation(n)
        flips, shifts = self.augmentation.draw(n, stream.child("augment"))
        if self.augmentation.flip and self.augmentation.alternate:
            first = Stream(self.seed).child("alternate").generator().integers(0, 2, n).astype(bool)
            flips = first[order] ^ bool(epoch % 2)
        return order, flips, shifts

    def share(self, k: int) -> slice:
        """This rank's part of batch k, as positions in the order of an epoch."""
        return self.cluster.shard(k * self.batch, min(len(self.images), (k + 1) * self.batch))

    def _make(self, epoch: int, start: int) -> Labelled:
        order, flips, shifts = self.draw(epoch)
        for k in range(start, len(self)):
            at = self.share(k)
            chosen = order[at]
            x = self.normalise(self.images[chosen])
            x = flip_and_shift(x, flips[at], shifts[at], reflect=self.augmentation.reflect)
            yield x, self.labels[chosen]


def ahead(items: Generator[Any, None, None], count: int) -> Generator[Any, None, None]:
    """The same items, computed in another thread up to `count` in advance.

    An error there is raised here.  When the consumer stops early, so does the thread.
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=count)
    stopped = threading.Event()

    def offer(kind: str, value: Any) -> bool:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not offer("item", item):
                    return
            offer("end", None)
        except BaseException as error:
            offer("error", error)
        finally:
            items.close()  # here, not whenever it is collected: it may hold processes

    thread = threading.Thread(target=produce, name="batches ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stopped.set()
        thread.join()
