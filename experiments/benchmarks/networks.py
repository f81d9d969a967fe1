"""The networks that experiments.bench compares, each with a batch of noise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minicnn import models, nn


@dataclass(frozen=True)
class Network:
    """A network, the side of the images it takes, how many classes it tells apart and the size of a batch."""

    build: Callable[[], nn.Sequential]
    side: int = 32
    classes: int = 10
    batch: int = 128


MODELS: dict[str, Network] = {
    "convpool": Network(lambda: models.convpool("relu")),
    "convpool-double": Network(lambda: models.convpool("relu", "double")),
    "crelu": Network(lambda: models.convpool("crelu")),
    "crelu-half": Network(lambda: models.convpool("crelu", "half")),
    "vgg": Network(lambda: models.vgg("relu", ())),
    "vgg-crelu": Network(lambda: models.vgg("crelu", (1, 3, 5))),
    "allcnn": Network(lambda: models.allcnn_b(), side=224, classes=1000, batch=16),
    "allcnn-crelu": Network(lambda: models.allcnn_b("crelu-conv1-4"), side=224, classes=1000, batch=16),
}
LARGEST_BATCH = 2**16  # below, a batch that does not fit is reported as out of memory; above, NumPy fails on its shape
SGD_OPTIONS: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}
PROBED = 8  # images whose logits are compared with those in float64


class NetworkCase:
    """A network with a batch: a contender makes a training step (loss, gradients, SGD), or computes the logits."""

    def __init__(self, name: str, batch: int | None = None, *, training: bool):
        self.name, self.network, self.training = name, MODELS[name], training
        self.batch = self.network.batch if batch is None else batch
        shape, rng = (self.network.side, self.network.side, 3), np.random.default_rng(0)
        self.x = rng.standard_normal((self.batch, *shape)).astype(np.float32)
        self.labels = rng.integers(0, self.network.classes, self.batch)
        work = nn.describe(self.network.build(), shape).multiply_adds * self.batch
        self.flops = (6 if training else 2) * work

    def probe(self) -> NetworkCase:
        """The case whose results are compared with float64: the logits of the first images."""
        return NetworkCase(self.name, min(self.batch, PROBED), training=False)

    def exact(self) -> list[np.ndarray]:
        """The logits, by the textbook in float64."""
        from unittest import mock  # imported here, since it takes 4 MiB that benchmarks/memory.py would count

        with mock.patch.dict(os.environ, MINICNN_FAST="0"):
            return [self.network.build().to(dtype="float64")(self.x.astype(np.float64)).data]
