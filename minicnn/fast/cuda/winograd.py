"""Convolutions with stride 1 by Winograd's algorithm: the transforms by kernels, the 36 products by one call of cuBLAS.

minicnn/fast/winograd.py explains it; the names are the same.  The derivative is the transposed steps, from gM,
which both gradients share.  V is computed again rather than kept: it is 2.25 times as large as x.  U stays in memory
until then, with x and w: it is 36 C F numbers, four times as many as a w of 3x3.  The products that transform filters
are small, and always exact: the precision that is asked for is that of the 36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, Device, array_module, device_of
from minicnn.fast.cuda.kernels import available, launch
from minicnn.fast.cuda.shapes import reciprocals
from minicnn.fast.cuda.sums import sum_rows
from minicnn.fast.winograd import ALGORITHMS, BIAS, computes, matrices
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows
from minicnn.parallel import pieces, taken

ACTIVATIONS = (None, "relu", "crelu")  # in the order of winograd.cu
STRIP = 4  # pixels of the image that a thread of input_transform_adjoint has side by side: WIDTH in winograd.cu
LEAST_CHANNELS = 16  # with fewer channels or filters the transforms move more bytes than the products save


def fits(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return available(x) and computes(x, w, stride, LEAST_CHANNELS)


def conv2d(
    x: Array, w: Array, b: Array | None = None, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1; then ops.relu or ops.crelu, if `activation` says so.

    The derivative of an activation reads its output.  What lies between the two is never in memory.
    """
    check_conv2d(x, w, b)
    xp, device = array_module(x), device_of(x)
    assert device.cuda is not None
    multiply = device.cuda.matmul
    windows = Windows.over("conv2d", x, w.shape[:2], 1, pad)
    n, c, f = len(x), w.shape[2], w.shape[3]
    x = xp.ascontiguousarray(x)
    tiles = TileKernels.of(windows, c, f, ACTIVATIONS.index(activation))
    sample_bytes = 36 * tiles.per_image * (c + f) * x.dtype.itemsize
    transform = _filter_transform(device, windows.k[0], x.dtype)  # (36, r r)
    u = xp.empty((36, c, f), x.dtype)
    multiply(transform, xp.ascontiguousarray(w).reshape(-1, c * f), u.reshape(36, c * f), exact=True)  # U = G g G'

    def stack(piece: slice, channels: int) -> Array:
        """Memory for V or M, or their gradients, of a piece."""
        return xp.empty((36, (piece.stop - piece.start) * tiles.per_image, channels), x.dtype)

    y = xp.empty((n, *windows.out, 2 * f if activation == "crelu" else f), x.dtype)
    for piece in pieces(n, sample_bytes, x):
        m = stack(piece, f)
        multiply(tiles.input(taken(x, piece), stack(piece, c)), u, m)  # M = V U
        tiles.output(m, b, taken(y, piece))

    kept = None if activation is None else y

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        g = xp.ascontiguousarray(g)
        gx = xp.empty(x.shape, x.dtype) if needs[0] else None
        gu, gb = None, None
        for piece in pieces(n, sample_bytes, x):
            gm = tiles.output_adjoint(taken(g, piece), None if kept is None else taken(kept, piece), stack(piece, f))
            if gx is not None:
                gv = stack(piece, c)
                multiply(gm, u, gv, transpose_b=True)  # gV = gM U'
                tiles.input_adjoint(gv, taken(gx, piece))
                del gv  # the budget of a piece is for two such arrays at a time
            if needs[1]:
                summand = xp.empty((36, c, f), x.dtype)
                multiply(tiles.input(taken(x, piece), stack(piece, c)), gm, summand, transpose_a=True)  # gU = V' gM
                gu = summand if gu is None else gu + summand
            if needs[2] and b is not None:
                summand = sum_rows(gm[BIAS])  # the sums of all tiles
                gb = summand if gb is None else gb + summand
            del gm
        return gx, None if gu is None else filter_gradient(gu), gb

    def filter_gradient(gu: Array) -> Array:
        """G' gU G."""
        gw = xp.empty(w.shape, w.dtype)
        multiply(transform, gu.reshape(36, c * f), gw.reshape(-1, c * f), transpose_a=True, exact=True)
        return gw

    return y, vjp


@dataclass(frozen=True)
class TileKernels:
    """An image cut into 6x6 tiles, every `step` pixels; the kernels between images and stacks (36, tiles, C)."""

    windows: Windows
    channels: int
    features: int
    step: int
    rows: int
    columns: int
    activation: int  # its place in ACTIVATIONS

    @staticmethod
    @lru_cache(1024)  # the shapes of a network come again in every step
    def of(windows: Windows, channels: int, features: int, activation: int) -> TileKernels:
        step = ALGORITHMS[windows.k[0]].outputs
        rows, columns = (-(-size // step) for size in windows.out)
        return TileKernels(windows, channels, features, step, rows, columns, activation)

    @cached_property
    def per_image(self) -> int:
        return self.rows * self.columns

    def input(self, x: Array, v: Array) -> Array:
        """V = B' d B."""
        numbers = (*self._input_numbers, *self._per_tile(self.channels))
        launch(f"winograd.input_transform_{self.step}", (v,), x, *numbers, count=v.size // 36)
        return v

    def input_adjoint(self, gv: Array, gx: Array) -> None:
        """gx = the sum over tiles of B gV B', a thread for each strip of the image, which it goes down tile by tile."""
        (top, _), (left, _) = self.windows.pad
        h, w = self.windows.size
        down, across = -(-(h + top) // self.step), -(-(w + left) // STRIP)
        launch(
            f"winograd.input_transform_adjoint_{self.step}", (gx,), gv, *self._input_numbers, down, across,
            gv.shape[1], *reciprocals(self.channels, across), count=len(gx) * across * self.channels,
        )  # fmt: skip

    def output(self, m: Array, bias: Array | None, y: Array) -> None:
        """Y = A' M A + bias, activated."""
        launch(f"winograd.output_transform_{self.step}", (y,), m, bias, *self._output_numbers, count=m.size // 36)

    def output_adjoint(self, g: Array, y: Array | None, gm: Array) -> Array:
        """gM = A gY A'; y, the output, is needed if there is an activation."""
        kernel = f"winograd.output_transform_adjoint_{self.step}"
        launch(kernel, (gm,), g, y, *self._output_numbers, count=gm.size // 36)
        return gm

    def _per_tile(self, channels: int) -> tuple[Any, ...]:
        return reciprocals(channels, self.columns, self.rows)

    @cached_property
    def _output_numbers(self) -> tuple[Any, ...]:
        numbers = (*self.windows.out, self.features, self.rows, self.columns, self.activation)
        return (*numbers, *self._per_tile(self.features))

    @cached_property
    def _input_numbers(self) -> tuple[int, ...]:
        (top, _), (left, _) = self.windows.pad
        return (*self.windows.size, self.channels, top, left, self.rows, self.columns)


_transforms: dict[tuple[str, int, Any], Array] = {}  # uploaded once, by device, size of the kernel and dtype


def _filter_transform(device: Device, k: int, dtype: Any) -> Array:
    """The matrix (36, k k) that gives U of filters, on a device."""
    key = (device.name, k, dtype)
    if key not in _transforms:
        _transforms[key] = device.put(matrices(ALGORITHMS[k], dtype)[2])
    return _transforms[key]
