"""Optimiser steps over all parameters in one launch (Muon's, in a few, are in muon.py).

The kernel finds each parameter through a table of addresses.  It is uploaded when an address has changed: gradients may
be new arrays in every step; those of a graph (minicnn/fast/graph.py) are not.

`sgd` and `adam` are versions of the `update` of their optimiser.  They are given rows, one array per parameter in each:
rows[0] the parameters, rows[1] their gradients, the others what the optimiser keeps for them (its slots).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minicnn.backend import Array, array_module, device_of
from minicnn.fast.cuda.kernels import launch
from minicnn.optim import SGD, Adam

Rows = Sequence[Sequence[Array]]
SHARES = 1 << 14  # threads that share the sum of squares of all gradients


def fits(arrays: Sequence[Array]) -> bool:
    """Whether a kernel may have these parameters, gradients and slots by address: on one GPU, one dtype, in C order."""
    where, dtype, in_order = device_of(arrays[0]), arrays[0].dtype, array_module(arrays[0]).ascontiguousarray
    return where.cuda is not None and all(
        a.dtype == dtype and device_of(a) is where and in_order(a) is a for a in arrays
    )


TABLES = 64  # that are kept on devices
_tables: dict[tuple[Any, ...], Array] = {}  # by device, number of columns and contents


def table(rows: Rows, *numbers: Sequence[int]) -> Array:
    """Where each parameter ends if all are laid end to end, then the addresses of each row, then these numbers.

    One column per parameter: (1 + rows + numbers, tensors).
    """
    contents = list(itertools.accumulate([array.size for array in rows[0]]))
    for row in rows:
        contents += [array.data.ptr for array in row]
    for row in numbers:
        contents += row
    device, columns = device_of(rows[0][0]), len(rows[0])
    key = (device.name, columns, *contents)
    if key not in _tables:
        if len(_tables) >= TABLES:
            _tables.clear()
        _tables[key] = device.put(np.array(contents, np.int64).reshape(-1, columns))
    return _tables[key]


def norm(gradients: Sequence[Array]) -> Array:
    """optim.norm."""
    xp, dtype = array_module(gradients[0]), gradients[0].dtype
    total = sum(g.size for g in gradients)
    squares = xp.empty(min(SHARES, max(1, total)), dtype)
    rows = [gradients, gradients]  # the first stands for the parameters, which this kernel does not read
    launch("update.squares", (squares,), table(rows), len(gradients), total)
    return xp.sqrt(squares.sum())


def sgd(rule: SGD, rows: Rows, scale: Array | None, decay: float, lr: float, t: int) -> None:
    """SGD.update."""
    _step("sgd", rows, scale, lr, decay, rule.momentum, 1 - rule.dampening, rule.nesterov, t == 1)


def adam(rule: Adam, rows: Rows, scale: Array | None, decay: float, lr: float, t: int) -> None:
    """Adam.update."""
    (b1, b2), rate = rule.betas, lr / (1 - rule.betas[0] ** t)
    _step("adam", rows, scale, rate, decay, b1, 1 - b1, b2, 1 - b2, math.sqrt(1 - b2**t), rule.eps)


def _step(kernel: str, rows: Rows, scale: Array | None, *numbers: float) -> None:
    """One step of all parameters by a kernel of update.cu, with the numbers that it takes."""
    total, real = sum(array.size for array in rows[0]), rows[0][0].dtype
    # The table stands in the place of outputs: they are behind its addresses.
    launch(f"update.{kernel}", (table(rows),), scale, len(rows[0]), *numbers, count=total, real=real)
