"""What a model consists of, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minicnn.backend import device_of
from minicnn.nn.module import Sequential


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


def describe(model: Sequential, input_shape: tuple[int, ...]) -> Summary:
    """The table as data, from a forward pass of one sample of shape `input_shape` (without the batch axis)."""
    modules = dict(model.modules())
    like = next((p.data for p in model.parameters()), np.zeros(1, np.float32))
    x = device_of(like).put(np.zeros((1, *input_shape), like.dtype))
    rows, counted = [], set()
    for name, y in model.trace(x):
        layer = modules[name]
        new = [p for p in layer.parameters() if id(p) not in counted]  # a layer used twice has its parameters once
        counted |= {id(p) for p in new}
        own = sum(p.data.size for p in new)
        output = tuple(y.shape[1:])
        rows.append(Row(name, type(layer).__name__, layer.kernel(), output, own, layer.multiply_adds(output)))
    return Summary(tuple(rows), tuple(input_shape))


def summary(model: Sequential, input_shape: tuple[int, ...]) -> Summary:
    """Print the table of a model for inputs of shape `input_shape`, such as (32, 32, 3); return it as data too."""
    table = describe(model, input_shape)
    print(table)
    return table


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _number(n: int) -> str:
    return f"{n:,}" if n else ""
