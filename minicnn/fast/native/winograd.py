"""3x3 and 5x5 convolutions with stride 1 by Winograd's algorithm, in C (winograd.c), with the activation that follows.

minicnn/fast/winograd.py explains the steps; the names are the same.  There are three ways to share out the work:

by tiles    A piece of the batch goes through all steps at once, in memory that stays in the cache.  Every piece reads
            all of U.  The filters' gradient is a sum over pieces: partial sums, each as large as U.
by places   All tiles of a block of images take a step before the next step begins, and in the products the 36 places
            are shared out: each part of U is read once, and there are no partial sums.  This is better where U is
            large.
by filters  For few tiles, and forward only: every thread computes all V, and the outputs of its own filters.

In the derivative, V is computed again from x, and gM serves both gradients.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast import fused
from minicnn.fast.cpu.memory import empty
from minicnn.fast.native.kept import kept
from minicnn.fast.native.library import available, kernels_with_products, lanes
from minicnn.fast.winograd import ALGORITHMS, BIAS, computes, matrices
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Size, Windows, as_pad
from minicnn.parallel import PARTIAL_SUMS, cut, over_slices, scratch, sum_over_slices, threads_here

LEAST_CHANNELS = 6  # with fewer, columns are faster
MOST_CHANNELS = 4096  # as in winograd.c
LEAST_TILES = 3  # in a batch: with fewer, reading U costs more than it saves
PIECE_TILES = 64  # that go through all steps at once
BLOCK_BYTES = 64 << 20  # of V and M for one block of images
MOST_READ_U = 8 << 20  # bytes: a larger U is not read by every piece, but by places
SMALL_U = 1 << 20  # and a smaller one is not worth sharing out by filters
MOST_SUMMED_U = 3 << 20  # and of a larger gU there are no partial sums
FEW_TILES = 1024  # in a batch: from there on, transforming the filters is a small part of the work
LEAST_SHARE = 12  # tiles that are worth a thread
SHARES = 8  # pieces of a batch, where there are enough tiles: something for every core
COLUMNS = 1 << 12  # of C F, at a time, when the filters' gradient is transformed back
ACTIVATIONS = {None: 0, "relu": 1, "crelu": 2}  # as in winograd.c


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether this is such a convolution, and likely to be faster than by columns."""
    if not (available(x) and computes(x, w, stride, LEAST_CHANNELS)):
        return False
    (n, h, width, _), step = x.shape, ALGORITHMS[len(w)].outputs
    return max(w.shape[2:]) <= MOST_CHANNELS and n * -(-h // step) * -(-width // step) >= LEAST_TILES


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Size = 1,
    pad: Pad = 0,
    activation: str | None = None,
) -> Pair:
    """ops.conv2d for 3x3 or 5x5 filters and stride 1; then ops.relu or ops.crelu, if `activation` says so."""
    check_conv2d(x, w, b)
    x, w = np.ascontiguousarray(x), np.ascontiguousarray(w)
    tiles = tiles_for(x, w, stride, pad, activation)
    y = tiles.forward(x, w, None if b is None else np.ascontiguousarray(b))
    out = y if activation else None  # the derivative of an activation reads its output

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        needs_b = needs[2] and b is not None
        backward = Backward(tiles, x, w, np.ascontiguousarray(g), out, needs[0], needs[1] or needs_b)
        gw, gb = backward.of_filters()
        return backward.gx, gw if needs[1] else None, gb if needs_b else None

    return y, vjp


def normalised(plan: Callable[..., Any]) -> Callable[..., Pair]:
    """A version of fused.conv2d_normalised, from plan(x, w, stride, pad, activation), which has the forward pass."""

    def conv2d_normalised(
        x: np.ndarray,
        w: np.ndarray,
        scale: np.ndarray,
        shift: np.ndarray,
        *,
        activation: str | None = None,
        stride: Size = 1,
        pad: Pad = 0,
    ) -> Pair:
        check_conv2d(x, w, shift)
        x, w, scale, shift = map(np.ascontiguousarray, (x, w, scale, shift))
        y = plan(x, w, stride, pad, activation).forward(x, w, shift, scale)

        def vjp(g: np.ndarray, needs: Sequence[bool] = (True,) * 4) -> Grads:
            """By the textbook, which computes all again: in evaluation hardly anybody asks."""
            options: dict[str, Any] = {"activation": activation, "stride": stride, "pad": pad}
            return fused.conv2d_normalised.textbook(x, w, scale, shift, **options)[1](g, needs)

        return y, vjp

    return conv2d_normalised


def tiles_for(x: np.ndarray, w: np.ndarray, stride: Size, pad: Pad, activation: str | None) -> Tiles:
    return tiles_of(kernels_with_products(x.dtype), x.shape, w.shape, x.dtype.char, as_pad("conv2d", pad), activation)


conv2d_normalised = normalised(tiles_for)  # for 3x3 or 5x5 filters and stride 1


class Grid(ctypes.Structure):
    """The images of a batch and their tiles, as winograd.c takes them."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in ("height", "width", "pixel", "channels", "rows", "columns", "top", "left", "outputs")
    ]


class Layer(ctypes.Structure):
    """A convolution and the memory for its pieces, as winograd.c takes them."""

    _fields_ = [
        ("inputs", Grid),
        ("outputs", Grid),
        *((name, ctypes.c_long) for name in ("activation", "tiles", "piece", "v_place", "v_tile", "m_place", "m_tile")),
    ]


class Tiles:
    """The tiles of images (N, H, W, C) under filters (r, r, C, F), and the steps that take them to the output.

    Tiles are numbered through all images; `some` is a slice of them.  An array of places is (36, tiles, channels).
    """

    def __init__(
        self,
        steps_in_c: Any,
        x_shape: tuple[int, ...],
        w_shape: tuple[int, ...],
        dtype: str,
        pad: Pad,
        activation: str | None,
    ):
        self.steps_in_c, self.dtype, self.panel = steps_in_c, np.dtype(dtype), 2 * lanes(dtype)
        (self.n, *_), (self.c, self.f) = x_shape, w_shape[2:]
        self.algorithm = ALGORITHMS[w_shape[0]]
        windows = Windows.of_shape("conv2d", x_shape, w_shape[:2], 1, pad)
        step = self.algorithm.outputs
        rows, columns = (-(-size // step) for size in windows.out)
        features = self.f * (2 if activation == "crelu" else 1)
        (top, _), (left, _) = windows.pad
        self.y_shape = (self.n, *windows.out, features)
        self.per_image = rows * columns
        self.count = self.n * self.per_image
        self.piece = min(PIECE_TILES, self.count)
        v, m = (self.places("v and m", slice(0, self.piece), channels) for channels in (self.c, self.f))
        self.memory = 36 * (between(v)[0] + between(m)[0])
        self.layer = Layer(
            Grid(*windows.size, self.c, self.c, rows, columns, top, left, step),
            Grid(*windows.out, features, self.f, rows, columns, 0, 0, step),
            ACTIVATIONS[activation],
            self.count,
            self.piece,
            *between(v),
            *between(m),
        )
        self.inputs, self.outputs, self.activation = self.layer.inputs, self.layer.outputs, self.layer.activation
        self.u_bytes = 36 * self.c * self.f * self.dtype.itemsize
        self.by_places, self.backward_by_places = self.u_bytes >= MOST_READ_U, self.u_bytes >= MOST_SUMMED_U

    def forward(
        self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, scale: np.ndarray | None = None
    ) -> np.ndarray:
        """The activation of Y = A' [U * V] A, scaled, plus the bias."""
        u = kept(w, self.filters) if self.count < FEW_TILES else self.filters(w)
        y = empty(self.y_shape, self.dtype)
        if self.by_places and self.count > PIECE_TILES:
            for block in self.blocks():
                self._forward_by_places(block, x, u, b, scale, y)
            return y
        # Each number of y has the same bits whoever computes it, so how the work is shared may depend on the threads.
        count, tiles, filters = threads_here(), self.count, self.f
        if self.count <= PIECE_TILES and self.u_bytes >= SMALL_U:
            filters = self.panel * -(-self.f // (self.panel * count))
        else:
            shares = SHARES if self.count > SHARES * PIECE_TILES else count
            tiles = max(LEAST_SHARE, -(-self.count // shares))
        memory = scratch("v and m", (count, self.memory), self.dtype)
        self.steps_in_c.winograd_forward(x, u, scale, b, self.layer, count, tiles, filters, memory, self.memory, y)
        return y

    def _forward_by_places(
        self, block: slice, x: np.ndarray, u: np.ndarray, b: np.ndarray | None, scale: np.ndarray | None, y: np.ndarray
    ) -> None:
        v, m = self.places("all v", block, self.c), self.places("all m", block, self.f)
        self.over_tiles(block, lambda some, at: self.input_transform(x, some, v[:, at]))
        over_places(lambda some: self.products(some, v, u, m, self.c, self.f))
        self.over_tiles(block, lambda some, at: self.output_transform(m[:, at], some, b, scale, y))

    # The steps, in C

    def filters(self, w: np.ndarray, transposed: bool = False) -> np.ndarray:
        """U in panels for products: (36, F / panel, C, panel), and a little more between the 36.

        Transposed: (36, C / panel, F, panel).
        """
        rows, columns = (self.f, self.c) if transposed else (self.c, self.f)
        u = empty((36, -(-columns // self.panel) * rows * self.panel + self.panel), self.dtype)

        def some_rows(some: slice) -> None:
            self.steps_in_c.winograd_filters(
                w, self.algorithm.taps, self.c, self.f, transposed, some.start, some.stop, u
            )

        over_slices(some_rows, cut(0, rows, 16 * max(1, rows // 128)), w)
        return u

    def input_transform(self, x: np.ndarray, some: slice, v: np.ndarray) -> None:
        self.steps_in_c.winograd_input(x, self.inputs, some.start, some.stop, v, *between(v))

    def input_transform_adjoint(self, gv: np.ndarray, some: slice, gx: np.ndarray) -> None:
        self.steps_in_c.winograd_input_adjoint(gv, *between(gv), self.inputs, some.start, some.stop, gx)

    def output_transform(
        self, m: np.ndarray, some: slice, b: np.ndarray | None, scale: np.ndarray | None, y: np.ndarray
    ) -> None:
        span = (some.start, some.stop, self.activation, self.f)
        self.steps_in_c.winograd_output(m, *between(m), scale, b, self.outputs, *span, y)

    def output_transform_adjoint(self, g: np.ndarray, y: np.ndarray | None, some: slice, gm: np.ndarray) -> None:
        span = (some.start, some.stop, self.activation, self.f)
        self.steps_in_c.winograd_output_adjoint(g, g if y is None else y, self.outputs, *span, gm, *between(gm))

    def products(self, at: slice, v: np.ndarray, u: np.ndarray, m: np.ndarray, inner: int, columns: int) -> None:
        """M = V U at some places."""
        sizes = (at.start, at.stop, v.shape[1], inner, columns)
        self.steps_in_c.winograd_products(*sizes, v, *between(v), u, u.shape[1], m, *between(m))

    def filter_products(self, at: slice, v: np.ndarray, gm: np.ndarray, gu: np.ndarray, add: bool) -> None:
        """gU = V' gM at some places, or added to gU."""
        sizes = (at.start, at.stop, v.shape[1], self.c, self.f)
        self.steps_in_c.winograd_filter_products(*sizes, v, *between(v), gm, *between(gm), add, gu)

    # How the work and the memory are divided

    def places(self, name: str, some: slice, channels: int) -> np.ndarray:
        """Memory for V or M of some tiles: (36, tiles, channels or more).

        The channels end with a whole panel, because products read that.  Steps that are powers of two are avoided:
        what is that far apart competes for the same lines of the cache.
        """
        tiles, row = some.stop - some.start, self.panel * -(-channels // self.panel)
        row += self.panel if row % (4 * self.panel) == 0 else 0
        flat = scratch(name, (36, tiles * row + self.panel), self.dtype)
        return flat[:, : tiles * row].reshape(36, tiles, row)

    def blocks(self) -> list[slice]:
        """The tiles of as many images as V and M have memory for, and so on."""
        image_bytes = 36 * self.per_image * (self.c + self.f) * self.dtype.itemsize
        return cut(0, self.count, max(1, BLOCK_BYTES // image_bytes) * self.per_image)

    def over_tiles(self, block: slice, work: Callable[[slice, slice], object], length: int | None = None) -> None:
        """work(tiles, where they are in the block) for all tiles of a block, `length` at a time."""

        def one(some: slice) -> None:
            work(some, slice(some.start - block.start, some.stop - block.start))

        over_slices(one, cut(block.start, block.stop, length or self.piece), HOST)


tiles_of = lru_cache(maxsize=512)(Tiles)  # the same for every call with this library and these shapes


class Backward:
    """The gradients, for the gradient g of the output y: gx, and `sums`, which are gU and then that of the bias.

    Either is None if it is not needed; y is None if no activation follows.
    """

    def __init__(
        self,
        tiles: Tiles,
        x: np.ndarray,
        w: np.ndarray,
        g: np.ndarray,
        y: np.ndarray | None,
        needs_x: bool,
        needs_filters: bool,
    ):
        self.tiles, self.x, self.g, self.y = tiles, x, g, y
        self.u_size = 36 * tiles.c * tiles.f
        self.gx = empty(x.shape, x.dtype) if needs_x else None
        self.sums = empty((self.u_size + tiles.f,), x.dtype) if needs_filters else None
        self.u = tiles.filters(w, transposed=True) if needs_x else None
        if tiles.backward_by_places:
            self._by_places()
        elif self.sums is not None:
            self.sums.fill(0)
            sum_over_slices(self._some_images, cut(0, tiles.n, -(-tiles.n // PARTIAL_SUMS)), self.sums)
        elif self.gx is not None:
            over_slices(lambda some: self._some_images(some, None), cut(0, tiles.n, -(-tiles.n // PARTIAL_SUMS)), x)

    def of_filters(self) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """gw = G' gU G, and the gradient of the bias."""
        if self.sums is None:
            return None, None
        gu, gb = self.sums[: self.u_size].reshape(36, -1), self.sums[self.u_size :]
        taps, back = self.tiles.algorithm.taps, matrices(self.tiles.algorithm, gu.dtype)[2].T
        gw = empty((taps * taps, gu.shape[1]), gu.dtype)
        pieces = cut(0, gu.shape[1], COLUMNS)
        over_slices(lambda some: np.matmul(back, gu[:, some], out=gw[:, some]), pieces, gu)
        return gw.reshape(taps, taps, self.tiles.c, self.tiles.f), gb.copy()

    def _some_images(self, images: slice, sums: np.ndarray | None) -> None:
        """Write their gx, and what they add up to; one thread does them in order, because in gx their tiles overlap."""
        tiles, memory = self.tiles, scratch("v and m", (self.tiles.memory,), self.x.dtype)
        y = self.g if self.y is None else self.y
        tiles.steps_in_c.winograd_backward(
            self.g, y, self.x, self.u, tiles.layer, images.start, images.stop, memory, self.gx, sums
        )

    def _by_places(self) -> None:
        gx, tiles = self.gx, self.tiles
        if self.sums is not None:
            self.sums[self.u_size :] = 0  # the first block writes the rest
        if gx is not None:
            over_slices(lambda images: gx[images].fill(0), cut(0, tiles.n, -(-tiles.n // SHARES)), gx)
        for block in tiles.blocks():
            self._block(block)

    def _block(self, block: slice) -> None:
        """Add the gradients of a block of images, by places."""
        tiles, gx, sums, u = self.tiles, self.gx, self.sums, self.u
        gm, v = tiles.places("all m", block, tiles.f), tiles.places("all v", block, tiles.c)

        def transform(some: slice, at: slice) -> None:
            tiles.output_transform_adjoint(self.g, self.y, some, gm[:, at])
            if sums is not None:
                tiles.input_transform(self.x, some, v[:, at])

        def multiply(some: slice) -> None:
            if sums is not None:
                tiles.filter_products(some, v, gm, sums, add=block.start > 0)
            if u is not None:
                tiles.products(some, gm, u, v, tiles.f, tiles.c)  # v is gV now

        tiles.over_tiles(block, transform)
        over_places(multiply)
        if sums is not None:
            sums[self.u_size :] += gm[BIAS, :, : tiles.f].sum(axis=0)
        if gx is not None:  # an image is done by one thread, because in gx its tiles overlap
            images = max(1, tiles.piece // tiles.per_image)
            tiles.over_tiles(
                block, lambda some, at: tiles.input_transform_adjoint(v[:, at], some, gx), images * tiles.per_image
            )


def over_places(work: Callable[[slice], object]) -> None:
    """work(places) for all 36, a few at a time."""
    over_slices(work, cut(0, 36, 3), HOST)


def between(places: np.ndarray) -> tuple[int, int]:
    """The steps from a place to the next and from a tile to the next, in numbers."""
    return places.strides[0] // places.itemsize, places.strides[1] // places.itemsize


HOST = np.empty(0)  # tells `over_slices` that the work is on the CPU
