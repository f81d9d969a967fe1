"""How many images per second a device trains on."""

import time

import numpy as np
import pytest

from experiments.benchmarks.contenders import training_step
from experiments.benchmarks.networks import MODELS


def images_per_second(device, *, quick):
    """(network, batch, with kernels, with the textbook) for the networks of experiments.bench."""
    for name, network in MODELS.items():
        batch, steps = (1, 1) if quick else (network.batch, 10)
        if quick and name != "crelu-half":
            continue
        rates = []
        for fast in ("1",) if quick else ("1", "0"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MINICNN_FAST", fast)
                rates.append(batch / _seconds_per_step(device, network, batch, steps))
        yield name, batch, rates[0], rates[-1]


def _seconds_per_step(device, network, batch, steps):
    rng = np.random.default_rng(0)
    x = device.put(rng.standard_normal((batch, network.side, network.side, 3)).astype(np.float32))
    labels = device.put(rng.integers(0, network.classes, batch))
    step = training_step(network.build().to(device), x, labels)
    step()  # compiles
    device.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    device.synchronize()
    return (time.perf_counter() - start) / steps
