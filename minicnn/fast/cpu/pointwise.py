"""A 1x1 convolution is a matrix product: no windows, no copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.ops.conv import check_filters
from minicnn.ops.windows import Pad, Size, as_pad, as_pair
from minicnn.parallel import over_batch, scratch, sum_over_batch


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    return (
        type(x) is np.ndarray
        and x.flags.c_contiguous
        and x.ndim == 4
        and w.ndim == 4
        and w.shape[:2] == (1, 1)
        and 0 not in x.shape[1:3]
        and as_pair("conv2d", "stride", stride) == (1, 1)
        and as_pad("conv2d", pad) == ((0, 0), (0, 0))
    )


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d for k = 1, stride 1, pad 0:  y = x W + b at every pixel."""
    check_filters(x, w, b)
    n, c, f = len(x), *w.shape[2:]
    matrix = w[0, 0]  # (C, F)
    sample_bytes = x.shape[1] * x.shape[2] * (c + f) * x.dtype.itemsize
    y = empty((*x.shape[:3], f), x.dtype)

    def forward(piece: slice) -> None:
        np.matmul(x[piece].reshape(-1, c), matrix, out=y[piece].reshape(-1, f))
        if b is not None:
            y[piece] += b

    over_batch(forward, n, sample_bytes, x)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gw = np.zeros(matrix.shape, x.dtype) if needs[1] else None

        def data_gradient(piece: slice) -> None:
            np.matmul(g[piece].reshape(-1, f), matrix.T, out=gx[piece].reshape(-1, c))  # type: ignore[index]

        def weight_gradient(piece: slice) -> np.ndarray:
            part = scratch("gw", matrix.shape, x.dtype)
            np.matmul(x[piece].reshape(-1, c).T, g[piece].reshape(-1, f), out=part)
            return part

        if gx is not None:
            over_batch(data_gradient, n, sample_bytes, x)
        if gw is not None:
            sum_over_batch(weight_gradient, n, sample_bytes, into=gw)
            gw = gw.reshape(w.shape)
        return gx, gw, None if b is None else bias_gradient(g)

    return y, vjp


def fits_linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> bool:
    return type(x) is np.ndarray and x.ndim == w.ndim == 2 and fits(x[:, None, None], w[None, None], b)


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> Pair:
    """ops.linear: a 1x1 convolution of images of one pixel."""
    if x.shape[1] != w.shape[0] or (b is not None and b.shape != (w.shape[1],)):
        return ops.linear.textbook(x, w, b)  # which says what is wrong
    y, conv_vjp = conv2d(x[:, None, None], w[None, None], b)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx, gw, gb = conv_vjp(g[:, None, None], needs)
        return None if gx is None else gx[:, 0, 0], None if gw is None else gw[0, 0], gb

    return y[:, 0, 0], vjp
