"""Convolutions with stride 1 by Winograd's algorithm: the transforms by kernels, the 36 products by one call of cuBLAS.

minicnn/fast/winograd.py explains it; the names are the same.  The derivative is the transposed steps, from gM,
which both gradients share.  V is computed again rather than kept: it is 2.25 times as large as x.  U stays in memory
until then, with x and w: it is 36 C F numbers, four times as many as a w of 3x3.  The products that transform filters
are small, and always exact: the precision that is asked for is that of the 36.  The derivative has the precision that
was asked for when the op was called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, Device, device_of
from minicnn.fast.cuda.kernels import Launch, available
from minicnn.fast.cuda.shapes import Pieces, reciprocals
from minicnn.fast.cuda.sums import sum_rows
from minicnn.fast.winograd import ALGORITHMS, BIAS, computes, matrices
from minicnn.ops.conv import check_shapes
from minicnn.ops.windows import Pad, Pair2, Size, Windows, as_pad
from minicnn.parallel import taken
from minicnn.precision import precision

ACTIVATIONS = (None, "relu", "crelu")  # in the order of winograd.cu
STRIP = 4  # pixels of the image that a thread of input_transform_adjoint has side by side: WIDTH in winograd.cu
LEAST_CHANNELS = 16  # with fewer channels or filters the transforms move more bytes than the products save

Shape = tuple[int, ...]


def fits(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> bool:
    return available(x) and computes(x, w, stride, LEAST_CHANNELS)


def conv2d(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1; then ops.relu or ops.crelu, if `activation` says so.

    The derivative of an activation reads its output.  What lies between the two is never in memory.
    """
    device, dtype, b_shape = device_of(x), x.dtype, None if b is None else b.shape
    layer = _layer(device, dtype, precision(), x.shape, w.shape, b_shape, as_pad("conv2d", pad), activation)
    xp = device.xp
    x, w, b = xp.ascontiguousarray(x), xp.ascontiguousarray(w), None if b is None else xp.ascontiguousarray(b)
    u = xp.empty(layer.u_shape, dtype)
    layer.transform_filters(layer.filter_transform, w, u)  # U = G g G'
    y = xp.empty(layer.y_shape, dtype)
    for piece, tiles in layer.pieces():
        v, m = xp.empty(tiles.v_shape, dtype), xp.empty(tiles.m_shape, dtype)
        tiles.input(v, taken(x, piece))
        tiles.multiply(v, u, m)  # M = V U
        tiles.output(taken(y, piece), m, b)
        del v, m  # the budget of a piece is for two such arrays at a time
    kept = None if activation is None else y

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        g = xp.ascontiguousarray(g)
        gx = xp.empty(x.shape, dtype) if needs[0] else None
        gu, gb = None, None
        for piece, tiles in layer.pieces():
            gm, v = xp.empty(tiles.m_shape, dtype), xp.empty(tiles.v_shape, dtype)  # the second is gV first, then V
            tiles.output_adjoint(gm, taken(g, piece), None if kept is None else taken(kept, piece))
            if gx is not None:
                tiles.multiply_by_filters(gm, u, v)  # gV = gM U'
                tiles.input_adjoint(taken(gx, piece), v)
            if needs[1]:
                tiles.input(v, taken(x, piece))
                summand = xp.empty(layer.u_shape, dtype)
                tiles.multiply_over_tiles(v, gm, summand)  # gU = V' gM
                gu = summand if gu is None else gu + summand
            if needs[2] and b is not None:
                summand = sum_rows(gm[BIAS])  # the sums of all tiles
                gb = summand if gb is None else gb + summand
            del gm, v
        gw = None
        if gu is not None:
            gw = xp.empty(w.shape, dtype)
            layer.transform_filters_adjoint(layer.filter_transform, gu, gw)  # G' gU G
        return gx, gw, gb

    return y, vjp


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
        pad: tuple[Pair2, Pair2],
        activation: str | None,
    ):
        check_shapes(x_shape, w_shape, b_shape)
        assert device.cuda is not None
        windows = Windows.of_shape("conv2d", x_shape, w_shape[:2], 1, pad)
        (n, *_), (k, _, c, f) = x_shape, w_shape
        self.u_shape, self.y_shape = (36, c, f), (n, *windows.out, 2 * f if activation == "crelu" else f)
        self.filter_transform = _filter_transform(device, k, dtype)  # (36, k k)
        product = partial(device.cuda.product, dtype)
        self.transform_filters = product(36, k * k, c * f)
        self.transform_filters_adjoint = product(k * k, 36, c * f, transpose_a=True)
        sample_bytes = 36 * math.prod(tiles_of(windows)) * (c + f) * dtype.itemsize
        self.pieces = Pieces(n, sample_bytes, partial(TileKernels, device, dtype, precision, windows, c, f, activation))


_layer = lru_cache(1024)(Layer)


def tiles_of(windows: Windows) -> Pair2:
    """Rows and columns of the tiles of an image."""
    step = ALGORITHMS[windows.k[0]].outputs
    rows, columns = (-(-size // step) for size in windows.out)
    return rows, columns


class TileKernels:
    """n images cut into 6x6 tiles, every `step` pixels: kernels between images and stacks (36, tiles, C), and products.

    input(v, x)                       V = B' d B
    multiply(v, u, m)                 M = V U
    output(y, m, bias)                Y = A' M A + bias, activated
    output_adjoint(gm, g, y)          gM = A gY A'; y, the output, is needed if there is an activation
    multiply_by_filters(gm, u, gv)    gV = gM U'
    input_adjoint(gx, gv)             gx = the sum over tiles of B gV B', a thread for each strip of the image, which it
                                      goes down tile by tile
    multiply_over_tiles(v, gm, gu)    gU = V' gM
    """

    def __init__(
        self,
        device: Device,
        dtype: Any,
        precision: str,
        windows: Windows,
        c: int,
        f: int,
        activation: str | None,
        n: int,
    ):
        assert device.cuda is not None
        step = ALGORITHMS[windows.k[0]].outputs
        (h, w), ((top, _), (left, _)), (rows, columns) = windows.size, windows.pad, tiles_of(windows)
        tiles = n * rows * columns
        self.v_shape, self.m_shape = (36, tiles, c), (36, tiles, f)

        product = partial(device.cuda.product, dtype, stack=36, precision=precision)
        self.multiply = product(tiles, c, f)
        self.multiply_by_filters = product(tiles, f, c, transpose_b=True)
        self.multiply_over_tiles = product(c, tiles, f, transpose_a=True)

        image = (h, w, c, top, left, rows, columns)
        self.input = Launch(
            device, f"winograd.input_transform_{step}", *image, *reciprocals(c, columns, rows), count=tiles * c
        )
        down, across = -(-(h + top) // step), -(-(w + left) // STRIP)
        self.input_adjoint = Launch(
            device, f"winograd.input_transform_adjoint_{step}", *image, down, across, tiles, *reciprocals(c, across),
            count=n * across * c,
        )  # fmt: skip
        told = (*windows.out, f, rows, columns, ACTIVATIONS.index(activation), *reciprocals(f, columns, rows))
        self.output = Launch(device, f"winograd.output_transform_{step}", *told, count=tiles * f)
        self.output_adjoint = Launch(device, f"winograd.output_transform_adjoint_{step}", *told, count=tiles * f)


_transforms: dict[tuple[str, int, Any], Array] = {}  # uploaded once, by device, size of the kernel and dtype


def _filter_transform(device: Device, k: int, dtype: Any) -> Array:
    """The matrix (36, k k) that gives U of filters, on a device."""
    key = (device.name, k, dtype)
    if key not in _transforms:
        _transforms[key] = device.put(matrices(ALGORITHMS[k], dtype)[2])
    return _transforms[key]
