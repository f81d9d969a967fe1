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
from experiments.benchmarks.networks import PROBED, SGD_OPTIONS, NetworkCase
from experiments.benchmarks.timing import Call
from minicnn import nn, ops
from minicnn.autodiff import Tape
from minicnn.backend import CPU
from minicnn.fast.native.library import bf16_is_fast, bf16_problem
from minicnn.optim import SGD
from minicnn.precision import use_precision
from minicnn.random import Stream


class Framework(NamedTuple):
    title: str
    packages: tuple[str, ...]
    module: str  # with VARIANTS; memory is reported for the first of them


FRAMEWORKS = {
    "ours": Framework("ours", ("minicnn",), "experiments.benchmarks.contenders"),
    "torch": Framework("PyTorch", ("torch",), "experiments.benchmarks.torch_contender"),
    "onnxruntime": Framework("ONNX Runtime", ("onnxruntime", "onnx"), "experiments.benchmarks.onnxruntime_contender"),
    "openvino": Framework("OpenVINO", ("openvino", "onnx"), "experiments.benchmarks.openvino_contender"),
}


def missing(framework: str) -> list[str]:
    """The packages of a framework that are not installed."""
    return [package for package in FRAMEWORKS[framework].packages if not find_spec(package)]


def variants(framework: str) -> list[Contender]:
    """The contenders of a framework that can compete here: none if it is not installed."""
    return [] if missing(framework) else [c for c in _all_variants(framework) if not c.obstacle()]


def absences() -> list[str]:
    """Who takes no part, and why."""
    lines = []
    for name, framework in FRAMEWORKS.items():
        if lacking := missing(name):
            lines.append(f"{framework.title} takes no part without {' and '.join(lacking)}: make bench installs it")
        else:
            lines += [f"{c.name} takes no part: {why}" for c in _all_variants(name) if (why := c.obstacle())]
    return lines


def _all_variants(framework: str) -> Sequence[Contender]:
    return import_module(FRAMEWORKS[framework].module).VARIANTS


@dataclass(frozen=True)
class Contender:
    """One way to compute layers and networks: `layer` and `network` prepare a call, which is then timed."""

    framework: str  # its title
    variant: str = ""
    precision: str = "float32"  # or "bf16"
    compiled: bool = False  # whether networks are compiled first, which takes a while
    kinds: tuple[str, ...] = ("layer", "training", "inference")  # of the cases that it computes

    @property
    def family(self) -> str:
        """Those who stand in one column of a table, where the best of them is shown."""
        return self.framework if self.precision == "float32" else f"{self.framework} {self.precision}"

    @property
    def name(self) -> str:
        return f"{self.family}, {self.variant}" if self.variant else self.family

    def obstacle(self) -> str:
        """Why it cannot compete on this machine; "" if it can."""
        return ""

    def layer(self, case: LayerCase) -> Call:
        """A call that returns the output and all gradients."""
        raise NotImplementedError

    def network(self, case: NetworkCase) -> Call:
        """A call that makes a training step, or returns [logits]."""
        raise NotImplementedError

    def to_numpy(self, results: list[Any]) -> list[np.ndarray]:
        """What a call returned, in minicnn's order of axes."""
        return results

    def prepare(self, case: LayerCase | NetworkCase) -> Call:
        return self.layer(case) if isinstance(case, LayerCase) else self.network(case)

    def values(self, case: LayerCase | NetworkCase, call: Call) -> list[np.ndarray]:
        """What is compared with case.exact(); `call` is what was timed: to compile it again would take long."""
        if isinstance(case, LayerCase):
            return self.to_numpy(call())
        logits = self.to_numpy(self.network(case.probe())() if case.training else call())
        return [values[:PROBED] for values in logits]


class Ours(Contender):
    def obstacle(self) -> str:
        if self.precision == "float32":
            return ""
        if (why := bf16_problem()) is not None:
            return f"it needs the kernels in C: {why}"
        return "" if bf16_is_fast() else "this processor has no instructions for it, so float32 is faster"

    def layer(self, case: LayerCase) -> Call:
        def forward_and_backward() -> list[np.ndarray]:
            with CPU.active():
                return case.values(case.op.pair)

        return self._in_precision(forward_and_backward)

    def network(self, case: NetworkCase) -> Call:
        model = case.network.build()
        step = training_step(model, case.x, case.labels) if case.training else lambda: [model(case.x).data]
        return self._in_precision(step)

    def _in_precision(self, call: Call) -> Call:
        def within() -> Any:
            with use_precision(self.precision):
                return call()

        return within


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


VARIANTS = (Ours("ours"), Ours("ours", precision="bf16"))
