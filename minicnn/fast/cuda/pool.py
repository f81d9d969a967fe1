"""Pooling, one kernel each way: in the derivative each pixel looks at the windows that cover it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import available, geometry, launch
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size, as_pair

MOST_CELLS = 256  # of a window: where a maximum is fits in a byte


def fits(x: Array, **static: Any) -> bool:
    return available(x) and x.ndim == 4


def fits_max(x: Array, *, k: Size, **static: Any) -> bool:
    return fits(x) and math.prod(as_pair("max_pool2d", "k", k)) <= MOST_CELLS


def fits_global(x: Array) -> bool:
    return fits(x) and x.size > 0


def max_pool2d(x: Array, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d; a byte for each window tells where its maximum is."""
    xp = array_module(x)
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    shape, numbers = x.shape, geometry(windows, x.shape[3])
    y = xp.empty((len(x), *windows.out, shape[3]), x.dtype)
    switches = xp.empty(y.shape, np.uint8)
    launch("pool.max_pool", (y, switches), x, *numbers)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, g.dtype)
        launch("pool.max_pool_grad", (gx,), g, switches, *numbers)
        return (gx,)

    return y, vjp


def avg_pool2d(
    x: Array,
    *,
    k: Size,
    stride: Size | None = None,
    pad: Pad = 0,
    ceil: bool = False,
    count_include_pad: bool = False,
) -> Pair:
    """ops.avg_pool2d."""
    xp = array_module(x)
    windows = pool_windows("avg_pool2d", x, k, stride, pad, ceil)
    shape, numbers = x.shape, geometry(windows, x.shape[3])
    for size, (before, after) in zip(windows.size, windows.pad, strict=True):  # the cells that count: from, to
        numbers += (0, before + size + after) if count_include_pad else (before, before + size)
    y = xp.empty((len(x), *windows.out, shape[3]), x.dtype)
    launch("pool.avg_pool", (y,), x, *numbers)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, g.dtype)
        launch("pool.avg_pool_grad", (gx,), g, *numbers)
        return (gx,)

    return y, vjp


def global_avg_pool(x: Array) -> Pair:
    """ops.global_avg_pool."""
    xp = array_module(x)
    n, h, w, c = x.shape

    def vjp(g: Array) -> Grads:
        gx = xp.empty((n, h, w, c), g.dtype)
        launch("pool.global_avg_pool_grad", (gx,), g, h * w, c)
        return (gx,)

    return x.mean(axis=(1, 2)), vjp
