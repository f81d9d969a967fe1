"""Pooling, one kernel each way: in the derivative each pixel looks at the windows that cover it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import available
from minicnn.fast.cuda.shapes import each_pixel, each_window, lanes, launch_lanes, reciprocals
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
    y, shape = xp.empty((len(x), *windows.out, x.shape[3]), x.dtype), x.shape
    switches = xp.empty(y.shape, np.uint8)
    each_window("pool.max_pool", (y, switches), x, windows)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, g.dtype)
        each_pixel("pool.max_pool_grad", gx, (g, switches), windows)
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
    cells: tuple[int, ...] = ()  # those that count: from, to
    for size, (before, after) in zip(windows.size, windows.pad, strict=True):
        cells += (0, before + size + after) if count_include_pad else (before, before + size)
    y, shape = xp.empty((len(x), *windows.out, x.shape[3]), x.dtype), x.shape
    each_window("pool.avg_pool", (y,), x, windows, *cells)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, g.dtype)
        each_pixel("pool.avg_pool_grad", gx, (g,), windows, *cells)
        return (gx,)

    return y, vjp


def global_avg_pool(x: Array) -> Pair:
    """ops.global_avg_pool."""
    xp = array_module(x)
    n, h, w, c = x.shape

    def vjp(g: Array) -> Grads:
        g, gx = xp.ascontiguousarray(g), xp.empty((n, h, w, c), g.dtype)
        at_once = lanes(c, gx, g)
        numbers = (h * w, c // at_once, *reciprocals(c // at_once, h * w))
        launch_lanes("pool.global_avg_pool_grad", at_once, (gx,), (g,), *numbers)
        return (gx,)

    return x.mean(axis=(1, 2)), vjp
