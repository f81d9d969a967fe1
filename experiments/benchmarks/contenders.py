"""Who competes in experiments.bench: minicnn and, where they are installed, other frameworks.

To add a framework, write a module like torch_contender with a class of contenders and its VARIANTS, and enter it in
FRAMEWORKS.  Such a module is imported only where its package is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from experiments.benchmarks.layers import LayerCase
from experiments.benchmarks.networks import SGD_OPTIONS, NetworkCase
from experiments.benchmarks.timing import Call
from minicnn import nn, ops
from minicnn.autodiff import Tape
from minicnn.backend import CPU
from minicnn.optim import SGD
from minicnn.random import Stream


class Framework(NamedTuple):
    title: str
    package: str
    module: str  # with VARIANTS; rounding and memory are reported for the first of them


FRAMEWORKS = {
    "ours": Framework("ours", "minicnn", "experiments.benchmarks.contenders"),
    "torch": Framework("PyTorch", "torch", "experiments.benchmarks.torch_contender"),
}


def variants(framework: str) -> Sequence[Contender]:
    """The contenders of a framework, none if it is not installed."""
    _, package, module = FRAMEWORKS[framework]
    return import_module(module).VARIANTS if find_spec(package) else ()


@dataclass(frozen=True)
class Contender:
    """One way to compute layers and networks: `layer` and `network` prepare a call, which is then timed."""

    name: str  # in the tables and in the results
    compiled: bool = False  # whether networks are compiled first, which takes a while

    def layer(self, case: LayerCase) -> Call | None:
        """A call that returns the output and all gradients; None if this contender computes no single layers."""
        return None

    def network(self, case: NetworkCase) -> Call | None:
        """A call that makes a training step, or returns [logits]; None if this contender cannot do that."""
        return None

    def to_numpy(self, results: list[Any]) -> list[np.ndarray]:
        """What a call returned, in minicnn's order of axes."""
        return results

    def prepare(self, case: LayerCase | NetworkCase) -> Call | None:
        return self.layer(case) if isinstance(case, LayerCase) else self.network(case)


class Ours(Contender):
    def layer(self, case: LayerCase) -> Call:
        def forward_and_backward() -> list[np.ndarray]:
            with CPU.active():
                return case.values(case.op.pair)

        return forward_and_backward

    def network(self, case: NetworkCase) -> Call:
        model = case.network.build()
        return training_step(model, case.x, case.labels) if case.training else lambda: [model(case.x).data]


def training_step(model: nn.Sequential, x: Any, labels: Any) -> Call:
    """Loss, gradients and an update of the weights, on the device where they are."""
    optimiser = SGD(model.parameters(), **SGD_OPTIONS)

    def step() -> None:
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0).at(optimiser.steps)), labels)
        tape.backward(loss)
        optimiser.step()
        optimiser.zero_grad()

    return step


VARIANTS = (Ours("ours"),)
