"""Ideas that the recipe `hour` does without: another way to train, which the ablation measures like any other change.

average        the network that counts has averages of the weights
growing        images are small at first, which makes room for more epochs
standardised   every filter behind an activation is given by its direction and its norm, both learned
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.train.arrays import ArrayJob, ArraySession
from experiments.train.session import Session
from minicnn import nn, ops
from minicnn.backend import Array, Device, array_module
from minicnn.cluster import Communicator
from minicnn.data.loader import BatchSource, Labelled
from minicnn.nn.module import Train
from minicnn.random import Stream
from minicnn.tensor import Parameter, Tensor

DECAY = 0.99  # of the average, per step
SMALL, MIDDLE = 24, 28  # pixels, for images of 32


class Averaged(ArraySession):
    """Trains as ever; what is evaluated, and kept, is an average of the weights (minicnn/nn/average.py)."""

    def __init__(self, job: ArrayJob, device: Device, cluster: Communicator):
        super().__init__(job, device, cluster)
        self.trainer.average = self.average = nn.EMA(self.model, DECAY)

    def measure_epoch(self) -> tuple[dict[str, Any], str]:
        with self.average.applied():
            return super().measure_epoch()

    def evaluate_all(self) -> dict[str, Any]:
        with self.average.applied():
            return super().evaluate_all()


class Growing(ArraySession):
    """Trains on small images at first; they are evaluated in their own size.  Networks must end in a global mean."""

    def __init__(self, job: ArrayJob, device: Device, cluster: Communicator):
        super().__init__(job, device, cluster)
        self.trainer.batches = GrowingBatches(self.trainer.batches, self.settings.epochs)


@dataclass(frozen=True)
class GrowingBatches:
    """The same batches, with a side of SMALL pixels in half of the epochs, of MIDDLE in a quarter, then their own.

    For images of 32 pixels that is 0.72 of the work, so a third more epochs take as long.
    """

    source: BatchSource
    epochs: int

    @property
    def batch(self) -> int:
        return self.source.batch

    def __len__(self) -> int:
        return len(self.source)

    def side(self, epoch: int) -> int | None:
        """In an epoch (0, 1, ...); None for the images' own."""
        done = epoch / self.epochs
        return SMALL if done < 1 / 2 else MIDDLE if done < 3 / 4 else None

    def epoch(self, epoch: int, start: int = 0) -> Labelled:
        side = self.side(epoch)
        with closing(self.source.epoch(epoch, start)) as batches:
            for x, labels in batches:
                yield (x if side is None else resized(x, side)), labels


def resized(x: Array, side: int) -> Array:
    """Images x (n, H, W, C) with side x side pixels: y = A x B^T for each channel, with A and B from `means`."""
    xp = array_module(x)
    down, across = (xp.asarray(means(size, side)) for size in x.shape[1:3])
    n, h, w, c = x.shape
    rows = (down @ x.reshape(n, h, w * c)).reshape(n * side, w, c)
    return (across @ rows).reshape(n, side, side, c)


def means(size: int, side: int) -> np.ndarray:
    """Of `size` pixels in a row to `side` fewer: (side, size) weights, the shares of each old pixel in a new one."""
    edges = np.linspace(0, size, side + 1)
    left, right = np.maximum(edges[:-1, None], np.arange(size)), np.minimum(edges[1:, None], np.arange(1, size + 1))
    return (np.maximum(right - left, 0) * side / size).astype(np.float32)


class Standardised(ArraySession):
    """Filters behind an activation are standardised, and scaled by numbers that are learned.

    The network can be turned into the paper's: its filters are those that `StandardisedConv2d` computes.
    """

    def build_model(self) -> nn.Sequential:
        layers = dict(super().build_model().children())
        first, *_, last = [name for name, layer in layers.items() if isinstance(layer, nn.Conv2d)]
        for name, layer in layers.items():
            if isinstance(layer, nn.Conv2d) and name not in (first, last):
                layers[name] = StandardisedConv2d(layer)
        return nn.Sequential(**layers)


class StandardisedConv2d(nn.Module):
    """A convolution by gain (v - mean v) / |v - mean v|, filter by filter: v, gain and bias are learned.

    It starts with the filters of `conv` if their means are 0.  This is scaled weight standardisation (Brock et al.
    2021), but for the size of the gains at the start.
    """

    def __init__(self, conv: nn.Conv2d):
        self.conv = conv
        self.gain = Parameter(_norms(conv.weight).data)

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        conv, v = self.conv, self.conv.weight
        centred = v - v.mean(axis=(0, 1, 2))
        w = centred * (self.gain / _norms(centred))
        return ops.conv2d(x, w, conv.bias, stride=conv.stride, pad=conv.pad)


def _norms(v: Tensor) -> Tensor:
    """Of filters (k, k, C, F): (F,)."""
    return (v * v).sum(axis=(0, 1, 2)) ** 0.5


IDEAS: dict[str, type[ArraySession]] = {"average": Averaged, "growing": Growing, "standardised": Standardised}


@dataclass(frozen=True)
class IdeaJob(ArrayJob):
    """A training in another way, by its name in IDEAS."""

    idea: str = ""

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"idea": self.idea}

    def begin(self, device: Device, cluster: Communicator) -> Session:
        return IDEAS[self.idea](self, device, cluster)
