"""Make a convolution ten times as fast as its loops (exercises/slow_layer.py), with NumPy alone."""

from collections.abc import Callable

import numpy as np

Pair = tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]


def conv2d(x: np.ndarray, w: np.ndarray, *, stride: int = 1, pad: int = 0) -> Pair:
    """x (N, H, W, C), w (k, k, C, F) -> y (N, OH, OW, F), vjp;  vjp(g) -> gx, gw.  Like exercises/slow_layer.py."""
    raise NotImplementedError("no loop over images, positions or filters")
