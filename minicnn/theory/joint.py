"""Images from deep features, all layers at once: solve f(x) = y for x itself, by Gauss-Newton on linear pieces.

Layer by layer (theory/reconstruction.py), each step back loses what its filters do not span, and the next one starts
from that.  But the features of an image are not any features: they come from H W 3 numbers, and a deep layer may have
more responses than that.  f, the network up to the responses of a layer, is piecewise linear.  On a piece,

    f(x + d) = f(x) + J d,      J d: the layers with frozen signs and switches (`jvp`);      J' g: backwards (`vjp`).

**Residual.**  What the features of the last layer say about its responses z:

    crelu    z itself:                                          r = z - y
    relu     z where y > 0, and only that z <= 0 elsewhere:      r = z - y where y > 0, else max(z, 0)
    avr      |z|:                                               r = |z| - y

**Solver.**  min ||r(x)||^2 over a box (the pixel bounds, the only prior).  Each step solves ||J d + r||^2 + damping
||d||^2 by conjugate gradients (CGLS) over the pixels that are not held at a bound, then tries x + d cut to the box;
steps cross pieces freely.  The damping falls by 4 after a step that helps and grows by 4 after one that does not
(Levenberg, Marquardt), for every image by itself.

**Pooling.**  The switches of the true features (`Known.switches`) say which cell each maximum was in, and whether that
phase fired at all.  So the response in that cell, sign included, is what was pooled: behind a pool the layer is linear
in x's responses, with no sign to guess.  Without switches, the pool takes its own maxima.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host
from minicnn.ops.pool import max_pool2d_switches
from minicnn.ops.windows import Size, Windows, as_pair
from minicnn.theory.operators import Convolution
from minicnn.theory.reconstruction import Layer

ACTIVATIONS = ("crelu", "relu", "avr")
STEPS, INNER = 60, 40  # of Gauss-Newton, and of conjugate gradients in each


class Stage(NamedTuple):
    """conv + activation, then a max pool if `pool` holds k, stride, pad and ceil."""

    layer: Layer
    activation: str
    pool: dict[str, Any] | None = None


class Known(NamedTuple):
    """What is given: the features of the last stage before its pool, and perhaps the switches of the pools before."""

    y: Array  # (N, OH, OW, F or 2 F)
    switches: list[Array | None] | None = None  # by stage, (N, PH, PW, C): flat places in a map, -1: did not fire


class Solved(NamedTuple):
    """x with its history: one row per step, the first for the start, on the host."""

    x: Array
    residuals: np.ndarray  # (steps + 1, N): ||r|| / ||y||
    converged: np.ndarray  # (N,) whether ||r|| / ||y|| came below the tolerance


class _Piece(NamedTuple):
    """Where an activation and its pool are linear: on responses z with certain signs, and maxima in certain places.

    As all activations here are positively homogeneous, `forward` is both the value at z and the derivative along z.
    """

    slope: Array  # by response; or, if the signs were told, by pooled value: 1 where it fired
    places: Array | None  # (N, PH, PW, C): what the pool reads
    fired: Array | None  # the same with -1 where the maximum is 0
    told: bool = False

    def forward(self, z: Array, activation: str) -> Array:
        xp = array_module(z)
        if self.told:
            both = xp.concatenate((z, -z), -1) if activation == "crelu" else z
            return self.slope * _gather(both, self.places)
        maps = xp.concatenate((z * self.slope, z * (self.slope - 1)), -1) if activation == "crelu" else z * self.slope
        return maps if self.places is None else _gather(maps, self.places)

    def adjoint(self, g: Array, activation: str, size: tuple[int, int]) -> Array:
        if self.places is not None:
            g = _scatter(self.slope * g if self.told else g, self.places, size)
        positive, negative = (1, -1) if self.told else (self.slope, self.slope - 1)
        if activation == "crelu":
            f = g.shape[-1] // 2
            return g[..., :f] * positive + g[..., f:] * negative
        return g * positive


class Network:
    """f and its derivative on the piece of the last `forward`."""

    def __init__(self, stages: Sequence[Stage], size: Size):
        if not stages:
            raise ValueError("joint.Network: needs at least one stage")
        if unknown := [s.activation for s in stages if s.activation not in ACTIVATIONS]:
            raise ValueError(f"joint.Network: activations must be of {', '.join(ACTIVATIONS)}, got {unknown[0]!r}")
        self.stages, self.convs = list(stages), []
        self.pools: list[Windows | None] = []
        size = as_pair("joint.Network", "size", size)
        for (w, _, stride, pad), activation, pool in stages:
            conv = Convolution(w, size, stride=stride, pad=pad)
            channels = w.shape[3] * (2 if activation == "crelu" else 1)
            self.convs.append(conv)
            over = None
            size = conv.output_shape[:2]
            if pool is not None:
                over = Windows.over("joint.Network", np.empty((1, *size, channels), np.float32), **pool)
                size = over.out
            self.pools.append(over)
        self.xp = self.convs[0].xp
        self._piece: list[_Piece] = []  # by stage

    @property
    def responses_per_number(self) -> float:
        """How many equations CReLU features give for each number of the image."""
        return math.prod(self.convs[-1].output_shape) / math.prod(self.convs[0].input_shape)

    def features(self, x: Array) -> Known:
        """What is known of images x (N, H, W, C): the features of the last stage, and the switches on the way."""
        z = self.forward(x)
        last = self.stages[-1].activation
        return Known(_Piece(_slope(z, last), None, None).forward(z, last), [piece.fired for piece in self._piece])

    def forward(self, x: Array, switches: list[Array | None] | None = None) -> Array:
        """The responses of the last stage, (N, OH, OW, F); keeps the piece that x is in."""
        self._piece = []
        for i, stage in enumerate(self.stages):
            z = self.convs[i].analysis(x)
            if stage.layer.b is not None:
                z = z + stage.layer.b
            if i == len(self.stages) - 1:
                break
            self._piece.append(piece := self._find_piece(z, i, None if switches is None else switches[i]))
            x = piece.forward(z, stage.activation)
        return z

    def _find_piece(self, z: Array, i: int, given: Array | None) -> _Piece:
        """The piece of stage i that responses z are in, with its own maxima or with the switches that are given."""
        xp, activation = self.xp, self.stages[i].activation
        slope = _slope(z, activation)
        if given is None and self.pools[i] is None:
            return _Piece(slope, None, None)
        if given is None:
            maps = _Piece(slope, None, None).forward(z, activation)
            places = self._own_places(maps, i)
            return _Piece(slope, places, xp.where(_gather(maps, places) > 0, places, -1))
        places = xp.maximum(given, 0)
        if activation != "avr":  # the sign of what fired is known; that of a modulus is not
            slope = (given >= 0).astype(z.dtype)
        return _Piece(slope, places, given, told=activation != "avr")

    def _own_places(self, maps: Array, i: int) -> Array:
        """The flat place of every maximum in its map."""
        over = self.pools[i]
        assert over is not None
        inside = max_pool2d_switches(maps, **(self.stages[i].pool or {})).astype(np.int64)  # (N, PH, PW, C)
        rows = self.xp.arange(over.out[0])[:, None, None] * over.stride[0] - over.pad[0][0] + inside // over.k[1]
        columns = self.xp.arange(over.out[1])[:, None] * over.stride[1] - over.pad[1][0] + inside % over.k[1]
        return rows * maps.shape[2] + columns

    def jvp(self, d: Array) -> Array:
        """J d on the piece: (N, H, W, C) -> (N, OH, OW, F)."""
        for conv, piece, stage in zip(self.convs, self._piece, self.stages, strict=False):
            d = piece.forward(conv.analysis(d), stage.activation)
        return self.convs[-1].analysis(d)

    def vjp(self, g: Array) -> Array:
        """J' g on the piece: (N, OH, OW, F) -> (N, H, W, C)."""
        g = self.convs[-1].synthesis(g)
        for i in reversed(range(len(self._piece))):
            conv = self.convs[i]
            g = conv.synthesis(self._piece[i].adjoint(g, self.stages[i].activation, conv.output_shape[:2]))
        return g


def _slope(z: Array, activation: str) -> Array:
    """d rho / d z; for CReLU that of the positive phase, which is 1 more than that of the negative one."""
    positive = (z > 0).astype(z.dtype)
    return 2 * positive - 1 if activation == "avr" else positive


def _gather(maps: Array, places: Array) -> Array:
    n, _, _, c = maps.shape
    flat = array_module(maps).take_along_axis(maps.reshape(n, -1, c), places.reshape(n, -1, c), axis=1)
    return flat.reshape(places.shape)


def _scatter(g: Array, places: Array, size: tuple[int, int]) -> Array:
    """The adjoint of _gather: overlapping windows add up."""
    xp, (n, _, _, c) = array_module(g), g.shape
    cells = size[0] * size[1]
    at = (xp.arange(n)[:, None, None] * cells + places.reshape(n, -1, c)) * c + xp.arange(c)
    return xp.bincount(at.ravel(), weights=g.ravel(), minlength=n * cells * c).reshape(n, *size, c).astype(g.dtype)


# --- the solver ---


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

    start     images to begin with; by default the middle of the box
    steps     of Gauss-Newton, at most;   inner   of conjugate gradients in each
    """
    xp, last = network.xp, network.stages[-1].activation
    shape = (len(known.y), *network.convs[0].input_shape)
    if known.y.shape[1:3] != network.convs[-1].output_shape[:2] or not bool(xp.isfinite(known.y).all()):
        raise ValueError(f"invert_jointly: features of shape {known.y.shape} are not finite or do not fit the network")
    low, high = (xp.broadcast_to(xp.asarray(a, known.y.dtype), shape) for a in (low, high))
    x = (0.5 * (low + high)).astype(known.y.dtype) if start is None else xp.clip(start, low, high)
    size = _positive(_norm(known.y))
    damping = xp.full(len(x), 1e-2, x.dtype)
    r, slope = residual(network.forward(x, known.switches), known.y, last)
    error = _norm(r)
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
        better = _norm(tried) < error
        each = better[:, None, None, None]
        x = xp.where(each, candidate, x)
        damping = xp.clip(xp.where(better, damping / 4, damping * 4), 1e-8, 1e4)
        if bool(better.all()):
            r, slope = tried, new_slope
        else:  # some images stay: the piece of each is that of its x
            r, slope = residual(network.forward(x, known.switches), known.y, last)
        error = _norm(r)
        history.append(error / size)
        if callback is not None:
            callback(step, x)
        if bool((~better & (damping >= 1e4)).all()):
            break
    residuals = to_host(xp.stack(history))
    return Solved(x, residuals, residuals[-1] <= tolerance)


def _curvature(network: Network, slope: Array, g: Array) -> Array:
    """||J g||^2 / ||g||^2 of every image: what damping is measured against."""
    along = slope * network.jvp(g)
    return _dot(along, along) / _positive(_dot(g, g))


def _cgls(network: Network, slope: Array, g: Array, free: Array, damping: Array, steps: int) -> Array:
    """d with (J' J + damping) d = g over the free pixels: conjugate gradients, from 0."""
    wide = damping[:, None, None, None]
    d, r = array_module(g).zeros_like(g), g
    p, rr = r, _dot(r, r)
    enough = 1e-6 * rr
    for _ in range(steps):
        q = free * network.vjp(slope * (slope * network.jvp(p))) + wide * p
        a = (rr / _positive(_dot(p, q)))[:, None, None, None]
        d, r = d + a * p, r - a * q
        rr, before = _dot(r, r), rr
        if bool((rr <= enough).all()):
            break
        p = r + (rr / _positive(before))[:, None, None, None] * p
    return d


def _dot(a: Array, b: Array) -> Array:
    return (a * b).reshape(len(a), -1).sum(axis=1)


def _norm(a: Array) -> Array:
    return array_module(a).sqrt(_dot(a, a))


def _positive(a: Array) -> Array:
    """a, or 1 where it is 0: a denominator."""
    return array_module(a).where(a <= 0, 1, a)
