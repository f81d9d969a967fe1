"""A linear layer, on every core."""

from __future__ import annotations

import numpy as np

from minicnn.autodiff import Pair
from minicnn.fast.cpu.im2col import conv2d
from minicnn.fast.linear import as_convolution, fit_together


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> bool:
    return type(x) is np.ndarray and fit_together(x, w)


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> Pair:
    """ops.linear."""
    return as_convolution(conv2d, x, w, b)
