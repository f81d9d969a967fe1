"""Batch normalisation: one kernel forward, two and a sum for the derivative; the moments, two kernels and two sums.

One more keeps the running moments.
"""

from __future__ import annotations

import math
from typing import Any

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.cluster import Part
from minicnn.fast.cuda.kernels import available, launch
from minicnn.fast.cuda.sums import chunk_length, sum_rows, sum_squares
from minicnn.ops.norm import check_norm, part_and_count


def fits_moments(x: Array) -> bool:
    return available(x) and x.size > 0


def batch_moments(x: Array, part: Part, count: int) -> tuple[Array, Array]:
    """ops.batch_moments, of this rank's part of a batch with `count` values per channel."""
    mean = part.sum(sum_rows(x)) / count
    return mean, part.sum(sum_squares(x, mean)) / count


def fits_running(running: Array, now: Array) -> bool:
    return available(running) and running.dtype == now.dtype


def update_running(running: tuple[Array, Array], now: tuple[Array, Array], momentum: float, unbiased: float) -> None:
    """ops.norm.update_running."""
    launch("norm.update_running", running, *now, momentum, unbiased)


def fits(x: Array, gamma: Array, beta: Array, **static: Any) -> bool:
    return available(x) and x.size > 0


def batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    moments: tuple[Array, Array] | None = None,
    fixed: bool = False,
    part: Part | None = None,
    eps: float = 1e-5,
) -> Pair:
    """ops.batch_norm."""
    check_norm(x, gamma, beta, moments, fixed)
    xp = array_module(x)
    mean, var = ops.batch_moments(x, part) if moments is None else moments
    part, count = part_and_count(x, part)
    c, rows = x.shape[-1], math.prod(x.shape[:-1])
    y = xp.empty(x.shape, x.dtype)
    launch("norm.batch_norm", (y,), x, mean, var, gamma, beta, float(eps), c)

    def vjp(g: Array) -> Grads:
        length = chunk_length(rows, c)
        chunks = xp.empty((2, -(-rows // length), c), x.dtype)
        launch("norm.batch_norm_sums", (chunks,), g, x, mean, rows, length, c, count=chunks.size // 2)
        sums = chunks.sum(axis=1)  # (2, C): of g (x - mean), and of g
        over_batch = sums if fixed else part.sum(sums)  # a rank without samples adds the textbook's zeros
        gx, ggamma, gbeta = (xp.empty(shape, x.dtype) for shape in (x.shape, c, c))
        inputs = (g, x, mean, var, gamma, sums, over_batch)
        launch("norm.batch_norm_grad", (gx, ggamma, gbeta), *inputs, float(eps), float(count), fixed, c)
        return gx, ggamma, gbeta

    return y, vjp
