"""Convolution as a matrix product, a few images at a time: the columns stay in the cache, and so does their memory.

The same sums as ops/conv.py.  What differs: the columns are copied into scratch memory that is used again and again,
the bias is added while a piece is in the cache, and a 1x1 convolution needs no columns at all: the pixels are the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows, fold, unfold
from minicnn.parallel import over_batch, scratch, sum_over_batch


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return type(x) is np.ndarray


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d, any kernel, stride and pad."""
    check_conv2d(x, w, b)
    n, f = x.shape[0], w.shape[3]
    windows = Windows.over("conv2d", x, w.shape[:2], stride, pad)
    pixels_are_rows = windows.k == windows.stride == (1, 1)
    if pixels_are_rows and windows.out != windows.size:
        return _framed(x, w, b, windows)
    matrix = w.reshape(-1, f)  # (kh kw C, F)
    length = len(matrix)
    oh, ow = windows.out
    sample_bytes = oh * ow * (length + f if pixels_are_rows else length) * x.dtype.itemsize

    def rows(piece: slice) -> np.ndarray:
        """(n OH OW, kh kw C)."""
        if pixels_are_rows:
            return x[piece].reshape(-1, length)
        blocks = unfold(x[piece], windows)  # (n, OH, OW, kh, kw, C), a view
        copy = scratch("rows", blocks.shape, x.dtype)
        copy[...] = blocks
        return copy.reshape(-1, length)

    y = empty((n, oh, ow, f), x.dtype)

    def forward(piece: slice) -> None:
        np.matmul(rows(piece), matrix, out=y[piece].reshape(-1, f))
        if b is not None:
            y[piece] += b

    over_batch(forward, n, sample_bytes, x)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gw = np.zeros(matrix.shape, x.dtype) if needs[1] else None

        def data_gradient(piece: slice) -> None:
            here, g_rows = gx[piece], g[piece].reshape(-1, f)  # type: ignore[index]
            if pixels_are_rows:
                np.matmul(g_rows, matrix.T, out=here.reshape(-1, length))
            else:
                blocks = scratch("rows", (len(g_rows), length), x.dtype)
                np.matmul(g_rows, matrix.T, out=blocks)
                here[...] = fold(blocks.reshape(-1, oh, ow, *w.shape[:3]), windows)

        def weight_gradient(piece: slice, summand: np.ndarray) -> None:
            np.matmul(rows(piece).T, g[piece].reshape(-1, f), out=summand)

        if gx is not None:
            over_batch(data_gradient, n, sample_bytes, x)
        if gw is not None:
            sum_over_batch(weight_gradient, n, sample_bytes, into=gw)
            gw = gw.reshape(w.shape)
        return gx, gw, bias_gradient(g) if needs[2] and b is not None else None

    return y, vjp


def _framed(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, windows: Windows) -> Pair:
    """A 1x1 convolution with padding, where it sees zeros: around the image its output is the bias alone."""
    inner, inner_vjp = conv2d(x, w, b)
    y = empty((len(x), *windows.out, w.shape[3]), x.dtype)
    y[...] = 0 if b is None else b
    windows.crop(y)[...] = inner

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx, gw, _ = inner_vjp(np.ascontiguousarray(windows.crop(g)), (*needs[:2], False))
        return gx, gw, bias_gradient(g) if needs[2] and b is not None else None

    return y, vjp
