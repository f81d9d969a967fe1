"""What a model consists of, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minicnn import ops
from minicnn.autodiff import Op
from minicnn.autodiff import watcher as ops_watched
from minicnn.backend import Array, device_of
from minicnn.nn.module import Module
from minicnn.nn.module import watcher as modules_watched


@dataclass(frozen=True)
class Row:
    """One layer: its path, its type, its kernel, the shape of its output for one sample, its size and its work."""

    name: str
    layer: str
    kernel: str
    output: tuple[int, ...]
    parameters: int
    multiply_adds: int


@dataclass(frozen=True)
class Summary:
    rows: tuple[Row, ...]
    input: tuple[int, ...]

    @property
    def parameters(self) -> int:
        return sum(row.parameters for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        """For the forward pass of one sample."""
        return sum(row.multiply_adds for row in self.rows)

    def __str__(self) -> str:
        head = ("name", "layer", "kernel", "output", "parameters", "multiply-adds")
        lines = [("", "input", "", _shape(self.input), "", "")]
        lines += [
            (r.name, r.layer, r.kernel, _shape(r.output), _number(r.parameters), _number(r.multiply_adds))
            for r in self.rows
        ]
        total = ("total", "", "", "", f"{self.parameters:,}", f"{self.multiply_adds:,}")
        widths = [max(len(line[i]) for line in (head, *lines, total)) for i in range(len(head))]
        rule = tuple("-" * width for width in widths)
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i < 4 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (head, rule, *lines, rule, total)
        )


# Multiply-adds of the ops that have many, from their arrays and their output.
WORK: dict[Op, Callable[..., int]] = {
    ops.conv2d: lambda y, x, w, b: w.size * math.prod(y.shape[:3]),
    ops.linear: lambda y, x, w, b: w.size * len(x),
    ops.matmul: lambda y, a, b: y.size * a.shape[1],
}


@dataclass
class Call:
    """A module that was called: the shape of its output, the work of its own ops, whether it called no other."""

    module: Module
    output: tuple[int, ...] = ()
    work: int = 0
    leaf: bool = True


class Calls:
    """What is called during a forward pass: modules in the order in which they end, each with the work of its ops."""

    def __init__(self) -> None:
        self.ended: list[Call] = []
        self._open: list[Call] = []  # from the outermost to the one that computes

    def module(self, module: Module, forward: Callable[[], Any]) -> Any:
        if self._open:
            self._open[-1].leaf = False
        self._open.append(Call(module))
        y = forward()
        call = self._open.pop()
        call.output = tuple(y.shape[1:])
        self.ended.append(call)
        return y

    def op(self, op: Op, arrays: tuple[Array, ...], y: Array) -> None:
        if op in WORK:
            self._open[-1].work += WORK[op](y, *arrays)


def describe(model: Module, input_shape: tuple[int, ...]) -> Summary:
    """The table as data, from a forward pass of one sample of shape `input_shape` (without the batch axis).

    One row per layer that was called; for a module of one's own, rows of the layers that it calls, and one of its own
    if it has parameters that those do not have or computes with ops itself.
    """
    like = next((p.data for p in model.parameters()), np.zeros(1, np.float32))
    calls = Calls()
    tokens = modules_watched.set(calls.module), ops_watched.set(calls.op)
    try:
        model(device_of(like).put(np.zeros((1, *input_shape), like.dtype)))
    finally:
        modules_watched.reset(tokens[0])
        ops_watched.reset(tokens[1])
    paths = {id(module): path for path, module in reversed(list(model.modules()))}  # the first path of each
    rows, counted = [], set()
    for call in calls.ended:
        layer = call.module
        new = [p for p in layer.parameters() if id(p) not in counted]  # a layer used twice has its parameters once
        if new and id(layer) not in paths:
            raise ValueError(
                f"summary: a {type(layer).__name__} with parameters is called but is no attribute of a module, nor in "
                "a list or dict that is one: its parameters would be neither learned nor saved"
            )
        counted |= {id(p) for p in new}
        own = sum(p.data.size for p in new)
        if call.leaf or own or call.work:
            name = paths.get(id(layer), "")
            rows.append(Row(name, type(layer).__name__, layer.kernel(), call.output, own, call.work))
    return Summary(tuple(rows), tuple(input_shape))


def summary(model: Module, input_shape: tuple[int, ...]) -> Summary:
    """Print the table of a model for inputs of shape `input_shape`, such as (32, 32, 3); return it as data too."""
    table = describe(model, input_shape)
    print(table)
    return table


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _number(n: int) -> str:
    return f"{n:,}" if n else ""
