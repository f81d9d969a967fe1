"""Batch normalisation, a piece that fits in the cache at a time, on every core."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.cluster import Part
from minicnn.fast.cpu import elementwise
from minicnn.fast.cpu.memory import empty
from minicnn.ops.norm import check_norm, part_and_count
from minicnn.parallel import over_batch, scratch, sum_over_batch


def fits(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, **static: Any) -> bool:
    return elementwise.fits(x)


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    moments: tuple[np.ndarray, np.ndarray] | None = None,
    fixed: bool = False,
    part: Part | None = None,
    eps: float = 1e-5,
) -> Pair:
    """ops.batch_norm: y = x scale + shift in one pass; its derivative in two."""
    check_norm(x, gamma, beta, moments, fixed)
    mean, var = ops.batch_moments(x, part) if moments is None else moments
    inverse_std = 1 / np.sqrt(var + eps)
    scale = inverse_std * gamma
    shift = beta - mean * scale
    part, count = part_and_count(x, part)
    n, c = len(x), x.shape[-1]
    y = empty(x.shape, x.dtype)

    def forward(p: slice) -> None:
        np.multiply(x[p], scale, out=y[p])
        y[p] += shift

    over_batch(forward, n, 2 * x[:1].nbytes, x)

    def vjp(g: np.ndarray) -> Grads:
        sums = np.zeros((2, c), x.dtype)  # (2, C): of g (x - mean), and of g

        def add_up(p: slice, here: np.ndarray) -> None:
            centred = np.subtract(x[p], mean, out=scratch("centred", x[p].shape, x.dtype))
            np.einsum("ij,ij->j", centred.reshape(-1, c), g[p].reshape(-1, c), out=here[0])
            np.einsum("ij->j", g[p].reshape(-1, c), out=here[1])

        sum_over_batch(add_up, n, 3 * x[:1].nbytes, into=sums)
        sums[0] *= inverse_std
        ggamma, gbeta = sums.copy()
        sum_gh, sum_g = sums if fixed else part.sum(sums)
        gx = empty(x.shape, x.dtype)
        # gx = scale (g - sum_g / M - h sum_gh / M) = scale g + slope x + constant
        slope = -scale * inverse_std * sum_gh / count
        constant = -scale * sum_g / count - slope * mean

        def work(p: slice) -> None:
            np.multiply(g[p], scale, out=gx[p])
            if not fixed:
                gx[p] += np.multiply(x[p], slope, out=scratch("slope", x[p].shape, x.dtype))
                gx[p] += constant

        over_batch(work, n, 3 * x[:1].nbytes, x)
        return gx, ggamma, gbeta

    return y, vjp
