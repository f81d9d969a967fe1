"""Convolution as a matrix product."""

from __future__ import annotations

from collections.abc import Sequence

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module
from minicnn.ops.reduce import sum_to_channels
from minicnn.ops.windows import Pad, Size, Windows, fold, unfold
from minicnn.parallel import over_batch, sum_over_batch


@op(selective=True)
def conv2d(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """y = U(x) W + b.        gW = U(x)' g,    gx = U'(g W'),    gb = sum of g.

    x (N, H, W, C), w (kh, kw, C, F), b (F,) -> y (N, OH, OW, F).  U lists the windows of x as rows (im2col).
    W = w.reshape(-1, F) is the paper's matrix: one filter per column.  As in all of deep learning the filter is
    not flipped, so this is a correlation:  y[n, p, q, f] = sum_ijc x[n, p s + i, q s + j, c] w[i, j, c, f] + b[f].

    U(x) has kh*kw times the size of x.  It is built a few images at a time, and built again for the derivative.
    """
    xp = array_module(x)
    check_conv2d(x, w, b)
    n, f = x.shape[0], w.shape[3]
    windows = Windows.over("conv2d", x, w.shape[:2], stride, pad)
    matrix = w.reshape(-1, f)  # (kh kw C, F)
    oh, ow = windows.out
    sample_bytes = oh * ow * len(matrix) * x.dtype.itemsize

    def rows(piece: slice) -> Array:
        return unfold(x[piece], windows).reshape(-1, len(matrix))  # (n OH OW, kh kw C)

    y = xp.empty((n, oh, ow, f), x.dtype)

    def forward(piece: slice) -> None:
        xp.matmul(rows(piece), matrix, out=y[piece].reshape(-1, f))

    over_batch(forward, n, sample_bytes, x)
    if b is not None:
        y += b

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx: Array = xp.empty(x.shape, x.dtype) if needs[0] else None
        gw: Array = xp.zeros(matrix.shape, w.dtype) if needs[1] else None  # (kh kw C, F)

        def data_gradient(piece: slice) -> None:
            blocks = g[piece].reshape(-1, f) @ matrix.T  # (n OH OW, kh kw C)
            gx[piece] = fold(blocks.reshape(-1, oh, ow, *w.shape[:3]), windows)

        def weight_gradient(piece: slice, summand: Array) -> None:
            xp.matmul(rows(piece).T, g[piece].reshape(-1, f), out=summand)

        if needs[0]:
            over_batch(data_gradient, n, sample_bytes, x)
        if needs[1]:
            sum_over_batch(weight_gradient, n, sample_bytes, into=gw)
            gw = gw.reshape(w.shape)
        gb = sum_to_channels(g) if needs[2] and b is not None else None
        return gx, gw, gb

    return y, vjp


def check_conv2d(x: Array, w: Array, b: Array | None) -> None:
    """The shapes of a convolution fit together."""
    check_shapes(x.shape, w.shape, None if b is None else b.shape)


def check_shapes(x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None) -> None:
    """The same of the shapes themselves."""
    if len(w) != 4:
        raise ValueError(f"conv2d: w must be filters of shape (kh, kw, C_in, C_out), got shape {w}")
    if len(x) == 4 and w[2] != x[3]:
        remedy = "; x looks like (N, C, H, W): use x.transpose(0, 2, 3, 1)" if x[1] == w[2] else ""
        raise ValueError(f"conv2d: x {x} has {x[3]} channels, w {w} expects {w[2]}{remedy}")
    if b is not None and b != (w[3],):
        raise ValueError(f"conv2d: b must have shape ({w[3]},), one per filter of w {w}, got {b}")
