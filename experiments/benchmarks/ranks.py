"""What a training step costs on many ranks, and how much of it is communication (for experiments.scaling)."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from experiments.train.cifar import CifarSettings
from minicnn.backend import Device
from minicnn.cluster import Communicator, T
from minicnn.data.augment import Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.training import Trainer

WARM_UP = 3  # steps that are not counted
DIFFERENT = 500  # images; they are used again and again


class Watched(Communicator):
    """A communicator that counts the seconds spent in it."""

    def __init__(self, inner: Communicator):
        self.inner, self.seconds = inner, 0.0
        self.rank, self.size = inner.rank, inner.size
        self.local_rank, self.local_size = inner.local_rank, inner.local_size

    def _timed(self, work: Callable[..., T], *arguments: object) -> T:
        start = time.perf_counter()
        result = work(*arguments)
        self.seconds += time.perf_counter() - start
        return result

    def gather(self, value: T) -> list[T]:
        return self._timed(self.inner.gather, value)

    def gather_number(self, number: int) -> list[int]:
        return self._timed(self.inner.gather_number, number)

    def sum(self, array: np.ndarray) -> np.ndarray:
        return self._timed(self.inner.sum, array)

    def on_root(self, work: Callable[[], T]) -> T:
        return self._timed(self.inner.on_root, work)


def seconds_per_step(asked: CifarSettings, steps: int, device: Device, cluster: Communicator) -> tuple[float, float]:
    """Seconds of a step of this rank, and of the communication within it: medians over the steps."""
    watched, data = Watched(cluster), textures(DIFFERENT, 10)
    chosen = np.arange((WARM_UP + steps) * asked.batch) % DIFFERENT
    batches = Batches(
        data.train_images[chosen],
        data.train_labels[chosen],
        asked.batch,
        Normaliser.of(data.train_images),
        asked.augmentation(),
        asked.seed,
        watched,
    )
    model = asked.build_model().to(device)
    optimiser = asked.build_optimiser(model, len(batches))
    trainer = Trainer(model, optimiser, batches, device=device, seed=asked.seed, cluster=watched)
    marks: list[tuple[float, float]] = []

    def mark() -> bool:
        """Called after every step."""
        device.synchronize()
        marks.append((time.perf_counter(), watched.seconds))
        return False

    trainer.finish_epoch(stop=mark)
    between = np.diff(marks[WARM_UP - 1 :], axis=0)  # (steps, 2)
    return median(between[:, 0].tolist()), median(between[:, 1].tolist())
