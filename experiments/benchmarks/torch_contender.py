"""PyTorch in experiments.bench: eager or compiled, with images contiguous or channels last.  This file needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from experiments.benchmarks.contenders import Contender
from experiments.benchmarks.layers import LayerCase
from experiments.benchmarks.networks import SGD_OPTIONS, NetworkCase
from experiments.benchmarks.timing import Call
from experiments.benchmarks.torch_twin import FILTERS, IMAGES, OPS, to_torch, torch_twin
from minicnn.parallel import threads

torch.set_num_threads(threads())


@dataclass(frozen=True)
class Torch(Contender):
    channels_last: bool = False

    def layer(self, case: LayerCase) -> Call | None:
        if self.compiled:
            return None
        put = partial(to_torch, channels_last=self.channels_last)
        x, *parameters = case.arrays
        inputs = [put(x, IMAGES), *(put(p, FILTERS if p.ndim == 4 else None) for p in parameters)]
        gradient = put(case.gradient, IMAGES)
        for tensor in inputs:
            tensor.requires_grad_()

        def forward_and_backward() -> list[Any]:
            y = OPS[case.op](*inputs, **case.options)
            return [y, *torch.autograd.grad(y, inputs, gradient)]

        return forward_and_backward

    def network(self, case: NetworkCase) -> Call:
        model = torch_twin(case.network.build()).train(case.training)
        x, labels = to_torch(case.x, IMAGES, channels_last=self.channels_last), to_torch(case.labels)
        if self.channels_last:
            model = model.to(memory_format=torch.channels_last)
        optimiser = torch.optim.SGD(model.parameters(), **SGD_OPTIONS)
        if self.compiled:
            torch.compiler.reset()  # it gives up after eight versions of a function, whichever network they were for
            model = torch.compile(model)

        def infer() -> list[Any]:
            with torch.inference_mode():
                return [model(x)]

        def step() -> None:
            torch.nn.functional.cross_entropy(model(x), labels).backward()
            optimiser.step()
            optimiser.zero_grad()

        return step if case.training else infer

    def to_numpy(self, results: list[Any]) -> list[np.ndarray]:
        orders = [IMAGES, IMAGES, FILTERS]  # of the output and of the gradients of images and filters
        arrays = [tensor.detach().numpy() for tensor in results]
        return [a.transpose(np.argsort(orders[i])) if a.ndim == 4 else a for i, a in enumerate(arrays)]


VARIANTS = (
    Torch("eager, contiguous"),
    Torch("eager, channels last", channels_last=True),
    Torch("compiled, contiguous", compiled=True),
    Torch("compiled, channels last", compiled=True, channels_last=True),
)
