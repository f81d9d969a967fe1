"""Sums and means, and what broadcasting owes to them: the adjoint of a broadcast is a sum."""

from __future__ import annotations

import math

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module

Axis = int | tuple[int, ...] | None


@op
def reduce_sum(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Pair:
    """y = sum of x over `axis` (all axes if None).        gx = g, repeated along those axes."""
    xp = array_module(x)
    axes = normal_axes("reduce_sum", x, axis)
    shape, kept = x.shape, _with_ones(x.shape, axes)

    def vjp(g: Array) -> Grads:
        return (xp.broadcast_to(g.reshape(kept), shape),)

    return x.sum(axis=axes, keepdims=keepdims), vjp


@op
def reduce_mean(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Pair:
    """y = mean of x over `axis` (all axes if None).       gx = g / count, repeated along those axes."""
    xp = array_module(x)
    axes = normal_axes("reduce_mean", x, axis)
    shape, kept = x.shape, _with_ones(x.shape, axes)
    count = math.prod(x.shape[a] for a in axes)
    if count == 0:
        raise ValueError(f"reduce_mean: the mean of nothing: x has shape {x.shape}, axis is {axis}")

    def vjp(g: Array) -> Grads:
        return (xp.broadcast_to((g / count).reshape(kept), shape),)

    return x.sum(axis=axes, keepdims=keepdims) / count, vjp


def sum_to_channels(x: Array) -> Array:
    """(..., C) -> (C,): the sum over all axes but the last.

    One axis at a time: a few short sums round less than one long sum, which matters in float32 for the 10^5
    positions of a batch of images.
    """
    while x.ndim > 1:
        x = x.sum(axis=x.ndim - 2)
    return x


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """The adjoint of broadcasting an array of `shape` to g.shape: sum over the axes that were repeated."""
    if g.shape == shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(a for a, n in enumerate(shape) if n == 1), keepdims=True)


def normal_axes(where: str, x: Array, axis: Axis) -> tuple[int, ...]:
    """`axis` as a tuple of distinct non-negative axes of x."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    normal = tuple(a + x.ndim if a < 0 else a for a in axes)
    if len(set(normal)) != len(normal) or not all(0 <= a < x.ndim for a in normal):
        raise ValueError(f"{where}: axis {axis} does not fit x of shape {x.shape}")
    return normal


def _with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape))
