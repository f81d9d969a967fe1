"""Winograd's algorithm for layers with many weights and few tiles: 512 filters on 4x4 images, say.

The steps are those of winograd.py, which has one matrix product (tiles x C) (C x F) for each of the 36 places of a
tile.  There every worker takes some images through all steps, and reads all 36 matrices U for them.  Here U does not
fit in the cache (36 C F numbers, 38 MB for 512 filters on 512 channels), so the *places* are shared out instead: all
tiles are transformed first, then each worker makes the U of some places, uses it for all tiles, and forgets it.
The weight gradient of a place is a product over all tiles: no partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu import winograd
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.winograd import BIAS, FILTER, Tiling
from minicnn.ops.conv import check_filters
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import cut, over_slices, scratch

LEAST_FILTERS = 2 << 20  # bytes of U that do not fit in the cache of one core
MOST_TILES = 128 << 20  # bytes of V and M, which are held for the whole batch
PLACES = 4  # of the 36, at a time
COLUMNS = 1 << 16  # of C F, at a time, when the filters' gradient is transformed back


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd is good for this convolution, U is large, and the tiles of the whole batch are not too large."""
    if not winograd.fits(x, w, b, stride=stride, pad=pad):
        return False
    c, f = w.shape[2:]
    windows = Windows.over("conv2d", x, (3, 3), 1, pad)
    tiles = Tiling(x, f, windows).count(slice(0, len(x)))
    place = 36 * x.dtype.itemsize
    return place * c * f >= LEAST_FILTERS and place * tiles * (c + f) <= MOST_TILES


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 filters and stride 1."""
    check_filters(x, w, b)
    windows = Windows.over("conv2d", x, (3, 3), 1, pad)
    n, c, f = x.shape[0], w.shape[2], w.shape[3]
    tiling = Tiling(x, f, windows)
    tiles = tiling.count(slice(0, n))
    images, places = cut(0, n, tiling.piece), cut(0, 36, PLACES)
    transform, taps = FILTER.astype(x.dtype), w.reshape(9, c * f)

    def here(piece: slice) -> slice:
        return slice(tiling.count(slice(0, piece.start)), tiling.count(slice(0, piece.stop)))

    def filters(some: slice) -> np.ndarray:
        """U at some places: (places, C, F)."""
        u = scratch("u", (some.stop - some.start, c, f), x.dtype)
        np.matmul(transform[some], taps, out=u.reshape(len(u), c * f))
        return u

    def transformed() -> np.ndarray:
        """V of all tiles."""
        v = empty((36, tiles, c), x.dtype)
        over_slices(lambda p: _done(tiling.input_transform(x[p], v[:, here(p)])), images, x)
        return v

    def forward() -> np.ndarray:
        v, m = transformed(), empty((36, tiles, f), x.dtype)
        over_slices(lambda some: _done(np.matmul(v[some], filters(some), out=m[some])), places, x)
        if b is not None:
            m[BIAS] += b
        y = empty((n, *windows.out, f), x.dtype)
        over_slices(lambda p: tiling.output_transform(m[:, here(p)], y[p]), images, x)
        return y

    def data_gradient(gm: np.ndarray) -> np.ndarray:
        gx, gv = empty(x.shape, x.dtype), empty((36, tiles, c), x.dtype)

        def work(some: slice) -> None:
            np.matmul(gm[some], filters(some).transpose(0, 2, 1), out=gv[some])

        over_slices(work, places, x)
        over_slices(lambda p: tiling.input_transform_adjoint(gv[:, here(p)], gx[p]), images, x)
        return gx

    def weight_gradient(gm: np.ndarray) -> np.ndarray:
        v, gu, gw = transformed(), empty((36, c * f), x.dtype), empty((9, c * f), x.dtype)

        def work(some: slice) -> None:
            np.matmul(v[some].transpose(0, 2, 1), gm[some], out=gu[some].reshape(-1, c, f))

        over_slices(work, places, x)
        over_slices(lambda p: _done(np.matmul(transform.T, gu[:, p], out=gw[:, p])), cut(0, c * f, COLUMNS), x)
        return gw.reshape(w.shape)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gm = empty((36, tiles, f), x.dtype)
        over_slices(lambda p: tiling.output_transform_adjoint(g[p], gm[:, here(p)]), images, x)
        return (
            data_gradient(gm) if needs[0] else None,
            weight_gradient(gm) if needs[1] else None,
            None if b is None else gm[BIAS].sum(axis=0),
        )

    return forward(), vjp


def _done(_: object) -> None:
    """For work that is one expression."""
