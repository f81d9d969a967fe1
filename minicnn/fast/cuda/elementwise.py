"""Activations and dropout, one kernel each way."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, Device, array_module, device_of
from minicnn.fast.cuda.kernels import Launch, available, launch, steps_ahead
from minicnn.ops.dropout import rounded_rate
from minicnn.random import LANES_PER_BLOCK, Stream


def fits(x: Array, **static: Any) -> bool:
    return available(x)


def fits_crelu(x: Array, *, axis: int = -1) -> bool:
    return available(x) and x.ndim > 0 and axis in (-1, x.ndim - 1)


def fits_dropout(x: Array, *, rate: float, stream: Stream) -> bool:
    return available(x) and x.ndim > 0 and 0 <= rate < 1


def relu(x: Array) -> Pair:
    """ops.relu; its derivative reads the output."""
    return activated("relu", x, None)


def crelu(x: Array, *, axis: int = -1) -> Pair:
    """ops.crelu on the last axis; its derivative reads the output."""
    return activated("crelu", x, None)


def activated(name: str, x: Array, bias: Array | None) -> Pair:
    """ops.relu or ops.crelu, by name, of x (..., C), after a bias (C,) was added, if one is given."""
    device, dtype, shape = device_of(x), x.dtype, x.shape
    y_shape, forward, backward = _activation(device, dtype, name, shape)
    xp = device.xp
    y = xp.empty(y_shape, dtype)
    forward(y, xp.ascontiguousarray(x), None if bias is None else xp.ascontiguousarray(bias))

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, dtype)
        backward(gx, xp.ascontiguousarray(g), y)
        return (gx,)

    return y, vjp


@lru_cache(1024)  # the shapes of a network come again in every step
def _activation(
    device: Device, dtype: Any, name: str, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], Launch, Launch]:
    """The shape of the output, the kernel, and that of the derivative, for arrays of this dtype."""
    c, size = shape[-1] if shape else 1, math.prod(shape)
    forward = Launch(device, f"elementwise.{name}", c, count=size)
    backward = Launch(device, f"elementwise.{name}_grad", *((c,) if name == "crelu" else ()), count=size)
    return (*shape[:-1], 2 * c) if name == "crelu" else shape, forward, backward


def leaky_relu(x: Array, *, slope: float = 0.01) -> Pair:
    """ops.leaky_relu."""
    return _elementwise("leaky_relu", x, float(slope))


def avr(x: Array) -> Pair:
    """ops.avr."""
    return _elementwise("avr", x)


def _elementwise(name: str, x: Array, *options: float) -> Pair:
    xp = array_module(x)
    y = xp.empty(x.shape, x.dtype)
    launch(f"elementwise.{name}", (y,), x, *options)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(x.shape, x.dtype)
        launch(f"elementwise.{name}_grad", (gx,), g, x, *options)
        return (gx,)

    return y, vjp


def dropout(x: Array, *, rate: float, stream: Stream) -> Pair:
    """ops.dropout: the same random bits, drawn on the device; the derivative keeps one bit for each element."""
    device, dtype, shape = device_of(x), x.dtype, x.shape
    per_sample, forward, backward = _dropout(device, dtype, shape, *rounded_rate(rate))
    xp = device.xp
    y, words = xp.empty(shape, dtype), xp.empty(shape[0] * per_sample, np.uint16)
    place = (*stream.key, np.uint64(stream.step), np.uint64(stream.first * per_sample))
    forward(y, words, xp.ascontiguousarray(x), steps_ahead.get(), numbers=place)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, dtype)
        backward(gx, xp.ascontiguousarray(g), words)
        return (gx,)

    return y, vjp


@lru_cache(1024)
def _dropout(
    device: Device, dtype: Any, shape: tuple[int, ...], threshold: int, scale: float
) -> tuple[int, Launch, Launch]:
    """The number of words for a sample, the kernel, and that of the derivative, for arrays of this dtype."""
    n, size = shape[0], math.prod(shape[1:])
    per_sample = -(-size // LANES_PER_BLOCK)
    forward = Launch(device, "dropout.dropout", threshold, scale, size, per_sample, count=n * per_sample)
    return per_sample, forward, Launch(device, "dropout.dropout_grad", scale, size, per_sample, count=n * size)
