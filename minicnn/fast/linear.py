"""A linear layer as a 1x1 convolution of images of one pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array


def fit_together(x: Array, w: Array) -> bool:
    """Whether x and w have a product, of at least one number (the textbook says what is wrong if they have none)."""
    return x.ndim == w.ndim == 2 and 0 not in x.shape and x.shape[1] == w.shape[0]


def as_convolution(conv2d: Callable[..., Pair], x: Array, w: Array, b: Array | None) -> Pair:
    """ops.linear, by a version of ops.conv2d."""
    if b is not None and b.shape != (w.shape[1],):
        return ops.linear.textbook(x, w, b)  # which says what is wrong
    y, conv_vjp = conv2d(x[:, None, None], w[None, None], b)

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx, gw, gb = conv_vjp(g[:, None, None], needs)
        return None if gx is None else gx[:, 0, 0], None if gw is None else gw[0, 0], gb

    return y[:, 0, 0], vjp
