"""The networks that experiments.bench compares, each with a batch of noise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from minicnn import models, nn


@dataclass(frozen=True)
class Network:
    """A network, the side of the images it takes and how many classes it tells apart.

    batch      images per training step
    batches    images per inference: one who waits, and a few or many images at once
    """

    build: Callable[[], nn.Sequential]
    side: int = 32
    classes: int = 10
    batch: int = 128
    batches: tuple[int, ...] = (1, 8, 32, 128)


photographs = partial(Network, side=224, classes=1000, batch=16, batches=(16,))
MODELS: dict[str, Network] = {
    "convpool": Network(lambda: models.convpool("relu")),
    "convpool-double": Network(lambda: models.convpool("relu", "double")),
    "crelu": Network(lambda: models.convpool("crelu")),
    "crelu-half": Network(lambda: models.convpool("crelu", "half")),
    "vgg": Network(lambda: models.vgg("relu", ())),
    "vgg-crelu": Network(lambda: models.vgg("crelu", (1, 3, 5))),
    "sprint": Network(lambda: models.sprint(), batch=500, batches=(500,)),
    "allcnn": photographs(lambda: models.allcnn_b()),
    "allcnn-crelu": photographs(lambda: models.allcnn_b("crelu-conv1-4")),
}
LARGEST_BATCH = 2**16  # below, a batch that does not fit is reported as out of memory; above, NumPy fails on its shape
SGD_OPTIONS: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}
PROBED = 16  # images whose logits are compared with those in float64


class NetworkCase:
    """A network with a batch: a contender makes a training step (loss, gradients, SGD), or computes the logits.

    The network is the one of that name in MODELS, or another that is given.
    """

    def __init__(self, name: str, batch: int | None = None, *, training: bool, network: Network | None = None):
        self.name, self.network, self.training = name, network or MODELS[name], training
        self.kind = "training" if training else "inference"
        self.batch = self.network.batch if batch is None else batch
        self.x, self.labels = noise(self.network, self.batch)
        work = nn.describe(self.network.build(), self.x.shape[1:]).multiply_adds * self.batch
        self.flops = (6 if training else 2) * work

    def probe(self) -> NetworkCase:
        """The case whose logits are compared with exact(), also for a training step.

        Its gradients are a poor measure: they jump where rounding moves a value across the kink of a ReLU.  For VGG and
        three batches of 16 images their error, over the largest, was 9e-6, 2e-3 and 2e-2 in PyTorch, 2e-2, 3e-3 and
        5e-3 with our Winograd, 5e-6, 5e-6 and 1e-3 with our im2col: it tells more about the batch than about the sums.
        """
        if not self.training:
            return self
        return NetworkCase(self.name, min(self.batch, PROBED), training=False, network=self.network)

    def exact(self) -> list[np.ndarray]:
        """The logits of the first images, by the textbook in float64."""
        return [exact_logits(self.network)[: self.batch]]


def noise(network: Network, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels; a larger batch begins with those of a smaller one."""
    x = np.random.default_rng(0).standard_normal((batch, network.side, network.side, 3))
    return x.astype(np.float32), np.random.default_rng(1).integers(0, network.classes, batch)


@cache  # all batches begin with the same images
def exact_logits(network: Network) -> np.ndarray:
    from unittest import mock  # imported here, since it takes 4 MiB that benchmarks/memory.py would count

    x, _ = noise(network, PROBED)
    with mock.patch.dict(os.environ, MINICNN_FAST="0"):
        return network.build().to(dtype="float64")(x.astype(np.float64)).data
