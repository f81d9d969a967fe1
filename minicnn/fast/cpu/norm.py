"""Batch normalisation, a piece that fits in the cache at a time, on every core."""

from __future__ import annotations

import math

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.elementwise import LEAST_SIZE
from minicnn.fast.cpu.memory import empty
from minicnn.ops.reduce import sum_to_channels
from minicnn.parallel import over_batch, sum_over_batch

Moments = tuple[np.ndarray, np.ndarray]


def fits(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    moments: Moments | None = None,
    fixed: bool = False,
    eps: float = 1e-5,
) -> bool:
    c = x.shape[-1] if x.ndim else 0
    return (
        type(x) is np.ndarray
        and x.ndim > 1
        and x.size >= LEAST_SIZE
        and gamma.shape == beta.shape == (c,)
        and (moments is None or (moments[0].shape == moments[1].shape == (c,)))
        and not (fixed and moments is None)
    )


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    moments: Moments | None = None,
    fixed: bool = False,
    eps: float = 1e-5,
) -> Pair:
    """ops.batch_norm: y = x scale + shift in one pass; its derivative in two."""
    mean, var = ops.batch_moments(x) if moments is None else moments
    inverse_std = 1 / np.sqrt(var + eps)
    scale = inverse_std * gamma
    n, c, count = len(x), x.shape[-1], math.prod(x.shape[:-1])
    y = empty(x.shape, x.dtype)

    def forward(p: slice) -> None:
        np.subtract(x[p], mean, out=y[p])
        y[p] *= scale
        y[p] += beta

    over_batch(forward, n, 2 * x[:1].nbytes, x)

    def vjp(g: np.ndarray) -> Grads:
        sums = np.zeros((2, c), x.dtype)  # of g h and of g, where h = (x - mean) / std

        def both(p: slice, part: np.ndarray) -> None:
            h = (x[p] - mean) * inverse_std
            h *= g[p]
            part[0], part[1] = sum_to_channels(h), sum_to_channels(g[p])

        sum_over_batch(both, n, 3 * x[:1].nbytes, into=sums)
        ggamma, gbeta = sums
        gx = empty(x.shape, x.dtype)

        def work(p: slice) -> None:  # scale (g - gbeta / M - h ggamma / M)
            if fixed:
                np.multiply(g[p], scale, out=gx[p])
                return
            np.subtract(x[p], mean, out=gx[p])
            gx[p] *= -inverse_std * ggamma / count
            gx[p] += g[p]
            gx[p] -= gbeta / count
            gx[p] *= scale

        over_batch(work, n, 3 * x[:1].nbytes, x)
        return gx, ggamma.copy(), gbeta.copy()

    return y, vjp
