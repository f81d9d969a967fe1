"""Max pooling, a piece that fits in the cache at a time, on every core.

Nothing is noted about where the maxima were: the derivative looks again.  All k*k cells of all windows are compared
with the maxima at once, and in a tie, of the cells of a window that equal its maximum, the first one gets g:

    equal (k k, windows)    times  k k, ..., 2, 1    ->  rank;    the largest rank of a window tells its first cell

which gives the index of the pixel that each window's gradient is added to.  Windows that overlap may name the same
pixel, and an indexed addition would then lose one of them; so windows that do not overlap are taken together: every
m-th along each axis, m = k / stride rounded up.

A maximum that is NaN or -inf needs more care (a NaN equals nothing, -inf equals the padding): if one of them is not
finite, all are left to ops/pool.py.
"""

from __future__ import annotations

import math

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.frame import framed
from minicnn.fast.cpu.memory import empty
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import over_batch, scratch


def fits(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> bool:
    return type(x) is np.ndarray and x.ndim == 4 and x.size > 0


def max_pool2d(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d."""
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    n, c = x.shape[0], x.shape[3]
    size, (top, _), (left, _) = windows.padded_size(), *windows.pad
    sample_bytes = (math.prod(size) + math.prod(windows.out)) * c * x.dtype.itemsize
    y = empty((n, *windows.out, c), x.dtype)

    def padded(p: slice) -> np.ndarray:
        return x[p] if size == windows.size else framed("padded", x[p], top, left, size, -np.inf)

    def forward(p: slice) -> None:
        for i, j, cell in windows.cells(padded(p)):
            if i == j == 0:
                y[p] = cell
            else:
                np.maximum(y[p], cell, out=y[p])

    over_batch(forward, n, sample_bytes, x)

    def vjp(g: np.ndarray) -> Grads:
        if not np.isfinite(y).all():
            return ops.max_pool2d.textbook(x, k=k, stride=stride, pad=pad, ceil=ceil)[1](g)
        gx, maxima = empty(x.shape, g.dtype), FirstMaxima(windows, c)

        def work(p: slice) -> None:
            maxima.send(g[p], maxima.pixels(padded(p), y[p]), gx[p].reshape(-1))

        over_batch(work, n, 2 * sample_bytes, x)
        return (gx,)

    return y, vjp


class FirstMaxima:
    """Where in the memory of images (n, H, W, C) the first maximum of each window is, and sending gradients there."""

    def __init__(self, windows: Windows, channels: int):
        (kh, kw), (sh, sw), (oh, ow), (h, w) = windows.k, windows.stride, windows.out, windows.size
        (top, _), (left, _) = windows.pad
        self.windows, self.image_size = windows, h * w * channels
        self.ranks = np.arange(kh * kw, 0, -1, dtype=np.uint8 if kh * kw < 256 else np.int32).reshape(-1, 1, 1, 1, 1)
        # the index of a pixel is that of its window's corner (OH, OW, C) plus the offset of its cell, found by rank
        rows, columns = sh * np.arange(oh)[:, None, None] - top, sw * np.arange(ow)[:, None] - left
        self.corner = (rows * w + columns) * channels + np.arange(channels)
        cells = [channels * (i * w + j) for i in range(kh) for j in range(kw)]
        self.offsets = np.array([0, *reversed(cells)])
        self.spacing = (-(-kh // sh), -(-kw // sw))  # windows that many steps apart do not overlap

    def pixels(self, image: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Indices (n, OH, OW, C) into the images, whose padded form `image` has the maxima y."""
        shape = (len(self.ranks), *y.shape)
        equal, rank = scratch("equal", shape, bool), scratch("rank", shape, self.ranks.dtype)
        np.equal(all_cells(image, self.windows), y, out=equal.reshape(*self.windows.k, *y.shape))
        np.multiply(equal, self.ranks, out=rank)
        pixel = self.offsets.take(rank.max(axis=0), out=scratch("pixel", y.shape, self.offsets.dtype), mode="clip")
        pixel += self.corner
        pixel += (np.arange(len(y)) * self.image_size)[:, None, None, None]
        return pixel

    def send(self, g: np.ndarray, pixel: np.ndarray, gx: np.ndarray) -> None:
        """gx, flat = for each pixel the sum of g over the windows that have their maximum there."""
        gx[...] = 0
        down, across = self.spacing
        for first in np.ndindex(self.spacing):
            some = (slice(None), slice(first[0], None, down), slice(first[1], None, across))
            at, share = pixel[some].reshape(-1), g[some].reshape(-1)
            gx[at] = share if first == (0, 0) else gx.take(at, mode="clip") + share


def all_cells(image: np.ndarray, windows: Windows) -> np.ndarray:
    """Every cell of every window, a view (kh, kw, N, OH, OW, C) of the padded images."""
    step_n, step_h, step_w, step_c = image.strides
    (sh, sw), (n, _, _, c) = windows.stride, image.shape
    return np.lib.stride_tricks.as_strided(
        image, (*windows.k, n, *windows.out, c), (step_h, step_w, step_n, sh * step_h, sw * step_w, step_c)
    )
