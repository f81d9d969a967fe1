"""Activations and dropout, one kernel each way."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import available, launch, steps_ahead
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
    xp, c, shape = array_module(x), x.shape[-1] if x.ndim else 1, x.shape
    y = xp.empty((*shape[:-1], 2 * c) if name == "crelu" else shape, x.dtype)
    launch(f"elementwise.{name}", (y,), x, bias, c, count=x.size)

    def vjp(g: Array) -> Grads:
        gx = xp.empty(shape, y.dtype)
        launch(f"elementwise.{name}_grad", (gx,), g, y, *((c,) if name == "crelu" else ()))
        return (gx,)

    return y, vjp


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
    xp = array_module(x)
    threshold, scale = rounded_rate(rate)
    size = x[:1].size
    per_sample = -(-size // LANES_PER_BLOCK)
    y, words = xp.empty(x.shape, x.dtype), xp.empty(len(x) * per_sample, np.uint16)
    place = (*stream.key, np.uint64(stream.step), np.uint64(stream.first * per_sample))
    launch(
        "dropout.dropout", (y, words), x, steps_ahead.get(), *place, threshold, scale, size, per_sample,
        count=len(words),
    )  # fmt: skip

    def vjp(g: Array) -> Grads:
        gx = xp.empty(g.shape, g.dtype)
        launch("dropout.dropout_grad", (gx,), g, words, scale, size, per_sample)
        return (gx,)

    return y, vjp
