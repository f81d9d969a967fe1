"""Winograd's algorithm for layers with many weights: 192 filters on 192 channels, say.

There is one matrix product (tiles x C) (C x F) for each of the 36 places of a tile (minicnn/fast/winograd.py).  In
winograd.py, beside this file, every worker takes some images through all steps, and reads all 36 matrices U for them.
Here U does not fit in the cache (36 C F numbers, 5 MB for 192 filters on 192 channels), so the *places* are shared out
instead: a block of images is transformed by all workers, then each worker makes the U of some places, uses it for all
tiles of the block, and forgets it.  The weight gradient of a place is a product over all tiles: there are no partial
sums of the size of U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu import winograd
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.winograd import Tiling
from minicnn.fast.winograd import BIAS
from minicnn.ops.conv import check_filters
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import cut, over_slices, scratch

LEAST_FILTERS = 3 << 20  # bytes of U: more than fits in the cache of one core
BLOCK_BYTES = 64 << 20  # of V and M for one block of images
PLACES = 4  # of the 36, at a time
COLUMNS = 1 << 16  # of C F, at a time, when the filters' gradient is transformed back


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd is good for this convolution, and U is large."""
    if not winograd.fits(x, w, b, stride=stride, pad=pad):
        return False
    return 36 * w[0, 0].nbytes >= LEAST_FILTERS


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1."""
    check_filters(x, w, b)
    windows = Windows.over("conv2d", x, w.shape[:2], 1, pad)
    n, c, f = x.shape[0], w.shape[2], w.shape[3]
    tiling = Tiling(x, f, windows)
    one_image = 36 * tiling.count(slice(0, 1)) * (c + f) * x.dtype.itemsize
    blocks, places = cut(0, n, BLOCK_BYTES // one_image), cut(0, 36, PLACES)
    transform, taps = tiling.filters, w.reshape(-1, c * f)

    def over_images(work: Callable[[slice, slice], object], block: slice) -> None:
        """work(images, their tiles in the block) for all images of a block."""

        def one(images: slice) -> None:
            work(images, slice(*(tiling.count(slice(block.start, end)) for end in (images.start, images.stop))))

        over_slices(one, cut(block.start, block.stop, tiling.piece), x)

    def tiles(block: slice, name: str) -> np.ndarray:
        """Memory for V or its gradient ("channels"), M or its gradient ("filters")."""
        return scratch(name, (36, tiling.count(block), c if name == "channels" else f), x.dtype)

    def filters(some: slice) -> np.ndarray:
        """U at some places: (places, C, F)."""
        u = scratch("u", (some.stop - some.start, c, f), x.dtype)
        np.matmul(transform[some], taps, out=u.reshape(len(u), c * f))
        return u

    def transformed(block: slice) -> np.ndarray:
        """V of a block."""
        v = tiles(block, "channels")
        over_images(lambda images, at: tiling.input_transform(x[images], v[:, at]), block)
        return v

    def forward(block: slice) -> None:
        v, m = transformed(block), tiles(block, "filters")
        over_slices(lambda some: np.matmul(v[some], filters(some), out=m[some]), places, x)
        if b is not None:
            m[BIAS] += b
        over_images(lambda images, at: tiling.output_transform(m[:, at], y[images]), block)

    y = empty((n, *windows.out, f), x.dtype)
    for block in blocks:
        forward(block)

    def tiles_of_gradient(block: slice, g: np.ndarray, gm: np.ndarray) -> None:
        over_images(lambda images, at: tiling.output_transform_adjoint(g[images], gm[:, at]), block)

    def data_gradient(block: slice, gm: np.ndarray, gx: np.ndarray) -> None:
        gv = tiles(block, "channels")

        def work(some: slice) -> None:
            np.matmul(gm[some], filters(some).transpose(0, 2, 1), out=gv[some])

        over_slices(work, places, x)
        over_images(lambda images, at: tiling.input_transform_adjoint(gv[:, at], gx[images]), block)

    def weight_gradient(block: slice, gm: np.ndarray, gu: np.ndarray) -> None:
        """Added to gU, but for the first block."""
        v = transformed(block)

        def work(some: slice) -> None:
            part = gu[some] if block.start == 0 else scratch("part", gu[some].shape, x.dtype)
            np.matmul(v[some].transpose(0, 2, 1), gm[some], out=part)
            if block.start:
                gu[some] += part

        over_slices(work, places, x)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gu = empty((36, c, f), x.dtype) if needs[1] else None
        gb = None if b is None else np.zeros(f, x.dtype)
        for block in blocks:
            gm = tiles(block, "filters")
            tiles_of_gradient(block, g, gm)
            if gx is not None:
                data_gradient(block, gm, gx)
            if gu is not None:
                weight_gradient(block, gm, gu)
            if gb is not None:
                gb += gm[BIAS].sum(axis=0)
        return gx, None if gu is None else back(gu.reshape(36, c * f)), gb

    def back(gu: np.ndarray) -> np.ndarray:
        """gw = G' gU G."""
        gw = empty(taps.shape, x.dtype)
        over_slices(lambda p: np.matmul(transform.T, gu[:, p], out=gw[:, p]), cut(0, c * f, COLUMNS), x)
        return gw.reshape(w.shape)

    return y, vjp
