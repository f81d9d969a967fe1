"""Optimiser steps over all parameters in one launch.

The kernel finds each parameter through a table of addresses, uploaded for every step: gradients are new arrays then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn.backend import Array, array_module, device_of, fast_versions
from minicnn.fast.cuda.kernels import available, launch

PARTS = 1 << 14  # threads that share the sum of squares of all gradients


def fits(arrays: Sequence[Array]) -> bool:
    """Whether a kernel may have these parameters, gradients and slots by address: on one GPU, one dtype, in C order."""
    first = arrays[0]
    return (fast_versions() and available(first)) and all(
        a.flags.c_contiguous and a.dtype == first.dtype and device_of(a).name == device_of(first).name for a in arrays
    )


def table(rows: Sequence[Sequence[Array]]) -> Array:
    """(1 + rows, tensors): where each parameter ends if all are laid end to end, then the addresses of each row."""
    ends = np.cumsum([array.size for array in rows[0]])
    addresses = [[array.data.ptr for array in row] for row in rows]
    return device_of(rows[0][0]).put(np.array([ends, *addresses], np.int64))


def norm(gradients: Sequence[Array]) -> Array:
    """The Euclidean norm of all gradients together, a scalar on their device."""
    xp, dtype = array_module(gradients[0]), gradients[0].dtype
    total = sum(g.size for g in gradients)
    parts = xp.empty(min(PARTS, max(1, total)), dtype)
    rows = [gradients, gradients]  # the first stands for the parameters, which this kernel does not read
    launch("update.squares", (parts,), table(rows), len(gradients), total)
    return xp.sqrt(parts.sum())


def step(kernel: str, rows: Sequence[Sequence[Array]], scale: Array | None, *numbers: float) -> None:
    """One step of all parameters: rows[0] are they, rows[1] their gradients, the others what the optimiser keeps."""
    total, real = sum(array.size for array in rows[0]), rows[0][0].dtype
    # The table stands in the place of outputs: they are behind its addresses.
    launch(f"update.{kernel}", (table(rows),), scale, len(rows[0]), *numbers, count=total, real=real)
