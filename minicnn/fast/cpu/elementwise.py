"""Activations and dropout, a piece that fits in the cache at a time, on every core."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.ops.dropout import rounded_rate
from minicnn.parallel import over_batch, scratch
from minicnn.random import Stream

LEAST_SIZE = 1 << 15  # for smaller arrays, handing out work costs more than it saves


def fits(x: np.ndarray, **static: Any) -> bool:
    return type(x) is np.ndarray and x.ndim > 1 and x.size >= LEAST_SIZE


def fits_crelu(x: np.ndarray, *, axis: int = -1) -> bool:
    return fits(x) and axis in (-1, x.ndim - 1)


def fits_dropout(x: np.ndarray, *, rate: float, stream: Stream) -> bool:
    return fits(x) and 0 <= rate < 1


def relu(x: np.ndarray) -> Pair:
    """ops.relu; its derivative reads the output."""
    y = empty(x.shape, x.dtype)
    over_batch(lambda p: np.maximum(x[p], 0, out=y[p]), len(x), x[:1].nbytes, x)

    def vjp(g: np.ndarray) -> Grads:
        gx = empty(y.shape, g.dtype)
        over_batch(lambda p: keep(g[p], positive(y[p]), gx[p]), len(y), 3 * y[:1].nbytes, y)
        return (gx,)

    return y, vjp


def crelu(x: np.ndarray, *, axis: int = -1) -> Pair:
    """ops.crelu on the last axis: both halves in one pass; its derivative reads the output."""
    c = x.shape[-1]
    y = empty((*x.shape[:-1], 2 * c), x.dtype)

    def forward(p: slice) -> None:
        y[p][..., :c] = x[p]
        # Not np.negative: from an x with a stride of 4 (float32) or 8 numbers to an `out` with gaps it reads other
        # numbers than those of x (NumPy 2.4, AVX-512).
        np.subtract(0, x[p], out=y[p][..., c:])
        np.maximum(y[p], 0, out=y[p])

    over_batch(forward, len(x), 3 * x[:1].nbytes, x)

    def vjp(g: np.ndarray) -> Grads:
        gx = empty((*y.shape[:-1], c), g.dtype)  # not x.shape: that would keep x in memory

        def work(p: slice) -> None:
            active = scratch("active", g[p].shape, g.dtype)
            keep(g[p], positive(y[p]), active)
            np.subtract(active[..., :c], active[..., c:], out=gx[p])

        over_batch(work, len(y), 3 * y[:1].nbytes, y)
        return (gx,)

    return y, vjp


def dropout(x: np.ndarray, *, rate: float, stream: Stream) -> Pair:
    """ops.dropout: every worker draws the bits of its own samples; the derivative keeps a byte for each element."""
    threshold, scale = rounded_rate(rate)
    size = x[:1].size
    kept = empty(x.shape, np.int8)  # 0 and -1: all bits or none

    def masked(values: np.ndarray, draw: bool) -> np.ndarray:
        out = empty(values.shape, values.dtype)

        def work(p: slice) -> None:
            if draw:
                drawn = stream.at(stream.step, stream.first + p.start).uniform16(p.stop - p.start, size)
                bits(np.greater_equal(drawn, threshold, out=kept[p].reshape(-1, size).view(bool)))
            np.multiply(values[p], scale, out=out[p])
            keep(out[p], kept[p], out[p])

        over_batch(work, len(values), 3 * values[:1].nbytes, values)
        return out

    return masked(x, True), lambda g: (masked(g, False),)


def positive(y: np.ndarray) -> np.ndarray:
    """A mask for `keep`: all bits where y > 0."""
    return bits(np.greater(y, 0, out=scratch("positive", y.shape, bool)))


def bits(mask: np.ndarray) -> np.ndarray:
    """True and false (1 and 0) become bytes with all bits set and none (-1 and 0), in the memory of the mask."""
    as_bytes = mask.view(np.int8)
    return np.negative(as_bytes, out=as_bytes)


def keep(values: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
    """out = values where the bits of the mask are set, 0 elsewhere, also for inf and NaN: faster than np.where."""
    integer = np.int32 if values.dtype == np.float32 else np.int64
    wide = scratch("wide", mask.shape, integer)
    np.copyto(wide, mask)  # -1 is still -1, all bits, as a wider integer
    np.bitwise_and(values.view(integer), wide, out=out.view(integer))
