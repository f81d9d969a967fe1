"""How many images a second a device trains on."""

import time

import numpy as np
import pytest

from experiments.benchmarks.networks import HYPER, MODELS
from minicnn import ops
from minicnn.autodiff import Tape
from minicnn.optim import SGD
from minicnn.random import Stream


def images_per_second(device, *, quick):
    """(network, batch, with kernels, with the textbook) for the networks of experiments.bench."""
    for name, network in MODELS.items():
        batch, steps = (1, 1) if quick else (network.batch, 10)
        if quick and name != "crelu-half":
            continue
        rates = []
        for fast in ("1", "0"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MINICNN_FAST", fast)
                rates.append(batch / _seconds_per_step(device, network, batch, steps))
        yield name, batch, *rates


def _seconds_per_step(device, network, batch, steps):
    model = network.build().to(device)
    optimiser = SGD(model.parameters(), 1e-3, **HYPER)
    rng = np.random.default_rng(0)
    x = device.put(rng.standard_normal((batch, network.side, network.side, 3)).astype(np.float32))
    labels = device.put(rng.integers(0, network.classes, batch))

    def step():
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0).at(optimiser.steps)), labels)
        tape.backward(loss)
        optimiser.step()
        optimiser.zero_grad()

    step()  # compiles
    device.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    device.synchronize()
    return (time.perf_counter() - start) / steps
