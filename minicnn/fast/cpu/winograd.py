"""Convolutions with stride 1 by Winograd's algorithm: 3x3, F(4x4, 3x3), with a quarter of the multiplications.

And 5x5, F(2x2, 5x5), with 0.36 of them; what is said of the first holds for the second, with other numbers (below).

In one dimension, four outputs of a filter of three taps need six inputs and, done directly, 12 multiplications.
Winograd (Lavin and Gray 2016) computes them with six:

    y = A' [ (G g) * (B' d) ]        d: 6 inputs,  g: 3 taps,  y: 4 outputs,  *: element by element

This is multiplication of polynomials by their values at 0, 1, -1, 2, -2 and infinity, transposed.
In two dimensions the same is done along both axes, with 36 multiplications for 16 outputs instead of 144:

    Y = A' [ (G g G') * (B' d B) ] A

An image is cut into tiles of 6x6 that overlap by two.  Sums over input channels commute with all of this, so each of
the 36 places is a matrix product (tiles x C) (C x F):

    d                     (6, 6, tiles, C)              the tiles: gather
    V = B' d B            (36, tiles, C)                along both axes of the 36 places
    U = G g G'            (36, C, F)                    the filters, once
    M = V U               (36, tiles, F)                36 matrix products: this is where the time goes
    Y = A' M A            (4, 4, tiles, F)              along both axes;  then scatter

The derivative.  Every step is linear in d and in g, so its derivative is the transpose, taken backwards.  With gY the
gradient cut into 4x4 tiles:

    gM = A gY A'          (36, tiles, F)
    gU = V' gM            (36, C, F)                    gg = G' gU G
    gV = gM U'            (36, tiles, C)
    gd = B gV B'          (6, 6, tiles, C)              then add the overlapping tiles: the transpose of the gather

V is 2.25 times as large as x; it is computed again for the derivative rather than kept.  The gradient of the image is
also a 3x3 convolution, of g with the filters turned around, and that takes fewer passes over memory than the last two
lines: it is what is done here, while winograd_wide.py, which has gM at hand, does as they say.

The bias.  The column of A' that belongs to the point 1 is (1, 1, 1, 1): what is added to M at the place (1, 1) of a
tile comes out at all 16 pixels.  And the sum of a tile's gradients is gM at that place.

The other size.  Six points determine a product of degree 5, whether of 4 outputs and 3 taps or of 2 outputs and 5 taps:
F(2x2, 5x5) has the same 6x6 tiles and the same B, every 2 pixels; G takes 5 taps to 6 places, A' 6 places to 2 outputs.

Rounding: the matrices have entries up to 8, so errors are some ten times those of a direct sum; in float32 about 1e-5
of the largest value (tests/fast/test_winograd.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.ops.conv import check_filters
from minicnn.ops.windows import Pad, Pair2, Size, Windows, as_pair
from minicnn.parallel import cut, over_slices, scratch, sum_over_slices

B_T = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
POINTS = np.array([0, 1, -1, 2, -2])  # and infinity, which sees the last coefficient alone
SCALE = np.array([6, -4, -4, 1, 1]) / 24  # 1 / the product of a point's distances from the others, up to sign


@dataclass(frozen=True)
class Algorithm:
    """F(m x m, r x r): m x m outputs of r x r taps from a 6x6 tile, m + r = 7."""

    outputs: int  # m
    taps: int  # r

    @property
    def output_matrix(self) -> np.ndarray:
        """A' (m, 6)."""
        powers = POINTS ** np.arange(self.outputs)[:, None]
        return np.c_[powers, np.eye(self.outputs)[-1]]

    @property
    def filter_matrix(self) -> np.ndarray:
        """G (6, r)."""
        powers = POINTS[:, None] ** np.arange(self.taps)
        return np.r_[SCALE[:, None] * powers, np.eye(self.taps)[-1:]]

    @property
    def filter_transform(self) -> np.ndarray:
        """G g G' of all filters at once: (36, r r)."""
        return np.kron(self.filter_matrix, self.filter_matrix)


@cache
def matrices(algorithm: Algorithm, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B' (6, 6), A' (m, 6) and the transformation of the filters (36, r r), in this precision."""
    b, a, g = (B_T, algorithm.output_matrix, algorithm.filter_transform)
    return np.ascontiguousarray(b, dtype), np.ascontiguousarray(a, dtype), np.ascontiguousarray(g, dtype)


ALGORITHMS = {3: Algorithm(4, 3), 5: Algorithm(2, 5)}  # by the size of the kernel


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd computes this convolution, and is likely to be faster than im2col."""
    return type(x) is np.ndarray and computes(x, w, stride, LEAST_CHANNELS)


def computes(x: Array, w: Array, stride: Size, least: int) -> bool:
    """Whether there is an algorithm for this convolution, and `least` channels and filters or more.

    The transforms cost 2 * 6 for each place of a tile and channel, and several passes over memory, which enough
    channels and filters must outweigh.
    """
    return (
        x.ndim == w.ndim == 4
        and w.shape[0] == w.shape[1]
        and w.shape[0] in ALGORITHMS
        and as_pair("conv2d", "stride", stride) == (1, 1)
        and min(w.shape[2:]) >= least
        and x.shape[0] > 0
    )


LEAST_CHANNELS = 6  # from there on it was faster than im2col wherever we looked, by 2 to 3 times in the backward pass
PIECE_BYTES = 2 << 20  # of V or M in one piece: about the cache of a core
LEAST_TILES = 64  # in one piece: with fewer, U is read too often, and Python takes a larger share
GROUP_TILES = 512  # in one product of the weight gradient: fewer make more partial sums, each as large as U
BIAS = 7  # the place (1, 1) of a tile


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1."""
    check_filters(x, w, b)
    windows = Windows.over("conv2d", x, w.shape[:2], 1, pad)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = convolve(*gradient_as_convolution(g, w, windows)) if needs[0] else None
        if needs[1]:
            gw, gb = weight_gradient(x, g, windows)
            return gx, gw, None if b is None else gb
        return gx, None, None if b is None else bias_gradient(g)

    return convolve(x, w, windows, b), vjp


def convolve(x: np.ndarray, w: np.ndarray, windows: Windows, b: np.ndarray | None = None) -> np.ndarray:
    """Y, by the steps above."""
    n, c, f = x.shape[0], w.shape[2], w.shape[3]
    tiling = Tiling(x, f, windows)
    u = (tiling.filters @ w.reshape(-1, c * f)).reshape(36, c, f)
    y = empty((n, *windows.out, f), x.dtype)

    def work(piece: slice) -> None:
        tiles = tiling.count(piece)
        v = tiling.input_transform(x[piece], scratch("v", (36, tiles, c), x.dtype))
        m = np.matmul(v, u, out=scratch("m", (36, tiles, f), x.dtype))
        if b is not None:
            m[BIAS] += b
        tiling.output_transform(m, y[piece])

    over_slices(work, cut(0, n, tiling.piece), x)
    return y


def gradient_as_convolution(g: np.ndarray, w: np.ndarray, windows: Windows) -> tuple[np.ndarray, np.ndarray, Windows]:
    """g, filters and windows whose convolution is gx: the filters turned around, with pad r - 1 - pad.

    What a pad of more than r - 1 adds to the output does not depend on x: it is cut off.
    """
    most = windows.k[0] - 1
    (top, bottom), (left, right) = ((max(0, a - most), max(0, b - most)) for a, b in windows.pad)
    g = g[:, top : g.shape[1] - bottom, left : g.shape[2] - right]
    turned = np.ascontiguousarray(w[::-1, ::-1].transpose(0, 1, 3, 2))  # (r, r, F, C)
    pad = tuple((max(0, most - a), max(0, most - b)) for a, b in windows.pad)
    return g, turned, Windows.over("conv2d", g, windows.k, 1, pad)


def weight_gradient(x: np.ndarray, g: np.ndarray, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """gw and the gradient of the bias: the transposed steps."""
    c, f = x.shape[3], g.shape[3]
    tiling, size = Tiling(x, f, windows), 36 * c * f
    sums = np.zeros(size + f, x.dtype)  # gU, then the gradient of the bias

    def work(group: slice, part: np.ndarray) -> None:
        tiles = tiling.count(group)
        gm, v = scratch("m", (36, tiles, f), x.dtype), scratch("v", (36, tiles, c), x.dtype)
        done = 0
        for piece in cut(group.start, group.stop, tiling.piece):
            here = slice(done, done := done + tiling.count(piece))
            tiling.output_transform_adjoint(g[piece], gm[:, here])
            tiling.input_transform(x[piece], v[:, here])
        np.matmul(v.transpose(0, 2, 1), gm, out=part[:size].reshape(36, c, f))
        gm[BIAS].sum(axis=0, out=part[size:])

    sum_over_slices(work, cut(0, len(x), tiling.group), into=sums)
    gw = tiling.filters.T @ sums[:size].reshape(36, c * f)
    return gw.reshape(*windows.k, c, f), sums[size:].copy()


class Tiling:
    """An image cut into tiles: 6x6 of the input, every m pixels; m x m of the output.

    Both sizes are rounded up to whole tiles; what lies beyond the image is zero.  A set of tiles is moved in one copy
    between an image (n, height, width, C) and its places (6, 6, n, rows, columns, C): `places` is a view of the image
    in that order.

    piece   so many images are transformed at a time, so that they stay in the cache
    group   over so many images the weight gradient is one matrix product
    """

    def __init__(self, x: np.ndarray, filters: int, windows: Windows):
        (self.top, _), (self.left, _) = windows.pad
        algorithm = ALGORITHMS[windows.k[0]]
        self.step = algorithm.outputs  # m
        self.rows, self.columns = (-(-size // self.step) for size in windows.out)
        self.size: Pair2 = (self.step * self.rows, self.step * self.columns)
        self.whole = windows.out == self.size
        self.channels, self.features, self.dtype = x.shape[3], filters, x.dtype
        self.input, self.output, self.filters = matrices(algorithm, x.dtype)
        tiles, quarter = self.rows * self.columns, -(-len(x) // 4)
        place = 36 * tiles * max(self.channels, filters) * x.dtype.itemsize
        self.piece = max(1, min(max(PIECE_BYTES // place, LEAST_TILES // tiles), quarter))
        self.group = max(self.piece, min(GROUP_TILES // tiles, quarter))

    def count(self, images: slice) -> int:
        """How many tiles so many images have."""
        return (images.stop - images.start) * self.rows * self.columns

    def input_transform(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """V = B' d B: (n, H, W, C) -> (36, tiles, C)."""
        n, c = len(x), self.channels
        image = framed("image", x, self.top, self.left, self._input_size())
        d = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        d[...] = self.places(image, slice(0, 6), slice(0, 6))
        along_both(self.input, d.reshape(6, 6, -1), out=planes(v))
        return v

    def input_transform_adjoint(self, gv: np.ndarray, gx: np.ndarray) -> None:
        """gx = the sum over tiles of B gV B': (36, tiles, C) -> (n, H, W, C)."""
        n, h, w, c = gx.shape
        gd = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        along_both(self.input.T, planes(gv), out=gd.reshape(6, 6, -1))
        image = scratch("image", (n, *self._input_size(), c), self.dtype)
        image[:, self.size[0] :] = 0
        image[:, :, self.size[1] :] = 0
        # The first m rows and columns of all tiles cover the image once; the others overlap the next tiles'.
        blocks = [slice(i, i + self.step) for i in range(0, 6, self.step)]
        blocks[-1] = slice(blocks[-1].start, 6)
        for rows in blocks:
            for columns in blocks:
                if rows.start == columns.start == 0:
                    self.places(image, rows, columns)[...] = gd[rows, columns]
                else:
                    overlap = self.places(image, rows, columns)
                    overlap += gd[rows, columns]
        inside = image[:, self.top : self.top + h, self.left : self.left + w]
        if inside.shape != gx.shape:  # pixels that no window reaches
            gx[...] = 0
        gx[:, : inside.shape[1], : inside.shape[2]] = inside

    def output_transform(self, m: np.ndarray, y: np.ndarray) -> None:
        """Y = A' M A: (36, tiles, F) -> (n, OH, OW, F)."""
        n, f = len(y), self.features
        side = self.step
        tiles = scratch("tiles", (side, side, n, self.rows, self.columns, f), self.dtype)
        along_both(self.output, planes(m), out=tiles.reshape(side, side, -1))
        image = y if self.whole else scratch("output", (n, *self.size, f), self.dtype)
        self.places(image, slice(0, side), slice(0, side))[...] = tiles
        if not self.whole:
            y[...] = image[:, : y.shape[1], : y.shape[2]]

    def output_transform_adjoint(self, g: np.ndarray, gm: np.ndarray) -> None:
        """gM = A gY A': (n, OH, OW, F) -> (36, tiles, F)."""
        n, f = len(g), self.features
        image = g
        if not self.whole:
            image = framed("gradient", g, 0, 0, self.size)
        side = self.step
        tiles = scratch("tiles", (side, side, n, self.rows, self.columns, f), self.dtype)
        tiles[...] = self.places(image, slice(0, side), slice(0, side))
        along_both(self.output.T, tiles.reshape(side, side, -1), out=planes(gm))

    def _input_size(self) -> Pair2:
        """Of an image that all tiles fit in."""
        return self.size[0] + 6 - self.step, self.size[1] + 6 - self.step

    def places(self, image: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """Some places of every tile of an image: a view (places down, places across, n, rows, columns, C)."""
        step_n, step_h, step_w, step_c = image.strides
        return np.lib.stride_tricks.as_strided(
            image[:, rows.start :, columns.start :],
            shape=(
                rows.stop - rows.start,
                columns.stop - columns.start,
                len(image),
                self.rows,
                self.columns,
                image.shape[3],
            ),
            strides=(step_h, step_w, step_n, self.step * step_h, self.step * step_w, step_c),
        )


def along_both(matrix: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """out[i, j] = sum over k, l of matrix[i, k] matrix[j, l] places[k, l]: (q, p), (p, p, N) -> (q, q, N)."""
    (q, p), n = matrix.shape, places.shape[2]
    half = scratch("half", (q, p, n), places.dtype)
    np.matmul(matrix, places.transpose(1, 0, 2), out=half.transpose(1, 0, 2))
    np.matmul(matrix, half, out=out)


def planes(places: np.ndarray) -> np.ndarray:
    """(36, tiles, C) -> (6, 6, tiles C), a view also of some tiles of a larger array."""
    _, tiles, c = places.shape
    step, item = places.strides[0], places.itemsize
    return np.lib.stride_tricks.as_strided(places, (6, 6, tiles * c), (6 * step, step, item))


def framed(name: str, x: np.ndarray, top: int, left: int, size: Pair2) -> np.ndarray:
    """The images x in larger ones of this size at (top, left), zeros around; what does not fit is cut off.

    In scratch memory for this geometry alone, of which the frame stays as it is: it is cleared once.
    """
    n, h, w, c = x.shape
    (height, width), key = size, f"{name} {x.dtype} {x.shape} {top} {left} {size}"
    image = scratch(key, (n, height, width, c), x.dtype, zero=True)
    bottom, right = min(height, top + h), min(width, left + w)
    image[:, top:bottom, left:right] = x[:, : bottom - top, : right - left]
    return image
