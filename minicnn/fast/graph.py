"""Forward and backward pass as one CUDA graph.

A pass is about a hundred launches, and Python needs longer for them than a fast GPU.  CUDA can capture launches, and
then do all of them in one call: the same kernels, with the same arguments.  So a graph is a pass in which nothing but
the contents of arrays may change, and each of them stays where it was when the graph was captured:

    x, labels              are copied to where the graph reads them
    parameters, buffers    are changed in place, by the optimiser and by batch normalisation
    the step of dropout    is the one of the capture, and a number on the device: how many steps have passed since
    loss, gradients        come out at the same place each time

The optimiser's step is not in the graph: learning rates, clipping and Muon need no thought here.

Whatever differs from what was captured is noticed, and the pass is done plainly: another shape (the last batch of an
epoch), an array that is not the one it was, an option of a layer.  Where that comes again, another graph is made.  And
a graph is used only after it gave, once, the same bits as the plain pass.  MINICNN_GRAPH=0 switches graphs off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, array_module, device_of, fast_versions
from minicnn.cluster import Part
from minicnn.cuda import DEBUG_SYNC, NVTX, Graph
from minicnn.fast.cuda.kernels import steps_ahead
from minicnn.tensor import Buffer, Parameter

WARM_UP = 3  # passes of the same kind, done plainly: they compile kernels and fill caches, which a capture cannot

Pass = Callable[[Array, Array, Part, int], tuple[Array, Array]]  # x, labels, part, step -> loss, wrong answers


@dataclass(frozen=True)
class Captured:
    """A graph, and the arrays that it reads and writes."""

    graph: Graph
    inputs: tuple[Array, Array]  # x, labels
    results: tuple[Array, Array]  # loss, wrong answers
    gradients: list[Array]
    step: int  # at which it was captured
    ahead: Array  # the steps since then

    def launch(self, x: Array, labels: Array, step: int, parameters: Sequence[Parameter]) -> tuple[Array, Array]:
        """A pass: loss and wrong answers, which the next launch leaves alone, and gradients, which it overwrites."""
        for there, now in zip(self.inputs, (x, labels), strict=True):
            there[...] = now
        self.ahead.fill(np.uint64((step - self.step) % 2**64))
        self.graph.launch()
        for parameter, gradient in zip(parameters, self.gradients, strict=True):
            parameter.grad = gradient
        loss, wrong = self.results
        return loss.copy(), wrong.copy()


@dataclass(frozen=True)
class Kind:
    """What must be the same for a graph to do a pass: shapes, and the arrays of the model."""

    shapes: tuple[Any, ...]
    arrays: list[Array]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Kind)
            and self.shapes == other.shapes
            and all(a is b for a, b in zip(self.arrays, other.arrays, strict=True))
        )


class Passes:
    """Passes, done by a graph where one can be used, and plainly by `work` where not; the same bits either way.

    possible   whether graphs can be used at all; if not, there is no need to `look_at` a model
    alone        whether no other rank shares the batch: messages are not captured
    """

    def __init__(self, device: Device, *, alone: bool):
        self.device = device
        self.possible = device.cuda is not None and alone and not DEBUG_SYNC and not NVTX  # both look at each launch
        self._forget()

    def _forget(self) -> None:
        self._values: Sequence[Parameter | Buffer] = ()  # none: passes are done plainly
        self._parameters: list[Parameter] = []  # those of the values that learn,
        self._buffers: list[Buffer] = []  # and those that are kept
        self._options: Any = None
        self._last: Kind | None = None  # of the last plain pass,
        self._times = 0  # and how many there were of it, one after the other
        self._captured: tuple[Kind, Captured] | None = None

    def look_at(self, values: Sequence[Parameter | Buffer], problem: str | None, options: Any) -> None:
        """From now on passes depend on these values and options.  `problem`: why they may yet differ, if they may."""
        if not fast_versions() or os.environ.get("MINICNN_GRAPH") == "0":
            self._forget()
        elif problem is not None:
            self._give_up(problem)
        else:
            options = (options, [id(value) for value in values])
            if options != self._options:
                self._forget()
            self._values, self._options = values, options
            self._parameters = [value for value in values if isinstance(value, Parameter) and value.requires_grad]
            self._buffers = [value for value in values if isinstance(value, Buffer)]

    def __call__(self, work: Pass, x: Array, labels: Array, part: Part, step: int) -> tuple[Array, Array]:
        """loss, wrong answers; gradients are left in the parameters."""
        there = device_of(labels) is self.device
        if not self._values or not there or any(p.grad is not None for p in self._parameters):
            return work(x, labels, part, step)
        shapes = (x.shape, x.dtype, labels.shape, labels.dtype, part.first, part.total)
        kind = Kind(shapes, [value.data for value in self._values])
        with self.device.active():
            if self._captured is not None and self._captured[0] == kind:
                return self._captured[1].launch(x, labels, step, self._parameters)
            self._last, self._times = kind, self._times + 1 if kind == self._last else 1
            if self._times <= WARM_UP:
                return work(x, labels, part, step)
            return self._first(kind, work, x, labels, part, step)

    def _first(self, kind: Kind, work: Pass, x: Array, labels: Array, part: Part, step: int) -> tuple[Array, Array]:
        """A plain pass; then it is captured, and kept if the graph gives the same bits."""
        assert self.device.cuda is not None
        self._captured = None
        parameters, buffers = self._parameters, self._buffers
        before = [buffer.data.copy() for buffer in buffers]
        loss, wrong = work(x, labels, part, step)
        gradients = [p.grad for p in parameters]
        if not self.device.cuda.room_for_a_graph():
            self._give_up(f"{self.device} has too little memory for a second copy of what a pass needs")
            return loss, wrong
        after = [buffer.data.copy() for buffer in buffers]
        try:
            captured = self._capture(work, x, labels, part, step)
            _write(buffers, before)
            again = captured.launch(x, labels, step, parameters)
            ours = (*again, *captured.gradients, *(buffer.data for buffer in buffers))
            if not all(map(_same_bits, ours, (loss, wrong, *gradients, *after))):
                raise RuntimeError("it does not give the same bits")
            self._captured = (kind, captured)
        except Exception as error:  # of CUDA, CuPy, or a layer that cannot be captured
            self._give_up(str(error))
            _write(buffers, after)
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = gradient
        return loss, wrong

    def _capture(self, work: Pass, x: Array, labels: Array, part: Part, step: int) -> Captured:
        assert self.device.cuda is not None
        inputs, ahead = (x.copy(), labels.copy()), array_module(x).zeros(1, np.uint64)
        for p in self._parameters:
            p.grad = None
        token = steps_ahead.set(ahead)
        try:
            results, graph = self.device.cuda.capture(lambda: work(*inputs, part, step))
        finally:
            steps_ahead.reset(token)
        gradients = [p.grad for p in self._parameters]
        if any(gradient is None for gradient in gradients):
            raise RuntimeError("a parameter gets no gradient")
        return Captured(graph, inputs, results, gradients, step, ahead)

    def _give_up(self, reason: str) -> None:
        print(f"{self.device}: no CUDA graph for this training, each launch by itself: {reason}", file=sys.stderr)
        self.possible = False
        self._forget()


def _write(buffers: Sequence[Buffer], values: Sequence[Array]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.data[...] = value


def _same_bits(a: Array, b: Array) -> bool:
    """Also of NaN; waits for the device."""
    xp = array_module(a)
    ours, theirs = (xp.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return bool((ours == theirs).all())
