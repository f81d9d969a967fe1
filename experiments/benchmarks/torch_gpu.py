"""A training of PyTorch on a GPU, as people write it: eager, channels last, in float32.  This file needs torch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from experiments.benchmarks.layers import IMAGES
from experiments.benchmarks.networks import SGD_OPTIONS, Network, noise
from experiments.benchmarks.torch_ops import to_torch
from minicnn.exchange.torch_module import torch_module


def torch_training(network: Network, batch: int, steps: int) -> tuple[Callable[[], object], Callable[[], None]]:
    """So many steps on one batch of noise, and what waits for them."""
    torch.backends.cudnn.benchmark = True  # it looks for the fastest algorithm
    x, labels = noise(network, batch)
    twin = torch_module(network.build(), x.shape[1:]).train().to("cuda", memory_format=torch.channels_last)
    images, right = to_torch(x, IMAGES, channels_last=True).cuda(), to_torch(labels).cuda()
    optimiser = torch.optim.SGD(twin.parameters(), **SGD_OPTIONS)

    def work() -> None:
        for _ in range(steps):
            torch.nn.functional.cross_entropy(twin(images), right).backward()
            optimiser.step()
            optimiser.zero_grad()

    return work, torch.cuda.synchronize
