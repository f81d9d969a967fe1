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
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import cut, over_slices, scratch

LEAST_U_BYTES = 3 << 20  # more than fits in the cache of one core
BLOCK_BYTES = 64 << 20  # of V and M for one block of images
PLACES = 4  # of the 36, at a time
COLUMNS = 1 << 16  # of C F, at a time, when the filters' gradient is transformed back


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether Winograd is good for this convolution, and U is large."""
    if not winograd.fits(x, w, b, stride=stride, pad=pad):
        return False
    return 36 * w[0, 0].nbytes >= LEAST_U_BYTES


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1."""
    check_conv2d(x, w, b)
    windows = Windows.over("conv2d", x, w.shape[:2], 1, pad)
    tiles = Tiles(x, w, windows)
    y = empty((len(x), *windows.out, w.shape[3]), x.dtype)
    for block in tiles.blocks:
        tiles.forward(block, b, y)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gu = empty((36, *w.shape[2:]), x.dtype) if needs[1] else None
        gb = np.zeros(b.shape, x.dtype) if needs[2] and b is not None else None
        for block in tiles.blocks:
            gm = tiles.of_gradient(block, g)
            if gx is not None:
                tiles.data_gradient(block, gm, gx)
            if gu is not None:
                tiles.weight_gradient(block, gm, gu)
            if gb is not None:
                gb += gm[BIAS].sum(axis=0)
        return gx, None if gu is None else tiles.filter_gradient(gu), gb

    return y, vjp


class Tiles:
    """The tiles of x (N, H, W, C) and of filters w (r, r, C, F), a block of images at a time.

    V, M and their gradients are (36, tiles of the block, channels) in the scratch memory of the thread that calls.
    """

    def __init__(self, x: np.ndarray, w: np.ndarray, windows: Windows):
        self.x, self.w = x, w
        self.c, self.f = w.shape[2:]
        self.taps = w.reshape(-1, self.c * self.f)
        self.tiling = Tiling(x, self.f, windows)
        image_bytes = 36 * self.tiling.count(slice(0, 1)) * (self.c + self.f) * x.dtype.itemsize
        self.blocks = cut(0, len(x), BLOCK_BYTES // image_bytes)

    def forward(self, block: slice, b: np.ndarray | None, y: np.ndarray) -> None:
        v, m = self._of_images(block), self._memory("filters", block, self.f)
        self._over_places(lambda some: np.matmul(v[some], self._filters(some), out=m[some]))
        if b is not None:
            m[BIAS] += b
        self._over_images(block, lambda images, at: self.tiling.output_transform(m[:, at], y[images]))

    def of_gradient(self, block: slice, g: np.ndarray) -> np.ndarray:
        """gM of a block."""
        gm = self._memory("filters", block, self.f)
        self._over_images(block, lambda images, at: self.tiling.output_transform_adjoint(g[images], gm[:, at]))
        return gm

    def data_gradient(self, block: slice, gm: np.ndarray, gx: np.ndarray) -> None:
        gv = self._memory("channels", block, self.c)
        self._over_places(lambda some: np.matmul(gm[some], self._filters(some).transpose(0, 2, 1), out=gv[some]))
        self._over_images(block, lambda images, at: self.tiling.input_transform_adjoint(gv[:, at], gx[images]))

    def weight_gradient(self, block: slice, gm: np.ndarray, gu: np.ndarray) -> None:
        """Added to gU; the first block's are written there."""
        v = self._of_images(block)

        def work(some: slice) -> None:
            summand = gu[some] if block.start == 0 else scratch("summand", gu[some].shape, gu.dtype)
            np.matmul(v[some].transpose(0, 2, 1), gm[some], out=summand)
            if block.start:
                gu[some] += summand

        self._over_places(work)

    def filter_gradient(self, gu: np.ndarray) -> np.ndarray:
        """gw = G' gU G."""
        gw, columns, back = empty(self.taps.shape, gu.dtype), gu.reshape(36, -1), self.tiling.filter_transform.T
        pieces = cut(0, columns.shape[1], COLUMNS)
        over_slices(lambda p: np.matmul(back, columns[:, p], out=gw[:, p]), pieces, self.x)
        return gw.reshape(self.w.shape)

    def _of_images(self, block: slice) -> np.ndarray:
        """V of a block."""
        v = self._memory("channels", block, self.c)
        self._over_images(block, lambda images, at: self.tiling.input_transform(self.x[images], v[:, at]))
        return v

    def _filters(self, some: slice) -> np.ndarray:
        """U at some places: (places, C, F)."""
        u = scratch("u", (some.stop - some.start, self.c, self.f), self.x.dtype)
        np.matmul(self.tiling.filter_transform[some], self.taps, out=u.reshape(len(u), -1))
        return u

    def _memory(self, name: str, block: slice, channels: int) -> np.ndarray:
        return scratch(name, (36, self.tiling.count(block), channels), self.x.dtype)

    def _over_places(self, work: Callable[[slice], object]) -> None:
        """work(some) for all 36 places of a tile, PLACES at a time."""
        over_slices(work, cut(0, 36, PLACES), self.x)

    def _over_images(self, block: slice, work: Callable[[slice, slice], object]) -> None:
        """work(images, their tiles in the block) for all images of a block."""

        def one(images: slice) -> None:
            start, stop = (self.tiling.count(slice(block.start, end)) for end in (images.start, images.stop))
            work(images, slice(start, stop))

        over_slices(one, cut(block.start, block.stop, self.tiling.piece), self.x)
