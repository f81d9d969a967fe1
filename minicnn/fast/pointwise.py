"""A 1x1 convolution is a matrix product: no windows, no copies."""

from __future__ import annotations

from collections.abc import Sequence

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array
from minicnn.ops.conv import check_filters
from minicnn.ops.reduce import sum_to_channels
from minicnn.ops.windows import Pad, Size, as_pad, as_pair


def is_pointwise(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether conv2d_pointwise computes this convolution."""
    return (
        x.ndim == 4
        and w.ndim == 4
        and w.shape[:2] == (1, 1)
        and 0 not in x.shape[1:3]
        and as_pair("conv2d", "stride", stride) == (1, 1)
        and as_pad("conv2d", pad) == ((0, 0), (0, 0))
    )


def conv2d_pointwise(x: Array, w: Array, b: Array | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """conv2d for k = 1, stride 1, pad 0:  y = x W + b at every pixel."""
    check_filters(x, w, b)
    (c, f) = w.shape[2:]
    pixels, matrix = x.reshape(-1, c), w[0, 0]  # (N H W, C), (C, F)
    y = pixels @ matrix
    if b is not None:
        y += b

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        rows = g.reshape(-1, f)
        gx = (rows @ matrix.T).reshape(x.shape) if needs[0] else None
        gw = (pixels.T @ rows).reshape(w.shape) if needs[1] else None
        return gx, gw, None if b is None else sum_to_channels(g)

    return y.reshape(*x.shape[:3], f), vjp
