"""A linear layer, on every core: a 1x1 convolution of images of one pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn import ops
from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.im2col import conv2d


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> bool:
    """Whether x and w fit together (the textbook says what is wrong if they do not)."""
    return type(x) is np.ndarray and x.ndim == w.ndim == 2 and 0 not in x.shape and x.shape[1] == w.shape[0]


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> Pair:
    """ops.linear."""
    if b is not None and b.shape != (w.shape[1],):
        return ops.linear.textbook(x, w, b)  # which says what is wrong
    y, conv_vjp = conv2d(x[:, None, None], w[None, None], b)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx, gw, gb = conv_vjp(g[:, None, None], needs)
        return None if gx is None else gx[:, 0, 0], None if gw is None else gw[0, 0], gb

    return y[:, 0, 0], vjp
