"""How many images per second a GPU trains on: with graphs, without, with textbook operations, and with PyTorch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from experiments.benchmarks.networks import MODELS, SGD_OPTIONS, Network
from minicnn.backend import Device
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.optim import SGD
from minicnn.training import Trainer

STEPS = 20  # that are measured, after as many that compile, capture and warm up

# column -> what it sets in the environment
OURS = {"graph": {}, "plain": {"MINICNN_GRAPH": "0"}, "textbook": {"MINICNN_FAST": "0"}}


def images_per_second(device: Device, *, quick: bool = False) -> Iterator[tuple[str, int, dict[str, float]]]:
    """(network, batch, images per second by column) for the networks of experiments.bench; `quick` tries one, once."""
    for name, network in MODELS.items() if not quick else [("crelu-half", MODELS["crelu-half"])]:
        batch, steps = (1, 1) if quick else (network.batch, STEPS)
        rates = {}
        for column, settings in OURS.items():
            with environment(settings):
                rates[column] = batch * steps / seconds(*training(device, network, batch, steps))
        if torch_has_a_gpu():
            from experiments.benchmarks.torch_gpu import torch_training

            rates["PyTorch"] = batch * steps / seconds(*torch_training(network, batch, steps))
        yield name, batch, rates


def seconds(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """What work() takes the second time, on a device that wait() waits for."""
    work()
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def training(
    device: Device, network: Network, batch: int, steps: int
) -> tuple[Callable[[], object], Callable[[], None]]:
    """An epoch of so many steps, from random images to new weights; and what waits for it."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (steps * batch, network.side, network.side, 3), np.uint8)
    labels = rng.integers(0, network.classes, len(images))
    source = Batches(images, labels, batch, Normaliser((0.5,) * 3, (0.25,) * 3), Augmentation(), seed=0)
    model = network.build()
    trainer = Trainer(model, SGD(model.parameters(), **SGD_OPTIONS), source, device=device, seed=0)
    return trainer.finish_epoch, device.synchronize


@contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Within, the environment has these variables."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def torch_has_a_gpu() -> bool:
    """Whether PyTorch is installed, and finds a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
