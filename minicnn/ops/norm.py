"""Batch normalisation (Ioffe and Szegedy 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable

from minicnn.autodiff import Grads, Pair, check_float, op
from minicnn.backend import Array, array_module, device_of, version_of
from minicnn.cluster import Part
from minicnn.ops.reduce import sum_to_channels
from minicnn.parallel import sum_over_batch

# [(fits, version)]: faster versions of `_moments`, entered by minicnn/fast/dispatch.py
FASTER_MOMENTS: list[tuple[Callable[[Array], bool], Callable[[Array, Part, int], tuple[Array, Array]]]] = []
FASTER_RUNNING: list[tuple[Callable[[Array, Array], bool], Callable[..., None]]] = []  # and of `update_running`


def batch_moments(x: Array, part: Part | None = None) -> tuple[Array, Array]:
    """Mean and (biased) variance of each channel: x (N, ..., C) -> (C,), (C,).

    If x is this rank's `part` of a batch, they are those of the whole batch, the same on every rank.
    """
    check_float("batch_moments", "x", x)
    part, count = part_and_count(x, part)
    if x.ndim < 2 or count == 0:
        raise ValueError(f"batch_moments: x must have shape (N, ..., C) and not be empty, got {x.shape}")
    with device_of(x).active():  # as Op.pair does for ops; this is not one
        return version_of(_moments, FASTER_MOMENTS, x)(x, part, count)


def _moments(x: Array, part: Part, count: int) -> tuple[Array, Array]:
    """mean = sum of x / count,   var = sum of (x - mean)^2 / count, over the whole batch."""
    xp, sample_bytes = array_module(x), 2 * x[:1].nbytes

    def add_values(piece: slice, total: Array) -> None:
        total[...] = sum_to_channels(x[piece])

    def add_squares(piece: slice, total: Array) -> None:
        centred = x[piece] - mean
        total[...] = sum_to_channels(centred * centred)

    mean, var = (xp.zeros(x.shape[-1], x.dtype) for _ in range(2))
    sum_over_batch(add_values, len(x), sample_bytes, into=mean)
    mean = part.sum(mean) / count
    sum_over_batch(add_squares, len(x), sample_bytes, into=var)
    return mean, part.sum(var) / count


def update_running(running: tuple[Array, Array], now: tuple[Array, Array], momentum: float, unbiased: float) -> None:
    """running = (1 - momentum) running + momentum now, in place: of the mean, and of the variance times `unbiased`."""
    with device_of(running[0]).active():
        version_of(_update_running, FASTER_RUNNING, running[0], now[0])(running, now, momentum, unbiased)


def _update_running(running: tuple[Array, Array], now: tuple[Array, Array], momentum: float, unbiased: float) -> None:
    for kept, value in zip(running, (now[0], now[1] * unbiased), strict=True):
        kept[...] = (1 - momentum) * kept + momentum * value


def part_and_count(x: Array, part: Part | None) -> tuple[Part, int]:
    """The part of a batch that x is (all of it if None is given); how many values the whole batch has per channel."""
    part = part or Part(0, len(x) if x.ndim else 0)
    return part, part.total * math.prod(x.shape[1:-1])


@op
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
    """y = gamma h + beta,   h = (x - mean) / sqrt(var + eps), channel by channel: x (..., C), gamma, beta (C,).

    ggamma = sum of g h,   gbeta = sum of g,   and with s = gamma / sqrt(var + eps) and M = size of x / C:

    training    moments of this batch (computed here unless given), which depend on x:
                gx = s (g - gbeta / M - h ggamma / M)
    evaluation  `moments` given and `fixed`: constants, gx = s g

    If x is this rank's `part` of a batch, the moments, M and the two sums in gx are those of the whole batch, while
    ggamma and gbeta are this rank's summands, like the gradients of all other parameters.
    """
    check_norm(x, gamma, beta, moments, fixed)
    xp = array_module(x)
    mean, var = batch_moments(x, part) if moments is None else moments
    inverse_std = 1 / xp.sqrt(var + eps)  # (C,)
    part, count = part_and_count(x, part)
    y = (x - mean) * (inverse_std * gamma) + beta

    def vjp(g: Array) -> Grads:
        h = (x - mean) * inverse_std  # computed again: keeping it would cost as much memory as x
        ggamma, gbeta = sum_to_channels(g * h), sum_to_channels(g)
        if fixed:
            return g * (gamma * inverse_std), ggamma, gbeta
        sum_gh, sum_g = part.sum(xp.stack([ggamma, gbeta]))  # over the whole batch
        return (g - (sum_g + h * sum_gh) / count) * (gamma * inverse_std), ggamma, gbeta

    return y, vjp


def check_norm(x: Array, gamma: Array, beta: Array, moments: tuple[Array, Array] | None, fixed: bool) -> None:
    """The arguments of a batch normalisation fit together."""
    c = x.shape[-1] if x.ndim else 0
    if x.ndim < 2 or gamma.shape != (c,) or beta.shape != (c,):
        raise ValueError(
            f"batch_norm: expected x (N, ..., C), gamma (C,), beta (C,), got {x.shape}, {gamma.shape}, {beta.shape}"
        )
    if moments is None:
        if fixed:
            raise ValueError("batch_norm: fixed=True needs moments=(mean, variance)")
        return
    mean, var = moments
    if mean.shape != (c,) or var.shape != (c,):
        raise ValueError(f"batch_norm: moments must be two arrays of shape ({c},), got {mean.shape} and {var.shape}")
    if device_of(mean).name != device_of(x).name:
        raise TypeError(f"batch_norm: x is on {device_of(x)}, its moments on {device_of(mean)}; move them")
    if not mean.dtype == var.dtype == x.dtype:
        raise TypeError(f"batch_norm: x has dtype {x.dtype}, its moments {mean.dtype} and {var.dtype}; convert them")
