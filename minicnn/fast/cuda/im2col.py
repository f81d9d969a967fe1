"""Convolution as a matrix product: the columns by a kernel, the product by cuBLAS.

The same sums as ops/conv.py.  The columns are built in pieces that fit in the memory budget, and again for the
derivative, unless they are small; a 1x1 convolution without padding needs none: the pixels are the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, device_of
from minicnn.fast.cuda.elementwise import activated
from minicnn.fast.cuda.kernels import available
from minicnn.fast.cuda.shapes import each_cell, each_pixel
from minicnn.fast.cuda.sums import sum_rows
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import pieces, taken


def fits(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return available(x)


def conv2d(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.conv2d, any kernel, stride and pad; then ops.relu or ops.crelu, if `activation` says so."""
    check_conv2d(x, w, b)
    device, n, f = device_of(x), x.shape[0], w.shape[3]
    assert device.cuda is not None
    xp, multiply = device.xp, device.cuda.matmul
    windows = Windows.over("conv2d", x, w.shape[:2], stride, pad)
    pixels_are_rows = windows.k == windows.stride == (1, 1) and windows.padded_size() == windows.size
    x = xp.ascontiguousarray(x)
    matrix = xp.ascontiguousarray(w).reshape(-1, f)  # (kh kw C, F)
    length, (oh, ow) = len(matrix), windows.out
    sample_bytes = 0 if pixels_are_rows else oh * ow * length * x.dtype.itemsize

    def rows(piece: slice) -> Array:
        """(n OH OW, kh kw C)."""
        if pixels_are_rows:
            return taken(x, piece).reshape(-1, length)
        out = xp.empty(((piece.stop - piece.start) * oh * ow, length), x.dtype)
        each_cell("im2col.unfold", out, taken(x, piece), windows)
        return out

    y, columns = xp.empty((n, oh, ow, f), x.dtype), None
    all_pieces = pieces(n, sample_bytes, x)
    for piece in all_pieces:
        columns = rows(piece)
        multiply(columns, matrix, taken(y, piece).reshape(-1, f))
    small = len(all_pieces) == 1 and length <= (2 * f if activation == "crelu" else f)  # no larger than the output
    kept, columns = columns if small else None, None
    out, activation_vjp = y, None
    if activation is not None:
        out, activation_vjp = activated(activation, y, b)  # which adds the bias
    elif b is not None:
        y += b
    del y  # an activation keeps its output alone

    def data_gradient(g: Array) -> Array:
        gx = xp.empty(x.shape, x.dtype)
        for piece in pieces(n, sample_bytes, x):
            g_rows = taken(g, piece).reshape(-1, f)
            if pixels_are_rows:
                multiply(g_rows, matrix, taken(gx, piece).reshape(-1, length), transpose_b=True)
            else:
                columns = xp.empty((len(g_rows), length), x.dtype)
                multiply(g_rows, matrix, columns, transpose_b=True)
                each_pixel("im2col.fold", taken(gx, piece), (columns,), windows)
        return gx

    def weight_gradient(g: Array) -> Array:
        gw = xp.empty(w.shape, w.dtype)
        total = gw.reshape(-1, f)
        if kept is not None:
            multiply(kept, g.reshape(-1, f), total, transpose_a=True)
            return gw
        first, *others = pieces(n, sample_bytes, x) or [slice(0, 0)]
        multiply(rows(first), taken(g, first).reshape(-1, f), total, transpose_a=True)
        for piece in others:
            summand = xp.empty(total.shape, total.dtype)
            multiply(rows(piece), taken(g, piece).reshape(-1, f), summand, transpose_a=True)
            total += summand
        return gw

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        g = xp.ascontiguousarray(g if activation_vjp is None else activation_vjp(g)[0])
        gx = data_gradient(g) if needs[0] else None
        gw = weight_gradient(g) if needs[1] else None
        return gx, gw, sum_rows(g) if needs[2] and b is not None else None

    return out, vjp
