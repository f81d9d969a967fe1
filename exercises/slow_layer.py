"""A convolution and its derivative in loops: the task faster_layer is to make it faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Pair = tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]


def conv2d(x: np.ndarray, w: np.ndarray, *, stride: int = 1, pad: int = 0) -> Pair:
    """x (N, H, W, C), w (k, k, C, F) -> y (N, OH, OW, F), vjp;  vjp(g) -> gx, gw.  The filter is not flipped.

    y[n, p, q, f] = sum over i, j, c of  padded[n, p stride + i, q stride + j, c] * w[i, j, c, f]
    """
    n, height, width, _ = x.shape
    k, filters = w.shape[0], w.shape[3]
    out = ((height + 2 * pad - k) // stride + 1, (width + 2 * pad - k) // stride + 1)
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    y = np.zeros((n, *out, filters), x.dtype)
    for i, p, q, f in np.ndindex(y.shape):
        window = padded[i, p * stride : p * stride + k, q * stride : q * stride + k]  # (k, k, C)
        y[i, p, q, f] = (window * w[..., f]).sum()

    def vjp(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g_padded, gw = np.zeros_like(padded), np.zeros_like(w)
        for i, p, q, f in np.ndindex(g.shape):
            at = (i, slice(p * stride, p * stride + k), slice(q * stride, q * stride + k))
            g_padded[at] += g[i, p, q, f] * w[..., f]
            gw[..., f] += g[i, p, q, f] * padded[at]
        return g_padded[:, pad : pad + height, pad : pad + width], gw

    return y, vjp
