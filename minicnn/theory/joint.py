"""Images from deep features, all layers at once: solve f(x) = y for x itself, by Gauss-Newton on linear pieces.

Layer by layer (theory/reconstruction.py), each step back loses what its filters do not span, and the next one starts
from that.  But the features of an image are not any features: they come from H W 3 numbers, and a deep layer may have
more responses than that.  f, the network up to the responses of a layer, is piecewise linear (theory/piecewise.py).

**Residual.**  What the features of the last layer say about its responses z:

    crelu    z itself:                                          r = z - y
    relu     z where y > 0, and only that z <= 0 elsewhere:      r = z - y where y > 0, else max(z, 0)
    avr      |z|:                                               r = |z| - y

**Solver.** min ||r(x)||^2 over a box (the pixel bounds, the only prior). Each step solves ||J d + r||^2 + damping
(||J g|| / ||g||)^2 ||d||^2, g the gradient, by conjugate gradients (CGLS) over the pixels that are not held at a
bound, then tries x + d cut to the box; steps cross pieces freely. The damping falls by 4 after a step that helps and
grows by 4 after one that does not (Levenberg, Marquardt), for every image by itself.

**Start.** Noise around the middle of the box, and not the middle itself: in a picture of one colour all cells of a
pooling window tie (away from padding).  Without known switches the pool chooses the first of them, and that piece is
right only where this cell grows most: where a maximum must fall, lowering one cell does not help, and no step is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host, where_its_arrays_are
from minicnn.random import Stream
from minicnn.theory.operators import dot, norm, positive
from minicnn.theory.piecewise import Known, Network

STEPS, INNER = 60, 40  # of Gauss-Newton, and of conjugate gradients in each
NOISE = 1 / 8  # standard deviation at the start, as a share of the box


class Solved(NamedTuple):
    """x with its history: one row per step, the first for the start, on the host."""

    x: Array
    residuals: np.ndarray  # (steps + 1, N): ||r|| / ||y||
    converged: np.ndarray  # (N,) whether ||r|| / ||y|| came below the tolerance


@where_its_arrays_are
def residual(z: Array, y: Array, activation: str) -> tuple[Array, Array]:
    """r(z) and its slope, for responses z and features y."""
    xp = array_module(z)
    if activation == "crelu":
        f = z.shape[-1]
        return z - (y[..., :f] - y[..., f:]), xp.ones_like(z)
    if activation == "relu":
        told = (y > 0) | (z > 0)
        return xp.where(told, z - y, 0), told.astype(z.dtype)
    sign = xp.where(z >= 0, 1, -1).astype(z.dtype)
    return abs(z) - y, sign


@where_its_arrays_are
def invert_jointly(
    network: Network,
    known: Known,
    *,
    low: Array,
    high: Array,
    start: Array | None = None,
    steps: int = STEPS,
    inner: int = INNER,
    tolerance: float = 1e-4,
    callback: Callable[[int, Array], None] | None = None,
) -> Solved:
    """x in the box low .. high (arrays that broadcast to images) with the features that are known.

    start     images to begin with; by default noise around the middle of the box, the same in every call
    steps     of Gauss-Newton, at most;   inner   of conjugate gradients in each
    """
    xp, last = network.xp, network.stages[-1].activation
    shape = (len(known.y), *network.convs[0].input_shape)
    if known.y.shape[1:3] != network.convs[-1].output_shape[:2] or not bool(xp.isfinite(known.y).all()):
        raise ValueError(f"invert_jointly: features of shape {known.y.shape} are not finite or do not fit the network")
    low, high = (xp.broadcast_to(xp.asarray(a, known.y.dtype), shape) for a in (low, high))
    x = xp.clip(_start(low, high) if start is None else start, low, high)
    size = positive(norm(known.y))
    damping = xp.full(len(x), 1e-2, x.dtype)
    r, slope = residual(network.forward(x, known.switches), known.y, last)
    error = norm(r)
    history = [error / size]
    for step in range(1, steps + 1):
        if bool((history[-1] <= tolerance).all()):
            break
        gradient = network.vjp(slope * r)
        free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
        scale = _curvature(network, slope, gradient * free)
        d = _cgls(network, slope, -gradient * free, free, damping * scale, inner)
        candidate = xp.clip(x + d, low, high)
        z = network.forward(candidate, known.switches)
        tried, new_slope = residual(z, known.y, last)
        better = norm(tried) < error
        each = better[:, None, None, None]
        x = xp.where(each, candidate, x)
        damping = xp.clip(xp.where(better, damping / 4, damping * 4), 1e-8, 1e4)
        if bool(better.all()):
            r, slope = tried, new_slope
        else:  # some images stay: the piece of each is that of its x
            r, slope = residual(network.forward(x, known.switches), known.y, last)
        error = norm(r)
        history.append(error / size)
        if callback is not None:
            callback(step, x)
        if bool((~better & (damping >= 1e4)).all()):
            break
    residuals = to_host(xp.stack(history))
    return Solved(x, residuals, residuals[-1] <= tolerance)


def _start(low: Array, high: Array) -> Array:
    """Images (N, H, W, C) around the middle of the box low .. high, all with the same noise."""
    drawn = Stream(0).child("start of joint inversion").generator().standard_normal(low.shape[1:])
    noise = NOISE * array_module(low).asarray(drawn.astype(low.dtype))
    return 0.5 * (low + high) + noise * (high - low)


def _curvature(network: Network, slope: Array, g: Array) -> Array:
    """||J g||^2 / ||g||^2 of every image: what damping is measured against."""
    along = slope * network.jvp(g)
    return dot(along, along) / positive(dot(g, g))


def _cgls(network: Network, slope: Array, g: Array, free: Array, damping: Array, steps: int) -> Array:
    """d with (J' J + damping) d = g over the free pixels: conjugate gradients, from 0."""
    wide = damping[:, None, None, None]
    d, r = array_module(g).zeros_like(g), g
    p, rr = r, dot(r, r)
    enough = 1e-6 * rr
    for _ in range(steps):
        q = free * network.vjp(slope * (slope * network.jvp(p))) + wide * p
        a = (rr / positive(dot(p, q)))[:, None, None, None]
        d, r = d + a * p, r - a * q
        rr, before = dot(r, r), rr
        if bool((rr <= enough).all()):
            break
        p = r + (rr / positive(before))[:, None, None, None] * p
    return d
