"""Convolution as a matrix product, in C (columns.c), with the activation that follows it: any kernel, stride and pad.

A range of output pixels at a time: their columns stay in the cache.  A 1x1 convolution with stride 1 needs no columns:
the pixels of the image are the rows of the product.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.native.library import available, kernels_with_products, lanes
from minicnn.fast.native.winograd import ACTIVATIONS, normalised
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows, as_pad, as_pair
from minicnn.parallel import PARTIAL_SUMS, cut, over_slices, scratch, sum_over_slices, threads_here

PIECE_BYTES = 256 << 10  # of columns: what stays in the second cache of a core
LEAST_PIXELS = 48  # in a piece, so that the filters are not read too often
FEW_PIXELS = 128  # in a batch: then reading the weights is most of the work, and the filters are shared out instead
LEAST_PRODUCTS = 1 << 20  # of two numbers: less is not worth a second thread


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return available(x) and x.ndim == w.ndim == 4 and x.size > 0 and w.size > 0


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Size = 1,
    pad: Pad = 0,
    activation: str | None = None,
) -> Pair:
    """ops.conv2d; then ops.relu or ops.crelu, if `activation` says so."""
    check_conv2d(x, w, b)
    x, w = np.ascontiguousarray(x), np.ascontiguousarray(w)
    pixels = pixels_for(x, w, stride, pad, activation)
    y = pixels.forward(x, w, None if b is None else np.ascontiguousarray(b))
    out = y if activation else None  # the derivative of an activation reads its output

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        needs_b = needs[2] and b is not None
        gx, gw, gb = pixels.backward(x, w, np.ascontiguousarray(g), out, needs[0], needs[1], needs_b)
        return gx, gw, gb

    return y, vjp


def pixels_for(x: np.ndarray, w: np.ndarray, stride: Size, pad: Pad, activation: str | None) -> Pixels:
    geometry = as_pair("conv2d", "stride", stride), as_pad("conv2d", pad)
    return pixels_of(kernels_with_products(x.dtype), x.shape, w.shape, x.dtype.char, *geometry, activation)


conv2d_normalised = normalised(pixels_for)


class Shape(ctypes.Structure):
    """Images, windows and output pixels, as columns.c takes them (`windows` there)."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in ("height", "width", "channels", "kh", "kw", "down", "across", "top", "left", "rows", "columns")
    ]


def shape_in_c(windows: Windows, channels: int) -> Shape:
    (top, _), (left, _) = windows.pad
    return Shape(*windows.size, channels, *windows.k, *windows.stride, top, left, *windows.out)


class Pixels:
    """The output pixels of a convolution of x (N, H, W, C) with w (kh, kw, C, F), numbered through all images."""

    def __init__(
        self,
        steps_in_c: Any,
        x_shape: tuple[int, ...],
        w_shape: tuple[int, ...],
        dtype: str,
        stride: Size,
        pad: Pad,
        activation: str | None,
    ):
        self.steps_in_c, self.dtype, self.panel = steps_in_c, np.dtype(dtype), 2 * lanes(dtype)
        windows = Windows.of_shape("conv2d", x_shape, w_shape[:2], stride, pad)
        self.n, self.f, self.k = x_shape[0], w_shape[3], math.prod(w_shape[:3])
        self.activation, self.features = ACTIVATIONS[activation], self.f * (2 if activation == "crelu" else 1)
        self.shape = shape_in_c(windows, x_shape[3])
        self.pixels_are_rows = windows.k == windows.stride == (1, 1) and windows.out == windows.size
        self.y_shape = (self.n, *windows.out, self.features)
        self.per_image = windows.out[0] * windows.out[1]
        self.count = self.n * self.per_image
        most = max(LEAST_PIXELS, PIECE_BYTES // (self.k * self.dtype.itemsize))
        worth = -(-LEAST_PRODUCTS // (self.k * self.f))
        self.piece = min(most, max(worth, LEAST_PIXELS, -(-self.count // 4)))

    def forward(
        self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, scale: np.ndarray | None = None
    ) -> np.ndarray:
        """The activation of U(x) W, scaled, plus b."""
        y = empty(self.y_shape, self.dtype)
        if self.count <= FEW_PIXELS and self.f % lanes(self.dtype) == 0:  # so that products may read w as it is
            weights, steps = w, (self.panel, self.f)
        else:
            weights, steps = self.panels(w, self.k, self.f), (self.k * self.panel, self.panel)
        # Each number of y has the same bits whoever computes it, so how the work is shared may depend on the threads.
        count, pixels, filters = threads_here(), self.piece, self.f
        if self.count <= FEW_PIXELS and self.k * self.f >= LEAST_PRODUCTS // FEW_PIXELS:
            pixels, filters = self.count, self.panel * -(-self.f // (self.panel * count))
        memory = None if self.pixels_are_rows else scratch("columns", (count, pixels, self.k), self.dtype)
        sizes, shares = (self.count, self.k, self.f), (count, pixels, filters)
        self.steps_in_c.columns_forward(
            x, self.shape, *sizes, weights, *steps, scale, b, self.activation, *shares, memory, y
        )
        return y

    def backward(
        self,
        x: np.ndarray,
        w: np.ndarray,
        g: np.ndarray,
        y: np.ndarray | None,
        needs_x: bool,
        needs_w: bool,
        needs_b: bool,
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """gx = U'(g W'), gw = U(x)' g and gb = sum of g, with g brought back through the activation; as needed."""
        gx = empty(x.shape, self.dtype) if needs_x else None
        matrix = self.panels(w, self.f, self.k, transposed=True) if needs_x else None
        size = self.k * self.f if needs_w else 0
        g_rows = g.reshape(-1, self.features)
        y_rows = g_rows if y is None else y.reshape(-1, self.features)
        row = self.panel * -(-self.f // self.panel)

        def some_images(images: slice, sums: np.ndarray) -> None:
            """In order, because in gx the windows overlap; `sums` are gw and gb."""
            first = images.start * self.per_image
            if gx is not None and not self.pixels_are_rows:
                gx[images] = 0
            for some in cut(first, images.stop * self.per_image, self.piece):
                count, add = some.stop - some.start, some.start > first
                here = scratch("gradient", (count, row), self.dtype)
                self.steps_in_c.columns_before(g_rows[some], y_rows[some], count, self.f, self.activation, here, row)
                if needs_w:
                    columns = self.columns(x, some)
                    self.steps_in_c.columns_filters(count, self.k, self.f, columns, self.k, here, row, add, sums)
                if needs_b:
                    total = here[:, : self.f].sum(axis=0)
                    sums[size:] = sums[size:] + total if add else total
                if gx is not None:
                    into = gx.reshape(-1, self.k)[some] if self.pixels_are_rows else self.memory(count)
                    self.steps_in_c.columns_product(count, self.f, self.k, here, row, matrix, into, self.k)
                    if not self.pixels_are_rows:
                        self.steps_in_c.columns_add(into, self.k, self.shape, some.start, some.stop, gx)

        if not (needs_w or needs_b):
            share = max(1, self.piece // self.per_image)
            over_slices(lambda images: some_images(images, HOST), cut(0, self.n, share), x)
            return gx, None, None
        sums = np.zeros(size + (self.f if needs_b else 0), self.dtype)
        sum_over_slices(some_images, cut(0, self.n, self._group()), sums)
        gw = sums[:size].reshape(w.shape).copy() if needs_w else None
        return gx, gw, sums[size:].copy() if needs_b else None

    def _group(self) -> int:
        """Over how many images one sum is taken: there are at most PARTIAL_SUMS, and none that is not worth it."""
        worth = -(-LEAST_PRODUCTS // (self.k * self.f * self.per_image))
        return max(-(-self.n // PARTIAL_SUMS), min(worth, -(-self.n // 2)))

    def panels(self, w: np.ndarray, k: int, n: int, transposed: bool = False) -> np.ndarray:
        """The matrix of the filters, (k, n), as products read it: (n / panel, k, panel)."""
        u = empty((-(-n // self.panel), k, self.panel), self.dtype)
        self.steps_in_c.columns_panels(w, k, n, transposed, u)
        return u

    def columns(self, x: np.ndarray, some: slice) -> np.ndarray:
        """Those of some pixels: (pixels, kh kw C)."""
        if self.pixels_are_rows:
            return x.reshape(-1, self.k)[some]
        columns = self.memory(some.stop - some.start)
        self.steps_in_c.columns_gather(x, self.shape, some.start, some.stop, columns, self.k)
        return columns

    def memory(self, pixels: int) -> np.ndarray:
        return scratch("columns", (pixels, self.k), self.dtype)


pixels_of = lru_cache(maxsize=512)(Pixels)  # the same for every call with this library and these shapes

HOST = np.empty(0)  # where no sums are needed
