"""Convolutions with stride 1 by Winograd's algorithm, some images at a time through all of its steps.

minicnn/fast/winograd.py explains them; the names are the same.  A piece of the batch is small enough for its tiles to
stay in the cache of a core; workers take pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.frame import framed
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.fast.winograd import ALGORITHMS, BIAS, computes, matrices
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Pair2, Size, Windows
from minicnn.parallel import cut, over_slices, scratch, sum_over_slices

LEAST_CHANNELS = 6  # from there on it was faster than im2col wherever we looked, by 2 to 3 times in the backward pass
PIECE_BYTES = 2 << 20  # of V or M in one piece: about the cache of a core
LEAST_TILES = 64  # in one piece: with fewer, U is read too often, and Python takes a larger share
GROUP_TILES = 512  # in one product of the weight gradient: fewer make more partial sums, each as large as U


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd computes this convolution, and is likely to be faster than im2col."""
    return type(x) is np.ndarray and computes(x, w, stride, LEAST_CHANNELS)


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1."""
    check_conv2d(x, w, b)
    windows = Windows.over("conv2d", x, w.shape[:2], 1, pad)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        needs_bias = needs[2] and b is not None
        gx = convolve(*gradient_as_convolution(g, w, windows)) if needs[0] else None
        if needs[1]:
            gw, gb = weight_gradient(x, g, windows)  # the second costs next to nothing
            return gx, gw, gb if needs_bias else None
        return gx, None, bias_gradient(g) if needs_bias else None

    return convolve(x, w, windows, b), vjp


def convolve(x: np.ndarray, w: np.ndarray, windows: Windows, b: np.ndarray | None = None) -> np.ndarray:
    """Y = A' [U * V] A, plus the bias."""
    n, c, f = x.shape[0], w.shape[2], w.shape[3]
    tiling = Tiling(x, f, windows)
    u = (tiling.filter_transform @ w.reshape(-1, c * f)).reshape(36, c, f)
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

    def work(group: slice, summand: np.ndarray) -> None:
        tiles = tiling.count(group)
        gm, v = scratch("m", (36, tiles, f), x.dtype), scratch("v", (36, tiles, c), x.dtype)
        done = 0
        for piece in cut(group.start, group.stop, tiling.piece):
            here = slice(done, done := done + tiling.count(piece))
            tiling.output_transform_adjoint(g[piece], gm[:, here])
            tiling.input_transform(x[piece], v[:, here])
        np.matmul(v.transpose(0, 2, 1), gm, out=summand[:size].reshape(36, c, f))
        gm[BIAS].sum(axis=0, out=summand[size:])

    sum_over_slices(work, cut(0, len(x), tiling.group), into=sums)
    gw = tiling.filter_transform.T @ sums[:size].reshape(36, c * f)
    return gw.reshape(*windows.k, c, f), sums[size:].copy()


class Tiling:
    """An image cut into tiles: 6x6 of the input, every m pixels; m x m of the output.

    Both sizes are rounded up to whole tiles; what lies beyond the image is zero.  A set of tiles is moved in one copy
    between an image (n, height, width, C) and its places (6, 6, n, rows, columns, C): `places` is a view of the image
    in that order.

    piece   how many images are transformed at a time, so that they stay in the cache
    group   over how many images the weight gradient is one matrix product
    """

    def __init__(self, x: np.ndarray, filters: int, windows: Windows):
        (self.top, _), (self.left, _) = windows.pad
        algorithm = ALGORITHMS[windows.k[0]]
        self.step = algorithm.outputs  # m
        self.rows, self.columns = (-(-size // self.step) for size in windows.out)
        self.size: Pair2 = (self.step * self.rows, self.step * self.columns)
        self.whole = windows.out == self.size
        self.channels, self.features, self.dtype = x.shape[3], filters, x.dtype
        self.b_t, self.a_t, self.filter_transform = matrices(algorithm, x.dtype)
        tiles, quarter = self.rows * self.columns, -(-len(x) // 4)  # at least four pieces: something for every core
        image_bytes = 36 * tiles * max(self.channels, filters) * x.dtype.itemsize  # of V or M of one image
        self.piece = max(1, min(max(PIECE_BYTES // image_bytes, LEAST_TILES // tiles), quarter))
        self.group = max(self.piece, min(GROUP_TILES // tiles, quarter))

    def count(self, images: slice) -> int:
        """How many tiles these images have."""
        return (images.stop - images.start) * self.rows * self.columns

    def input_transform(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """V = B' d B: (n, H, W, C) -> (36, tiles, C)."""
        n, c = len(x), self.channels
        image = framed("image", x, self.top, self.left, self._input_size())
        d = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        d[...] = self.places(image, slice(0, 6), slice(0, 6))
        along_both(self.b_t, d.reshape(6, 6, -1), out=planes(v))
        return v

    def input_transform_adjoint(self, gv: np.ndarray, gx: np.ndarray) -> None:
        """gx = the sum over tiles of B gV B': (36, tiles, C) -> (n, H, W, C)."""
        n, h, w, c = gx.shape
        gd = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        along_both(self.b_t.T, planes(gv), out=gd.reshape(6, 6, -1))
        image = scratch("image", (n, *self._input_size(), c), self.dtype)
        image[:, self.size[0] :] = 0
        image[:, :, self.size[1] :] = 0
        # The first m rows and columns of all tiles cover the image once; the others overlap the next tiles'.
        for rows, columns in itertools.product(cut(0, 6, self.step), repeat=2):
            here = self.places(image, rows, columns)
            if rows.start == columns.start == 0:
                here[...] = gd[rows, columns]
            else:
                here += gd[rows, columns]
        gx[...] = image[:, self.top : self.top + h, self.left : self.left + w]

    def output_transform(self, m: np.ndarray, y: np.ndarray) -> None:
        """Y = A' M A: (36, tiles, F) -> (n, OH, OW, F)."""
        n, f, side = len(y), self.features, self.step
        tiles = scratch("tiles", (side, side, n, self.rows, self.columns, f), self.dtype)
        along_both(self.a_t, planes(m), out=tiles.reshape(side, side, -1))
        image = y if self.whole else scratch("output", (n, *self.size, f), self.dtype)
        self.places(image, slice(0, side), slice(0, side))[...] = tiles
        if not self.whole:
            y[...] = image[:, : y.shape[1], : y.shape[2]]

    def output_transform_adjoint(self, g: np.ndarray, gm: np.ndarray) -> None:
        """gM = A gY A': (n, OH, OW, F) -> (36, tiles, F)."""
        n, f, side = len(g), self.features, self.step
        image = g if self.whole else framed("gradient", g, 0, 0, self.size)
        tiles = scratch("tiles", (side, side, n, self.rows, self.columns, f), self.dtype)
        tiles[...] = self.places(image, slice(0, side), slice(0, side))
        along_both(self.a_t.T, tiles.reshape(side, side, -1), out=planes(gm))

    def _input_size(self) -> Pair2:
        """The size of an image that all tiles fit in: at least that of the padded image."""
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
