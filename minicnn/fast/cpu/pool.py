"""Max pooling, a piece that fits in the cache at a time, on every core.

Nothing is noted about where the maxima were: the derivative looks again.  In each window it gives g to the first cell
that equals the maximum, and takes it from the others:

    left = g;   for every cell (i, j):   hit = (cell == y);   gx[cell] += left where hit;   left = 0 where hit

Windows that hold NaN or nothing but -inf need more care (a NaN equals nothing, -inf equals the padding): they are left
to ops/pool.py.
"""

from __future__ import annotations

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.elementwise import bits, keep
from minicnn.fast.cpu.memory import empty
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size
from minicnn.parallel import over_batch, scratch


def fits(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> bool:
    return type(x) is np.ndarray and x.ndim == 4 and x.size > 0


def max_pool2d(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d."""
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    n, c = x.shape[0], x.shape[3]
    height, width = windows.padded_size()
    sample_bytes = (height * width + 4 * windows.out[0] * windows.out[1]) * c * x.dtype.itemsize
    (top, _), (left, _) = windows.pad
    h, w = windows.size
    y = empty((n, *windows.out, c), x.dtype)

    def padded(p: slice) -> np.ndarray:
        if (height, width) == (h, w):
            return x[p]
        image = scratch("padded", (p.stop - p.start, height, width, c), x.dtype)
        image[:, :top], image[:, top + h :] = -np.inf, -np.inf
        image[:, :, :left], image[:, :, left + w :] = -np.inf, -np.inf
        image[:, top : top + h, left : left + w] = x[p]
        return image

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
        gx = empty(x.shape, g.dtype)

        def work(p: slice) -> None:
            length = p.stop - p.start
            image = scratch("g padded", (length, height, width, c), g.dtype)
            image[...] = 0
            left_over, given = scratch("left", g[p].shape, g.dtype), scratch("given", g[p].shape, g.dtype)
            left_over[...] = g[p]
            for (_, _, target), (_, _, cell) in zip(windows.cells(image), windows.cells(padded(p)), strict=True):
                hit = bits(cell == y[p], g.dtype)
                keep(left_over, hit, given)
                np.add(target, given, out=target)
                keep(left_over, np.invert(hit, out=hit), left_over)
            gx[p] = windows.crop(image)

        over_batch(work, n, 2 * sample_bytes, x)
        return (gx,)

    return y, vjp
