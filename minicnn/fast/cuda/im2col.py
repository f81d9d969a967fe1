"""Convolution as a matrix product: the columns by a kernel, the product by cuBLAS.

The same sums as ops/conv.py.  The columns are built in pieces that fit in the memory budget; a 1x1 convolution without
padding needs none: the pixels are the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.fast.cuda.elementwise import activated
from minicnn.fast.cuda.kernels import available, geometry, launch
from minicnn.fast.cuda.sums import sum_rows
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import pieces


def fits(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return available(x)


def conv2d(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.conv2d, any kernel, stride and pad; then ops.relu or ops.crelu, if `activation` says so."""
    check_conv2d(x, w, b)
    xp, n, f = array_module(x), x.shape[0], w.shape[3]
    windows = Windows.over("conv2d", x, w.shape[:2], stride, pad)
    pixels_are_rows = windows.k == windows.stride == (1, 1) and windows.padded_size() == windows.size
    x = xp.ascontiguousarray(x)
    matrix = w.reshape(-1, f)  # (kh kw C, F)
    length, numbers, (oh, ow) = len(matrix), geometry(windows, x.shape[3]), windows.out
    sample_bytes = 0 if pixels_are_rows else oh * ow * length * x.dtype.itemsize

    def rows(piece: slice) -> Array:
        """(n OH OW, kh kw C)."""
        if pixels_are_rows:
            return x[piece].reshape(-1, length)
        out = xp.empty(((piece.stop - piece.start) * oh * ow, length), x.dtype)
        launch("im2col.unfold", (out,), x[piece], *numbers)
        return out

    y = xp.empty((n, oh, ow, f), x.dtype)
    for piece in pieces(n, sample_bytes, x):
        xp.matmul(rows(piece), matrix, out=y[piece].reshape(-1, f))
    out, activation_vjp = y, None
    if activation is not None:
        out, activation_vjp = activated(activation, y, b)  # which adds the bias
    elif b is not None:
        y += b
    del y  # an activation keeps its output alone

    def data_gradient(g: Array) -> Array:
        gx = xp.empty(x.shape, x.dtype)
        for piece in pieces(n, sample_bytes, x):
            g_rows = g[piece].reshape(-1, f)
            if pixels_are_rows:
                xp.matmul(g_rows, matrix.T, out=gx[piece].reshape(-1, length))
            else:
                launch("im2col.fold", (gx[piece],), xp.matmul(g_rows, matrix.T), *numbers)
        return gx

    def weight_gradient(g: Array) -> Array:
        gw = xp.empty(w.shape, w.dtype)
        total = gw.reshape(-1, f)
        first, *others = pieces(n, sample_bytes, x) or [slice(0, 0)]
        xp.matmul(rows(first).T, g[first].reshape(-1, f), out=total)
        for piece in others:
            total += xp.matmul(rows(piece).T, g[piece].reshape(-1, f))
        return gw

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        g = xp.ascontiguousarray(g if activation_vjp is None else activation_vjp(g)[0])
        gx = data_gradient(g) if needs[0] else None
        gw = weight_gradient(g) if needs[1] else None
        return gx, gw, sum_rows(g) if needs[2] and b is not None else None

    return out, vjp
