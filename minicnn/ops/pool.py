"""Pooling: the maximum or the mean of every window.  What max pooling does about ties is said there.

Sizes follow PyTorch (minicnn/ops/windows.py).  Every pad must be smaller than k, so that each window holds at
least one pixel of the image.
"""

from __future__ import annotations

import numpy as np

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module
from minicnn.ops.windows import Pad, Size, Windows


@op
def max_pool2d(x: Array, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """y = the maximum of every window; stride None means k.

    The gradient goes to one cell of each window.  Ties: of equal maxima the first in row-major order gets all of it,
    and never the padding, even if all of the window is -inf.  A NaN in a window is its maximum, the first one if there
    are several.  x (N, H, W, C) -> y (N, OH, OW, C).
    """
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    y, switches = _max_and_switches(x, windows)
    return y, lambda g: (unpool(g, switches, windows),)


def unpool(g: Array, switches: Array, windows: Windows) -> Array:
    """The images that g is taken to, one cell of each window: (N, OH, OW, C) -> (N, H, W, C).

    switches   (N, OH, OW, C): i * kw + j for the cell (i, j); of any other number g is dropped

    Where windows overlap, their values add up, cell by cell in the same order on every device.
    """
    xp, (n, _, _, c) = array_module(g), g.shape
    image = xp.zeros((n, *windows.padded_size(), c), g.dtype)
    for i, j, cell in windows.cells(image):
        cell += xp.where(switches == i * windows.k[1] + j, g, 0)
    return windows.crop(image)


def max_pool2d_switches(x: Array, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Array:
    """Where max_pool2d found its maxima: (N, OH, OW, C) integers i * kw + j, the cell (i, j) of the window.

    Ties are decided as in max_pool2d.
    """
    return _max_and_switches(x, pool_windows("max_pool2d", x, k, stride, pad, ceil))[1]


@op
def avg_pool2d(
    x: Array,
    *,
    k: Size,
    stride: Size | None = None,
    pad: Pad = 0,
    ceil: bool = False,
    count_include_pad: bool = False,
) -> Pair:
    """y = (sum of the window) / count; stride None means k.        gx spreads g / count over the window.

    count: the cells of the window that lie in the image, or with count_include_pad in the padded image.  Cells
    beyond the padded image, which ceil mode may add, never count.
    """
    xp = array_module(x)
    windows = pool_windows("avg_pool2d", x, k, stride, pad, ceil)
    count = xp.asarray(window_counts(windows, count_include_pad), x.dtype)  # (OH, OW, 1)
    n, c = x.shape[0], x.shape[3]
    y = xp.zeros((n, *windows.out, c), x.dtype)
    for _, _, cell in windows.cells(windows.padded(x)):
        y += cell
    y /= count

    def vjp(g: Array) -> Grads:
        image = xp.zeros((n, *windows.padded_size(), c), g.dtype)
        share = g / count
        for _, _, cell in windows.cells(image):
            cell += share
        return (windows.crop(image),)

    return y, vjp


@op
def global_avg_pool(x: Array) -> Pair:
    """y = the mean over all positions: (N, H, W, C) -> (N, C).        gx = g / (H W), everywhere."""
    if x.ndim != 4 or x.shape[1] * x.shape[2] == 0:
        raise ValueError(f"global_avg_pool: x must be images of shape (N, H, W, C), none of H, W zero, got {x.shape}")
    xp = array_module(x)
    n, h, w, c = x.shape

    def vjp(g: Array) -> Grads:
        return (xp.broadcast_to(g.reshape(n, 1, 1, c) / (h * w), (n, h, w, c)),)

    return x.mean(axis=(1, 2)), vjp


def pool_windows(where: str, x: Array, k: Size, stride: Size | None, pad: Pad, ceil: bool) -> Windows:
    """The windows of a pool, checked: stride None means k, and every pad is smaller than k."""
    windows = Windows.over(where, x, k, k if stride is None else stride, pad, ceil)
    if any(side >= length for sides, length in zip(windows.pad, windows.k, strict=True) for side in sides):
        raise ValueError(f"{where}: every pad must be smaller than k, got pad {windows.pad} and k {windows.k}")
    return windows


def _max_and_switches(x: Array, windows: Windows) -> tuple[Array, Array]:
    """The running maximum over the cells of all windows at once, and where it was found."""
    xp = array_module(x)
    kh, kw = windows.k
    best = xp.full((x.shape[0], *windows.out, x.shape[3]), -np.inf, x.dtype)
    switches = xp.zeros(best.shape, np.uint8 if kh * kw <= 256 else np.int32)
    switches += xp.asarray(_first_inside(windows), switches.dtype)
    for i, j, cell in windows.cells(windows.padded(x, -np.inf)):
        better = ~(cell <= best) & (best == best)  # greater, or the first NaN: a NaN compares false with anything
        best = xp.where(better, cell, best)
        switches = xp.where(better, switches.dtype.type(i * kw + j), switches)
    return best, switches


def _first_inside(windows: Windows) -> np.ndarray:
    """(OH, OW, 1): the first cell of each window inside the image, its maximum if all are -inf."""
    (rows, columns) = (
        np.maximum(0, before - stride * np.arange(out))
        for (before, _), stride, out in zip(windows.pad, windows.stride, windows.out, strict=True)
    )
    return (rows[:, None] * windows.k[1] + columns)[:, :, None]


def window_counts(windows: Windows, include_pad: bool) -> np.ndarray:
    """(OH, OW, 1): how many cells of each window count in an average."""

    def along(size: int, k: int, stride: int, pad: tuple[int, int], out: int) -> np.ndarray:
        first, last = (0, sum(pad) + size) if include_pad else (pad[0], pad[0] + size)
        start = stride * np.arange(out)
        return np.minimum(start + k, last) - np.maximum(start, first)

    axes = zip(windows.size, windows.k, windows.stride, windows.pad, windows.out, strict=True)
    rows, columns = (along(*axis) for axis in axes)
    return (rows[:, None] * columns)[:, :, None]
