"""A convolution as a linear map: matrix-free, dense and sparse, with its exact adjoint and an approximate inverse.

    T : image (H, W, C) -> responses (OH, OW, F),    T x = conv2d(x, w)    (no bias)

is the analysis operator of the frame that consists of all shifts of all filters (minicnn/theory/frames.py); its
adjoint T' is the synthesis operator.  T' is the paper's D x nK matrix W for images: one shifted filter per column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minicnn.autodiff import Vjp
from minicnn.backend import Array, array_module, device_of, to_host, where_its_arrays_are
from minicnn.ops.conv import conv2d
from minicnn.ops.windows import Pad, Pair2, Size, Windows, as_pair, unfold


@where_its_arrays_are
def check_numbers(where: str, name: str, a: Array) -> None:
    """The array that is called `name` is finite, float32 or float64."""
    if a.dtype not in (np.float32, np.float64):
        raise TypeError(f"{where}: {name} has dtype {a.dtype}; use {name}.astype('float64')")
    if not bool(array_module(a).isfinite(a).all()):
        raise ValueError(f"{where}: {name} holds NaN or infinite values")


@where_its_arrays_are
def check_filters(where: str, w: Array) -> None:
    """w is (kh, kw, C, F) with no axis empty, finite, float32 or float64, and not all zero."""
    if w.ndim != 4 or 0 in w.shape:
        raise ValueError(f"{where}: w must be filters of shape (kh, kw, C, F), none of them 0, got shape {w.shape}")
    check_numbers(where, "w", w)
    if not bool((w != 0).any()):
        raise ValueError(f"{where}: all filters are zero: they span nothing")


def on_columns(
    work: Callable[[Array], Array], shape: tuple[int, ...], like: Array
) -> Callable[[np.ndarray], np.ndarray]:
    """`work` of a batch (N, *shape) as a function of host columns, for scipy: (size,) or (size, N) -> (other size, N).

    The work is done on the device of `like` and in its precision.
    """
    device = device_of(like)

    def apply(columns: np.ndarray) -> np.ndarray:
        batch = np.ascontiguousarray(columns.reshape(math.prod(shape), -1).T, like.dtype)
        return to_host(work(device.put(batch.reshape(-1, *shape)))).reshape(len(batch), -1).T

    return apply


class Convolution:
    """T x = conv2d(x, w) on images of one size, and its adjoint; both take a batch.

    conv = Convolution(w, (227, 227), stride=4)
    z = conv.analysis(x)                (N, H, W, C) -> (N, OH, OW, F)
    y = conv.synthesis(z)               back; <T x, z> = <x, T' z> exactly
    """

    @where_its_arrays_are
    def __init__(self, w: Array, size: Size, *, stride: Size = 1, pad: Pad = 0):
        check_filters("Convolution", w)
        self.w = w  # (kh, kw, C, F)
        self.device, self.xp = device_of(w), array_module(w)
        height, width = as_pair("Convolution", "size", size)
        one = self.xp.zeros((1, height, width, w.shape[2]), w.dtype)
        self.windows = Windows.over("Convolution", one, w.shape[:2], stride, pad)
        self.input_shape: tuple[int, int, int] = (height, width, w.shape[2])
        self.output_shape: tuple[int, int, int] = (*self.windows.out, w.shape[3])
        self._adjoint: tuple[int, Vjp] = (-1, lambda g: ())  # of the last batch size

    @property
    def shape(self) -> Pair2:
        """The shape of the matrix: (OH OW F, H W C)."""
        return math.prod(self.output_shape), math.prod(self.input_shape)

    def analysis(self, x: Array) -> Array:
        """T x: (N, H, W, C) -> (N, OH, OW, F)."""
        self._check("analysis", x, self.input_shape)
        return conv2d(x, self.w, stride=self.windows.stride, pad=self.windows.pad)

    @where_its_arrays_are
    def synthesis(self, z: Array) -> Array:
        """T' z: (N, OH, OW, F) -> (N, H, W, C).  The derivative of conv2d, which does not depend on the image."""
        self._check("synthesis", z, self.output_shape)
        n = len(z)
        if self._adjoint[0] != n:
            zeros = self.xp.zeros((n, *self.input_shape), self.w.dtype)
            vjp = conv2d.pair(zeros, self.w, stride=self.windows.stride, pad=self.windows.pad)[1]
            self._adjoint = (n, vjp)
        return self._adjoint[1](z, (True, False, False))[0]

    def frame_operator(self, x: Array) -> Array:
        """S x = T' T x: (N, H, W, C) -> (N, H, W, C)."""
        return self.synthesis(self.analysis(x))

    @where_its_arrays_are
    def dense(self) -> Array:
        """The matrix of T, (OH OW F, H W C): column by column, T of every unit image."""
        units = self.xp.eye(self.shape[1], dtype=self.w.dtype)
        return self.analysis(units.reshape(-1, *self.input_shape)).reshape(len(units), -1).T

    def sparse(self) -> Any:
        """The matrix of T as a scipy.sparse.csr_array on the host, built from indices (not from conv2d).

        Row (p, q, f) holds filter f at the pixels of window (p, q); cells in the padding have no column.
        """
        from scipy import sparse

        numbers = np.arange(1, self.shape[1] + 1).reshape(1, *self.input_shape)  # 0 is the padding
        pixels = unfold(numbers, self.windows).reshape(-1, 1, self.w[..., 0].size)  # (OH OW, 1, kh kw C)
        values = to_host(self.w).reshape(1, -1, self.w.shape[3]).transpose(0, 2, 1)  # (1, F, kh kw C)
        rows = np.arange(self.shape[0]).reshape(len(pixels), -1, 1)  # (OH OW, F, 1)
        rows, pixels, values = np.broadcast_arrays(rows, pixels, values)
        inside = pixels > 0
        return sparse.csr_array((values[inside], (rows[inside], pixels[inside] - 1)), self.shape)

    def linear_operator(self) -> Any:
        """T as a scipy LinearOperator on host vectors; the work is done on the device of w."""
        from scipy.sparse.linalg import LinearOperator

        forward = on_columns(self.analysis, self.input_shape, self.w)
        adjoint = on_columns(self.synthesis, self.output_shape, self.w)
        return LinearOperator(
            self.shape,
            dtype=self.w.dtype,
            matvec=lambda v: forward(v).ravel(),
            rmatvec=lambda v: adjoint(v).ravel(),
            matmat=forward,
            rmatmat=adjoint,
        )

    def _check(self, name: str, array: Array, shape: tuple[int, ...]) -> None:
        if array.ndim != 4 or array.shape[1:] != shape:
            raise ValueError(f"Convolution.{name}: expected shape (N, {', '.join(map(str, shape))}), got {array.shape}")


class TileInverse:
    """An approximate inverse of S = T' T + damping, for iterations that would be slow without it: overlapping tiles.

        M r = sum over tiles i of  E_i (E_i' S E_i)^-1 E_i' r          (additive Schwarz)

    E_i' cuts a tile of tile x tile pixels out of an image; neighbours overlap by half.  S is a sum of W W' over all
    windows, so all tiles that windows meet in the same way share one matrix: nine of them, as a rule (the
    inside, four borders, four corners).  Inside a tile the inverse is exact, which settles the fine patterns that
    filters see badly; the iteration is left with what is smooth across tiles.

    tile    in pixels; None: as many multiples of the stride as keep tile^2 C below about 2000
    """

    @where_its_arrays_are
    def __init__(self, conv: Convolution, tile: int | None = None, *, damping: float = 0.0):
        self.conv, self.damping, self.device = conv, damping, conv.device
        (sh, sw), c = conv.windows.stride, conv.input_shape[2]
        unit = math.lcm(sh, sw)
        tile = max(2 * unit, int(math.sqrt(2000 / c)) // (2 * unit) * 2 * unit) if tile is None else tile
        if tile < 1 or damping < 0:
            raise ValueError(f"TileInverse: tile must be at least 1 and damping at least 0, got {tile} and {damping}")
        self.tile: Pair2 = (min(tile, conv.input_shape[0]), min(tile, conv.input_shape[1]))
        step = min(tile, max(unit, tile // 2 // unit * unit))
        rows, columns = (self._classes(axis, step) for axis in (0, 1))
        self._parts = [(ys, xs, self._inverse(a, b)) for a, ys in rows.items() for b, xs in columns.items()]

    @where_its_arrays_are
    def __call__(self, r: Array) -> Array:
        """M r: (N, H, W, C) -> (N, H, W, C)."""
        xp, (th, tw), c = self.conv.xp, self.tile, self.conv.input_shape[2]
        z = xp.zeros(r.shape, r.dtype)
        for ys, xs, inverse in self._parts:
            cuts = xp.stack([r[:, y : y + th, x : x + tw] for y in ys for x in xs])  # (tiles, N, th, tw, C)
            solved = (cuts.reshape(-1, th * tw * c) @ inverse).reshape(cuts.shape)
            for i, (y, x) in enumerate((y, x) for y in ys for x in xs):
                z[:, y : y + th, x : x + tw] += solved[i]
        return z

    def linear_operator(self) -> Any:
        """M as a scipy LinearOperator on host vectors."""
        from scipy.sparse.linalg import LinearOperator

        size, apply = self.conv.shape[1], on_columns(self, self.conv.input_shape, self.conv.w)
        return LinearOperator((size, size), dtype=self.conv.w.dtype, matvec=lambda v: apply(v).ravel(), matmat=apply)

    def _classes(self, axis: int, step: int) -> dict[tuple[int, ...], list[int]]:
        """Tiles along an axis by the windows that meet them: {starts of the windows in the tile: starts of tiles}."""
        windows, tile = self.conv.windows, self.tile[axis]
        size, k, stride, out = (pair[axis] for pair in (windows.size, windows.k, windows.stride, windows.out))
        starts = [p * stride - windows.pad[axis][0] for p in range(out)]
        classes: dict[tuple[int, ...], list[int]] = {}
        for cut in [*range(0, size - tile, step), size - tile]:
            meet = tuple(start - cut for start in starts if cut - k < start < cut + tile)
            classes.setdefault(meet, []).append(cut)
        return classes

    def _inverse(self, ys: tuple[int, ...], xs: tuple[int, ...]) -> Array:
        """(E' S E)^-1 of a tile that windows meet at (ys, xs).

        A little is added to the diagonal, at least the eps of the dtype: a tile may be singular, and with less the
        rounding errors of r, in directions that no filter sees, would come back larger than the rest.
        """
        xp, w = self.conv.xp, self.conv.w.astype(np.float64)
        (th, tw), (kh, kw, c, f) = self.tile, w.shape
        matrix = w.reshape(-1, f)
        square = (matrix @ matrix.T).reshape(kh, kw, c, kh, kw, c)
        gram = xp.zeros((th, tw, c, th, tw, c))
        for y in ys:
            for x in xs:
                (top, bottom), (left, right) = (max(y, 0), min(y + kh, th)), (max(x, 0), min(x + kw, tw))
                in_tile = (slice(top, bottom), slice(left, right), slice(None))
                in_window = (slice(top - y, bottom - y), slice(left - x, right - x), slice(None))
                gram[in_tile + in_tile] += square[in_window + in_window]
        n = th * tw * c
        gram = gram.reshape(n, n)
        largest = xp.maximum(gram.max(), 1e-300)
        unseen = xp.diagonal(gram) == 0  # pixels that no window covers
        little = max(1e-11, float(np.finfo(self.conv.w.dtype).eps))
        gram += xp.diag(xp.where(unseen, largest, little * largest) + self.damping)
        inverse = xp.linalg.inv(gram)
        return (0.5 * (inverse + inverse.T)).astype(self.conv.w.dtype)


# Of every image of a batch.


@where_its_arrays_are
def dot(a: Array, b: Array) -> Array:
    """The inner product of every image: (N, ...), (N, ...) -> (N,)."""
    return (a * b).reshape(len(a), -1).sum(axis=1)


@where_its_arrays_are
def norm(a: Array) -> Array:
    return array_module(a).sqrt(dot(a, a))


@where_its_arrays_are
def positive(a: Array) -> Array:
    """a, or 1 where it is 0: a denominator.  NaN stays NaN."""
    return array_module(a).where(a <= 0, 1, a)
