"""What a run will cost, before it starts."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from experiments.cli.app import duration
from minicnn import ops
from minicnn.autodiff import Tape
from minicnn.backend import Device
from minicnn.cluster import Communicator
from minicnn.nn import Summary, describe
from minicnn.random import Stream

TRIAL, WORK = 128, 2e10  # the most images and multiply-adds in a trial step
LEAST = 2  # the fewest images in it: batch normalisation needs two
STEPS, PATIENCE = 3, 1.0  # trial steps, and the seconds after which two are enough


def announce(settings: Any, device: Device, images: int, cluster: Communicator, *, how: str = "") -> None:
    """Print the network, where it differs from the paper's table, how it is trained, and what that will cost.

    images    how many it will train on, counting every epoch
    """
    summary = describe(settings.build_model(), settings.input)
    ranks = "" if cluster.size == 1 else f", one of {cluster.size} ranks"
    print(f"{settings.name} on {device}{ranks}\n\n{summary}\n{settings.corrections()}{how}")
    print(estimate(settings, summary, device, images, cluster.size), "\n", flush=True)


def estimate(settings: Any, summary: Summary, device: Device, images: int, ranks: int = 1) -> str:
    """Memory (per rank) and time for training on this many images (counting every epoch), as two lines."""
    seconds = images * seconds_per_image(settings, summary, device, ranks) / ranks
    flops = 6 * summary.multiply_adds * images  # forward once, backward twice, two operations each
    share = _share(settings, ranks)
    return (
        f"memory  about {memory(summary, share) / 2**20:,.0f} MiB for batches of {share}, plus the data\n"
        f"time    about {duration(seconds)} ({images:,} images, {flops / 1e12:,.1f} TFLOP), from trial steps"
    )


def _share(settings: Any, ranks: int) -> int:
    """The most images of a batch that one rank gets."""
    return -(-settings.batch // ranks)


def memory(summary: Summary, batch: int) -> int:
    """Bytes: the outputs of all layers, which backward needs, and four copies of the parameters.

    Parameters, gradients, velocities and one temporary copy; temporary arrays of one layer are not counted.
    """
    outputs = batch * sum(math.prod(row.output) for row in summary.rows)
    return 4 * (outputs + 4 * summary.parameters)


def seconds_per_image(settings: Any, summary: Summary, device: Device, ranks: int = 1) -> float:
    """The time one rank needs per image, from the fastest of a few training steps of a throw-away network.

    The first step is slow and not typical: memory is fresh, threads start, a GPU compiles its kernels.  A step with
    few images is slow per image, since part of the work is done once per batch; so a trial step has as many images as
    one in training, unless that would take long.
    """
    model = settings.build_model().to(device)
    images = max(LEAST, min(_share(settings, ranks), TRIAL, int(WORK / summary.multiply_adds)))
    x = device.put(np.zeros((images, *summary.input), np.float32))
    labels = np.zeros(images, np.int64)
    times: list[float] = []
    while len(times) < 2 or (len(times) < STEPS and sum(times) < PATIENCE):
        start = time.perf_counter()
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0)), labels)
        tape.backward(loss)
        device.synchronize()
        times.append(time.perf_counter() - start)
        model.zero_grad()
    return min(times) / images
