"""What a run will cost, before it starts."""

from __future__ import annotations

import math
import time
from typing import Protocol

import numpy as np

from experiments.common import duration
from minicnn import ops
from minicnn.autodiff import Tape
from minicnn.backend import Device
from minicnn.nn import Sequential, Summary
from minicnn.random import Stream

TRIAL, WORK = 64, 2.6e9  # in the step that is timed: images, or multiply-adds if these make fewer of them


class Trainable(Protocol):
    """What settings of all experiments have."""

    @property
    def batch(self) -> int: ...

    def build_model(self) -> Sequential: ...


def estimate(settings: Trainable, summary: Summary, device: Device, images: int, ranks: int = 1) -> str:
    """Memory (of a rank) and time for training on so many images (epochs included), as two lines."""
    seconds = images * seconds_per_image(settings, summary, device) / ranks
    flops = 6 * summary.multiply_adds * images  # forward once, backward twice, two operations each
    share = -(-settings.batch // ranks)
    return (
        f"memory  about {memory(summary, share) / 2**20:,.0f} MiB for batches of {share}, beside the data\n"
        f"time    about {duration(seconds)} ({images:,} images, {flops / 1e12:,.1f} TFLOP), from one trial step"
    )


def memory(summary: Summary, batch: int) -> int:
    """Bytes: the outputs of all layers, which backward needs, and four copies of the parameters.

    Parameters, gradients, velocities and one temporary copy; temporary arrays of one layer are not counted.
    """
    outputs = batch * sum(math.prod(row.output) for row in summary.rows)
    return 4 * (outputs + 4 * summary.parameters)


def seconds_per_image(settings: Trainable, summary: Summary, device: Device) -> float:
    """Time of one training step of a throw-away network, after one to warm up."""
    model = settings.build_model().to(device)
    images = max(1, min(TRIAL, int(WORK / summary.multiply_adds)))
    x = device.put(np.zeros((images, *summary.input), np.float32))
    labels = np.zeros(images, np.int64)
    for _ in range(2):
        start = time.perf_counter()
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0)), labels)
        tape.backward(loss)
        device.synchronize()
    return (time.perf_counter() - start) / images
