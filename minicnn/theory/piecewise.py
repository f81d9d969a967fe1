"""A network up to the responses of a layer as a piecewise linear map of the image, with its derivative both ways.

    f(x + d) = f(x) + J d        on a piece: as long as no sign and no maximum changes
    J d: the layers with frozen signs and switches (`jvp`);      J' g: backwards (`vjp`)

**Pooling.**  The switches of the true features (`Known.switches`) say which cell each maximum was in, and whether that
phase fired at all.  So the response in that cell, sign included, is what was pooled: behind a pool the layer is linear
in x's responses, with no sign to guess.  Without switches, the pool takes its own maxima.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, where_its_arrays_are
from minicnn.ops.pool import max_pool2d_switches, unpool
from minicnn.ops.windows import Size, Windows, as_pair
from minicnn.theory.operators import Convolution
from minicnn.theory.reconstruction import Layer

ACTIVATIONS = ("crelu", "relu", "avr")


class Stage(NamedTuple):
    """conv + activation, then a max pool if `pool` holds k, stride, pad and ceil."""

    layer: Layer
    activation: str
    pool: dict[str, Any] | None = None


class Known(NamedTuple):
    """What is given: the features of the last stage before its pool, and perhaps the switches of the pools before."""

    y: Array  # (N, OH, OW, F or 2 F)
    switches: list[Array | None] | None = None  # by stage, (N, PH, PW, C): flat places in a map, -1: did not fire


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

    def adjoint(self, g: Array, activation: str, pool: Windows | None) -> Array:
        if pool is not None:
            g = _scatter(self.slope * g if self.told else g, self.places, pool)
        positive, negative = (1, -1) if self.told else (self.slope, self.slope - 1)
        if activation == "crelu":
            f = g.shape[-1] // 2
            return g[..., :f] * positive + g[..., f:] * negative
        return g * positive


class Network:
    """f and its derivative on the piece of the last `forward`."""

    @where_its_arrays_are
    def __init__(self, stages: Sequence[Stage], size: Size):
        if not stages:
            raise ValueError("piecewise.Network: needs at least one stage")
        if unknown := [s.activation for s in stages if s.activation not in ACTIVATIONS]:
            raise ValueError(f"piecewise.Network: activations must be of {', '.join(ACTIVATIONS)}, got {unknown[0]!r}")
        self.stages, self.convs = list(stages), []
        self.pools: list[Windows | None] = []
        size = as_pair("piecewise.Network", "size", size)
        for (w, _, stride, pad), activation, pool in stages:
            conv = Convolution(w, size, stride=stride, pad=pad)
            channels = w.shape[3] * (2 if activation == "crelu" else 1)
            self.convs.append(conv)
            over = None
            size = conv.output_shape[:2]
            if pool is not None:
                over = Windows.over("piecewise.Network", np.empty((1, *size, channels), np.float32), **pool)
                size = over.out
            self.pools.append(over)
        self.xp, self.device = self.convs[0].xp, self.convs[0].device
        self._piece: list[_Piece] = []  # by stage

    @property
    def responses_per_number(self) -> float:
        """How many equations CReLU features give for each number of the image."""
        return math.prod(self.convs[-1].output_shape) / math.prod(self.convs[0].input_shape)

    @where_its_arrays_are
    def features(self, x: Array) -> Known:
        """What is known of images x (N, H, W, C): the features of the last stage, and the switches on the way."""
        z = self.forward(x)
        last = self.stages[-1].activation
        return Known(_Piece(_slope(z, last), None, None).forward(z, last), [piece.fired for piece in self._piece])

    @where_its_arrays_are
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
        first_row, first_column = _first_cells(over, self.xp)
        return (first_row + inside // over.k[1]) * maps.shape[2] + first_column + inside % over.k[1]

    @where_its_arrays_are
    def jvp(self, d: Array) -> Array:
        """J d on the piece: (N, H, W, C) -> (N, OH, OW, F)."""
        for conv, piece, stage in zip(self.convs, self._piece, self.stages, strict=False):
            d = piece.forward(conv.analysis(d), stage.activation)
        return self.convs[-1].analysis(d)

    @where_its_arrays_are
    def vjp(self, g: Array) -> Array:
        """J' g on the piece: (N, OH, OW, F) -> (N, H, W, C)."""
        g = self.convs[-1].synthesis(g)
        for i in reversed(range(len(self._piece))):
            g = self.convs[i].synthesis(self._piece[i].adjoint(g, self.stages[i].activation, self.pools[i]))
        return g


def _slope(z: Array, activation: str) -> Array:
    """d rho / d z; for CReLU that of the positive phase, which is 1 more than that of the negative one."""
    positive = (z > 0).astype(z.dtype)
    return 2 * positive - 1 if activation == "avr" else positive


def _gather(maps: Array, places: Array) -> Array:
    n, _, _, c = maps.shape
    flat = array_module(maps).take_along_axis(maps.reshape(n, -1, c), places.reshape(n, -1, c), axis=1)
    return flat.reshape(places.shape)


def _scatter(g: Array, places: Array, pool: Windows) -> Array:
    """The adjoint of _gather: overlapping windows add up.  (bincount would, on a GPU in another order each time.)"""
    first_row, first_column = _first_cells(pool, array_module(g))
    row, column = places // pool.size[1] - first_row, places % pool.size[1] - first_column
    inside = (column >= 0) & (column < pool.k[1])
    return unpool(g, array_module(g).where(inside, row * pool.k[1] + column, -1), pool)


def _first_cells(pool: Windows, xp: Any) -> tuple[Array, Array]:
    """The first row and the first column of every window: (PH, 1, 1) and (PW, 1)."""
    rows, columns = (
        xp.arange(out) * stride - before
        for out, stride, (before, _) in zip(pool.out, pool.stride, pool.pad, strict=True)
    )
    return rows[:, None, None], columns[:, None]
