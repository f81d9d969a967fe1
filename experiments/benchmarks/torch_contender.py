"""PyTorch in experiments.bench: eager or compiled, with images contiguous or channels last, in float32 or bf16.

bf16 is PyTorch's autocast: convolutions and matrix products in 16 bits, weights and updates in float32.  It uses
channels last, for which oneDNN's kernels of 16 bits are made.  This file needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from experiments.benchmarks.contenders import Contender
from experiments.benchmarks.layers import FILTERS, IMAGES, LayerCase
from experiments.benchmarks.networks import SGD_OPTIONS, NetworkCase
from experiments.benchmarks.timing import Call
from experiments.benchmarks.torch_ops import OPS, to_torch
from minicnn.exchange.torch_module import torch_module
from minicnn.parallel import threads

torch.set_num_threads(threads())


@dataclass(frozen=True)
class Torch(Contender):
    channels_last: bool = False

    def obstacle(self) -> str:
        """Without such instructions bf16 is several times as slow as float32; one variant is enough to show it."""
        emulated = self.precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return (
            "PyTorch has to emulate bf16 on this processor; uncompiled it takes part"
            if emulated and self.compiled
            else ""
        )

    def layer(self, case: LayerCase) -> Call:
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
        twin, logits = self._twin(case)
        labels = to_torch(case.labels)
        optimiser = torch.optim.SGD(twin.parameters(), **SGD_OPTIONS)

        def infer() -> list[Any]:
            with torch.inference_mode():
                return [logits()]

        def step() -> None:
            torch.nn.functional.cross_entropy(logits().float(), labels).backward()  # outside of autocast
            optimiser.step()
            optimiser.zero_grad()

        return step if case.training else infer

    def to_numpy(self, results: list[Any]) -> list[np.ndarray]:
        orders = [IMAGES, IMAGES, FILTERS]  # of the output and of the gradients of images and filters
        arrays = [tensor.detach().float().numpy() for tensor in results]
        return [a.transpose(np.argsort(orders[i])) if a.ndim == 4 else a for i, a in enumerate(arrays)]

    def _twin(self, case: NetworkCase) -> tuple[Any, Call]:
        """The network, and a call that computes its logits."""
        twin = torch_module(case.network.build(), case.x.shape[1:]).train(case.training)
        images = to_torch(case.x, IMAGES, channels_last=self.channels_last)
        if self.channels_last:
            twin = twin.to(memory_format=torch.channels_last)
        forward = twin
        if self.compiled:
            torch.compiler.reset()  # it gives up after eight versions of a function, whichever network they were for
            forward = torch.compile(twin)
        if self.precision == "float32":
            return twin, lambda: forward(images)

        def in_16_bits() -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return forward(images)

        return twin, in_16_bits


NETWORKS = ("training", "inference")
VARIANTS = (
    Torch("PyTorch", "eager, contiguous"),
    Torch("PyTorch", "eager, channels last", channels_last=True),
    Torch("PyTorch", "compiled, contiguous", compiled=True, kinds=NETWORKS),
    Torch("PyTorch", "compiled, channels last", compiled=True, kinds=NETWORKS, channels_last=True),
    Torch("PyTorch", "eager, channels last", "bf16", kinds=NETWORKS, channels_last=True),
    Torch("PyTorch", "compiled, channels last", "bf16", compiled=True, kinds=NETWORKS, channels_last=True),
)
