"""Pooling, one kernel each way: in the derivative each pixel looks at the windows that cover it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, Device, device_of
from minicnn.fast.cuda.kernels import available
from minicnn.fast.cuda.shapes import LanesLaunch, each_pixel, each_window, reciprocals
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size, Windows, as_pair

MOST_CELLS = 256  # of a window: where a maximum is fits in a byte


def fits(x: Array, **static: Any) -> bool:
    return available(x) and x.ndim == 4


def fits_max(x: Array, *, k: Size, **static: Any) -> bool:
    return fits(x) and math.prod(as_pair("max_pool2d", "k", k)) <= MOST_CELLS


def fits_global(x: Array) -> bool:
    return fits(x) and x.size > 0


def max_pool2d(x: Array, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d; a byte for each window tells where its maximum is."""
    device, dtype, shape = device_of(x), x.dtype, x.shape
    layer = _layer(device, dtype, "max_pool", pool_windows("max_pool2d", x, k, stride, pad, ceil), shape)
    xp = device.xp
    y, switches = xp.empty(layer.y_shape, dtype), xp.empty(layer.y_shape, np.uint8)
    layer.forward(y, switches, xp.ascontiguousarray(x))

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, dtype)
        layer.backward(gx, xp.ascontiguousarray(g), switches)
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
    device, dtype, shape = device_of(x), x.dtype, x.shape
    windows = pool_windows("avg_pool2d", x, k, stride, pad, ceil)
    cells: tuple[int, ...] = ()  # those that count: from, to
    for size, (before, after) in zip(windows.size, windows.pad, strict=True):
        cells += (0, before + size + after) if count_include_pad else (before, before + size)
    layer = _layer(device, dtype, "avg_pool", windows, shape, *cells)
    xp = device.xp
    y = xp.empty(layer.y_shape, dtype)
    layer.forward(y, xp.ascontiguousarray(x))

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, dtype)
        layer.backward(gx, xp.ascontiguousarray(g))
        return (gx,)

    return y, vjp


class Layer:
    """What follows from the shapes of a pool, its options, dtype and device: the same in every step."""

    def __init__(self, device: Device, dtype: Any, name: str, windows: Windows, shape: tuple[int, ...], *numbers: int):
        n, _, _, c = shape
        self.y_shape = (n, *windows.out, c)
        self.forward = each_window(device, f"pool.{name}", n, c, windows, *numbers)
        self.backward = each_pixel(device, f"pool.{name}_grad", n, c, windows, *numbers)


_layer = lru_cache(1024)(Layer)


def global_avg_pool(x: Array) -> Pair:
    """ops.global_avg_pool."""
    device, dtype, shape = device_of(x), x.dtype, x.shape

    def vjp(g: Array) -> Grads:
        gx = device.xp.empty(shape, dtype)
        _global_avg_pool_grad(device, dtype, shape)(gx, device.xp.ascontiguousarray(g))
        return (gx,)

    return x.mean(axis=(1, 2)), vjp


@lru_cache(1024)
def _global_avg_pool_grad(device: Device, dtype: Any, shape: tuple[int, ...]) -> LanesLaunch:
    _, h, w, c = shape
    told = lambda channels: (h * w, channels, *reciprocals(channels, h * w))
    return LanesLaunch(device, "pool.global_avg_pool_grad", c, math.prod(shape), told)
