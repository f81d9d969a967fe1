"""Convolution as a matrix product: the columns by a kernel, the product by cuBLAS.

The same sums as ops/conv.py.  The columns are built in pieces that fit in the memory budget, and again for the
derivative, unless they are small; a 1x1 convolution without padding needs none: the pixels are the rows.  The
derivative has the precision that was asked for when the op was called.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, Device, device_of
from minicnn.fast.cuda.elementwise import activated
from minicnn.fast.cuda.kernels import available
from minicnn.fast.cuda.shapes import Pieces, each_cell, each_pixel
from minicnn.fast.cuda.sums import sum_rows
from minicnn.ops.conv import check_shapes
from minicnn.ops.windows import Pad, Pair2, Size, Windows, as_pad, as_pair
from minicnn.parallel import taken
from minicnn.precision import precision

Shape = tuple[int, ...]


def fits(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> bool:
    return available(x)


def conv2d(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.conv2d, any kernel, stride and pad; then ops.relu or ops.crelu, if `activation` says so."""
    device, dtype, b_shape = device_of(x), x.dtype, None if b is None else b.shape
    stride, pad = as_pair("conv2d", "stride", stride), as_pad("conv2d", pad)
    layer, xp = _layer(device, dtype, precision(), x.shape, w.shape, b_shape, stride, pad), device.xp
    x, w = xp.ascontiguousarray(x), xp.ascontiguousarray(w)

    def rows(piece: slice, kernels: PieceKernels) -> Array:
        """(n OH OW, kh kw C)."""
        if layer.pixels_are_rows:
            return taken(x, piece)
        out = xp.empty(kernels.rows_shape, dtype)
        kernels.unfold(out, taken(x, piece))
        return out

    y, columns, pieces = xp.empty(layer.y_shape, dtype), None, layer.pieces()
    for piece, kernels in pieces:
        columns = rows(piece, kernels)
        kernels.multiply(columns, w, taken(y, piece))
    channels = 2 * layer.features if activation == "crelu" else layer.features
    small = len(pieces) == 1 and layer.length <= channels  # no larger than the output
    kept, columns = columns if small else None, None
    out, activation_vjp = y, None
    if activation is not None:
        out, activation_vjp = activated(activation, y, b)  # which adds the bias
    elif b is not None:
        y += b
    del y  # an activation keeps its output alone

    def data_gradient(g: Array) -> Array:
        gx = xp.empty(x.shape, dtype)
        for piece, kernels in layer.pieces():
            if layer.pixels_are_rows:
                kernels.multiply_by_filters(taken(g, piece), w, taken(gx, piece))
            else:
                columns = xp.empty(kernels.rows_shape, dtype)
                kernels.multiply_by_filters(taken(g, piece), w, columns)
                kernels.fold(taken(gx, piece), columns)
        return gx

    def weight_gradient(g: Array) -> Array:
        total = None
        for piece, kernels in layer.pieces() if kept is None else pieces:
            summand = xp.empty(w.shape, dtype)
            kernels.multiply_over_pixels(rows(piece, kernels) if kept is None else kept, taken(g, piece), summand)
            total = summand if total is None else total + summand
        return xp.zeros(w.shape, dtype) if total is None else total  # of no images

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        g = xp.ascontiguousarray(g if activation_vjp is None else activation_vjp(g)[0])
        gx = data_gradient(g) if needs[0] else None
        gw = weight_gradient(g) if needs[1] else None
        return gx, gw, sum_rows(g) if needs[2] and b is not None else None

    return out, vjp


class Layer:
    """What follows from shapes, options, dtype, device and precision of a convolution: the same in every step."""

    def __init__(
        self,
        device: Device,
        dtype: Any,
        precision: str,
        x_shape: Shape,
        w_shape: Shape,
        b_shape: Shape | None,
        stride: Pair2,
        pad: tuple[Pair2, Pair2],
    ):
        check_shapes(x_shape, w_shape, b_shape)
        windows = Windows.of_shape("conv2d", x_shape, w_shape[:2], stride, pad)
        self.pixels_are_rows = windows.k == windows.stride == (1, 1) and windows.padded_size() == windows.size
        (n, *_), (kh, kw, c, self.features) = x_shape, w_shape
        self.length, (oh, ow) = kh * kw * c, windows.out
        self.y_shape = (n, oh, ow, self.features)
        sample_bytes = 0 if self.pixels_are_rows else oh * ow * self.length * dtype.itemsize
        self.pieces = Pieces(
            n, sample_bytes, partial(PieceKernels, device, dtype, precision, windows, c, self.features)
        )


_layer = lru_cache(1024)(Layer)


class PieceKernels:
    """Kernels and products for n images.

    unfold(rows, x)                      the windows of x, as rows
    multiply(rows, w, y)
    multiply_by_filters(g, w, rows)      the gradient of the rows
    fold(gx, rows)                       adds them up
    multiply_over_pixels(rows, g, gw)
    """

    def __init__(self, device: Device, dtype: Any, precision: str, windows: Windows, c: int, f: int, n: int):
        assert device.cuda is not None
        (oh, ow), (kh, kw) = windows.out, windows.k
        pixels, length = n * oh * ow, kh * kw * c
        self.rows_shape = (pixels, length)
        self.unfold = each_cell(device, "im2col.unfold", n, c, windows)
        self.fold = each_pixel(device, "im2col.fold", n, c, windows)
        product = partial(device.cuda.product, dtype, precision=precision)
        self.multiply = product(pixels, length, f)
        self.multiply_by_filters = product(pixels, f, length, transpose_b=True)
        self.multiply_over_pixels = product(length, pixels, f, transpose_a=True)
