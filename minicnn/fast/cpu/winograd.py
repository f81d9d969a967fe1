"""3x3 convolutions with stride 1 by Winograd's algorithm F(4x4, 3x3): a quarter of the multiplications.

In one dimension, four outputs of a filter of three taps need six inputs and, done directly, 12 multiplications.
Winograd (Lavin and Gray 2016) computes them with six:

    y = A' [ (G g) * (B' d) ]        d: 6 inputs,  g: 3 taps,  y: 4 outputs,  *: element by element

This is multiplication of polynomials by their values at 0, 1, -1, 2, -2 and infinity, transposed.
In two dimensions the same is done along both axes, with 36 multiplications for 16 outputs instead of 144:

    Y = A' [ (G g G') * (B' d B) ] A

An image is cut into tiles of 6x6 that overlap by two.  Sums over input channels commute with all of this, so each of
the 36 places is a matrix product (tiles x C) (C x F):

    d   (36, tiles, C)    the tiles                     gather
    V = (B' x B') d       (36, tiles, C)                one matrix product, 36 x 36
    U = (G x G) g         (36, C, F)                    the filters, once
    M = V U               (36, tiles, F)                36 matrix products: this is where the time goes
    Y = (A' x A') M       (16, tiles, F)                one matrix product, 16 x 36;  then scatter

(x is the Kronecker product; 36 numbers the places of a 6x6 tile, 16 those of a 4x4 tile.)

The derivative.  Every step is linear in d and in g, so its derivative is the transpose, taken backwards.  With gY the
gradient cut into 4x4 tiles:

    gM = (A x A) gY       (36, tiles, F)                A' x A' transposed
    gU = V' gM            (36, C, F)                    gg = (G' x G') gU
    gV = gM U'            (36, tiles, C)
    gd = (B x B) gV       (36, tiles, C)                then add the overlapping tiles: the transpose of the gather

V is 2.25 times as large as x; it is computed again for the derivative rather than kept.

Rounding: the matrices have entries up to 8, so errors are some ten times those of a direct sum; in float32 about 1e-5
of the largest value (tests/fast/test_winograd.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.ops.conv import check_filters
from minicnn.ops.windows import Pad, Size, Windows, as_pair
from minicnn.parallel import over_batch, scratch, sum_over_batch

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
G = np.array(
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]],
) / 24  # fmt: skip
A_T = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ]
)
INPUT = np.kron(B_T, B_T)  # (36, 36)
FILTER = np.kron(G, G)  # (36, 9)
OUTPUT = np.kron(A_T, A_T)  # (16, 36)


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd computes this convolution, and is likely to be faster than im2col.

    The transforms cost 36 * 36 for each pixel of a tile and channel, which enough channels and filters must outweigh.
    """
    return (
        type(x) is np.ndarray
        and x.ndim == 4
        and w.ndim == 4
        and w.shape[:2] == (3, 3)
        and as_pair("conv2d", "stride", stride) == (1, 1)
        and min(w.shape[2:]) >= LEAST_CHANNELS
        and x.shape[0] > 0
    )


LEAST_CHANNELS = 24


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 filters and stride 1."""
    check_filters(x, w, b)
    windows = Windows.over("conv2d", x, (3, 3), 1, pad)
    tiling = Tiling(x, w.shape[3], windows)
    n, c, f = x.shape[0], w.shape[2], w.shape[3]
    u = (FILTER.astype(x.dtype) @ w.reshape(9, c * f)).reshape(36, c, f)
    y = empty((n, *windows.out, f), x.dtype)

    def forward(piece: slice) -> None:
        v = tiling.input_transform(x[piece])  # (36, tiles, C)
        m = scratch("m", (36, v.shape[1], f), x.dtype)
        np.matmul(v, u, out=m)
        tiling.output_transform(m, y[piece])
        if b is not None:
            y[piece] += b

    over_batch(forward, n, tiling.sample_bytes, x)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gu = np.zeros(u.shape, x.dtype)
        u_t = np.ascontiguousarray(u.transpose(0, 2, 1))  # (36, F, C)

        def backward(piece: slice) -> np.ndarray:
            gm = tiling.output_transform_adjoint(g[piece])  # (36, tiles, F)
            if gx is not None:
                gv = scratch("gv", (36, gm.shape[1], c), x.dtype)
                np.matmul(gm, u_t, out=gv)
                tiling.input_transform_adjoint(gv, gx[piece])
            part = scratch("gu", u.shape, x.dtype)
            if needs[1]:
                v = tiling.input_transform(x[piece])
                np.matmul(v.transpose(0, 2, 1), gm, out=part)
            return part

        if needs[1]:
            sum_over_batch(backward, n, tiling.sample_bytes, into=gu)
        elif needs[0]:
            over_batch(lambda piece: (backward(piece), None)[1], n, tiling.sample_bytes, x)
        gw = (FILTER.T.astype(x.dtype) @ gu.reshape(36, c * f)).reshape(w.shape) if needs[1] else None
        return gx, gw, None if b is None else bias_gradient(g)

    return y, vjp


class Tiling:
    """An image cut into tiles: 6x6 of the input, every 4 pixels; 4x4 of the output.

    Both sizes are rounded up to whole tiles; what lies beyond the image is zero.  A set of tiles is moved in one copy
    between an image (n, height, width, C) and its places (6, 6, n, rows, columns, C): `places` is a view of the image
    in that order.
    """

    def __init__(self, x: np.ndarray, filters: int, windows: Windows):
        (self.top, _), (self.left, _) = windows.pad
        self.rows, self.columns = (-(-size // 4) for size in windows.out)
        self.whole = windows.out == (4 * self.rows, 4 * self.columns)
        self.channels, self.filters, self.dtype = x.shape[3], filters, x.dtype
        self.input, self.output = INPUT.astype(x.dtype), OUTPUT.astype(x.dtype)
        tiles = self.rows * self.columns
        self.sample_bytes = 36 * tiles * (2 * self.channels + filters) * x.dtype.itemsize

    def input_transform(self, x: np.ndarray) -> np.ndarray:
        """V = (B' x B') d: (n, H, W, C) -> (36, tiles, C)."""
        n, c = len(x), self.channels
        image = scratch("image", (n, 4 * self.rows + 2, 4 * self.columns + 2, c), self.dtype)
        embed(image, x, self.top, self.left)
        d = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        d[...] = self.places(image, slice(0, 6), slice(0, 6))
        v = scratch("v", (36, n * self.rows * self.columns, c), self.dtype)
        np.matmul(self.input, d.reshape(36, -1), out=v.reshape(36, -1))
        return v

    def input_transform_adjoint(self, gv: np.ndarray, gx: np.ndarray) -> None:
        """gx = the sum over tiles of (B x B) gV: (36, tiles, C) -> (n, H, W, C)."""
        n, h, w, c = gx.shape
        gd = scratch("d", (6, 6, n, self.rows, self.columns, c), self.dtype)
        np.matmul(self.input.T, gv.reshape(36, -1), out=gd.reshape(36, -1))
        image = scratch("image", (n, 4 * self.rows + 2, 4 * self.columns + 2, c), self.dtype)
        image[:, -2:] = 0
        image[:, :, -2:] = 0
        # The first four rows and columns of all tiles cover the image once; the other two overlap the next tile's.
        low, high = slice(0, 4), slice(4, 6)
        self.places(image, low, low)[...] = gd[low, low]
        for rows, columns in ((low, high), (high, low), (high, high)):
            overlap = self.places(image, rows, columns)
            overlap += gd[rows, columns]
        inside = image[:, self.top : self.top + h, self.left : self.left + w]
        if inside.shape != gx.shape:  # pixels that no window reaches
            gx[...] = 0
        gx[:, : inside.shape[1], : inside.shape[2]] = inside

    def output_transform(self, m: np.ndarray, y: np.ndarray) -> None:
        """Y = (A' x A') M: (36, tiles, F) -> (n, OH, OW, F)."""
        n, f = len(y), self.filters
        tiles = scratch("tiles", (4, 4, n, self.rows, self.columns, f), self.dtype)
        np.matmul(self.output, m.reshape(36, -1), out=tiles.reshape(16, -1))
        image = y if self.whole else scratch("output", (n, 4 * self.rows, 4 * self.columns, f), self.dtype)
        self.places(image, slice(0, 4), slice(0, 4))[...] = tiles
        if not self.whole:
            y[...] = image[:, : y.shape[1], : y.shape[2]]

    def output_transform_adjoint(self, g: np.ndarray) -> np.ndarray:
        """gM = (A x A) gY: (n, OH, OW, F) -> (36, tiles, F)."""
        n, f = len(g), self.filters
        image = g
        if not self.whole:
            image = scratch("output", (n, 4 * self.rows, 4 * self.columns, f), self.dtype)
            embed(image, g, 0, 0)
        tiles = scratch("tiles", (4, 4, n, self.rows, self.columns, f), self.dtype)
        tiles[...] = self.places(image, slice(0, 4), slice(0, 4))
        gm = scratch("m", (36, n * self.rows * self.columns, f), self.dtype)
        np.matmul(self.output.T, tiles.reshape(16, -1), out=gm.reshape(36, -1))
        return gm

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
            strides=(step_h, step_w, step_n, 4 * step_h, 4 * step_w, step_c),
        )


def embed(image: np.ndarray, x: np.ndarray, top: int, left: int) -> None:
    """Put the images x into larger ones at (top, left), zeros around; what does not fit is cut off."""
    bottom, right = min(image.shape[1], top + x.shape[1]), min(image.shape[2], left + x.shape[2])
    image[:, :top], image[:, bottom:] = 0, 0
    image[:, top:bottom, :left], image[:, top:bottom, right:] = 0, 0
    image[:, top:bottom, left:right] = x[:, : bottom - top, : right - left]
