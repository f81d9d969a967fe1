"""Pooling: the maximum or the average of every window of an image. Window sizes and counts follow PyTorch.

Cells outside the image never take part in a maximum or in a sum. A window without any cell inside the image
(the padding is as wide as the window) is an error.
"""

import math

import numpy as np

from reference.common import floats, maximum, quotient
from reference.windows import Pad, Pair, normalise_pad, normalise_pair, output_shape


def cells(
    x: np.ndarray, p: int, q: int, k: Pair, stride: Pair, pad: Pad
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The cells of window (p, q) inside the images x (N, H, W, C), row by row.

    Each is ((i, j), (row, column)): where it is in the window, and where it is in the image,
    row = p*stride + i - top and column = q*stride + j - left.
    """
    _, h, w, _ = x.shape
    (kh, kw), (sh, sw), ((top, _), (left, _)) = normalise_pair(k), normalise_pair(stride), normalise_pad(pad)
    inside = []
    for i, j in np.ndindex(kh, kw):
        row, column = p * sh + i - top, q * sw + j - left
        if 0 <= row < h and 0 <= column < w:
            inside.append(((i, j), (row, column)))
    if not inside:
        raise ValueError(f"window ({p}, {q}) misses the image {x.shape}: pad {pad} must be less than k {k}")
    return inside


def max_pool2d(x: np.ndarray, *, k: Pair, stride: Pair | None = None, pad: Pad = 0, ceil: bool = False) -> np.ndarray:
    """x (N, H, W, C) -> y (N, OH, OW, C); the stride is k if it is not given.

    y[n, p, q, c] = max over i, j of x[n, p*stride + i - top, q*stride + j - left, c], over the cells inside
    the image. A NaN in the window gives NaN.
    """
    x = floats(x)
    stride = k if stride is None else stride
    y = np.zeros((x.shape[0], *output_shape(x, k, stride, pad, ceil), x.shape[3]))
    for n, p, q, c in np.ndindex(y.shape):
        largest = -math.inf
        for _, (row, column) in cells(x, p, q, k, stride, pad):
            largest = maximum(largest, float(x[n, row, column, c]))
        y[n, p, q, c] = largest
    return y


def max_pool2d_switches(
    x: np.ndarray, *, k: Pair, stride: Pair | None = None, pad: Pad = 0, ceil: bool = False
) -> np.ndarray:
    """x (N, H, W, C) -> integers (N, OH, OW, C): where in its window the maximum of max_pool2d was found.

    i*kw + j of the cell inside the image that holds the maximum, in a tie of the first one (row by row); of the
    first NaN if there is a NaN.
    """
    x = floats(x)
    stride = k if stride is None else stride
    _, kw = normalise_pair(k)
    y = np.zeros((x.shape[0], *output_shape(x, k, stride, pad, ceil), x.shape[3]), dtype=np.int64)
    for n, p, q, c in np.ndindex(y.shape):
        largest, switch = math.nan, -1
        for (i, j), (row, column) in cells(x, p, q, k, stride, pad):
            value = float(x[n, row, column, c])
            first = switch == -1
            if first or value > largest or (math.isnan(value) and not math.isnan(largest)):
                largest, switch = value, i * kw + j
        y[n, p, q, c] = switch
    return y


def avg_pool2d(
    x: np.ndarray,
    *,
    k: Pair,
    stride: Pair | None = None,
    pad: Pad = 0,
    ceil: bool = False,
    count_include_pad: bool = False,
) -> np.ndarray:
    """x (N, H, W, C) -> y (N, OH, OW, C); the stride is k if it is not given.

    y[n, p, q, c] = (sum over i, j of x[n, p*stride + i - top, q*stride + j - left, c]) / count, the sum over
    the cells inside the image. The count is of the cells inside the image; with count_include_pad, of those
    inside the padded image. A cell beyond the padded image, as there are in ceil mode, never counts.
    """
    x = floats(x)
    stride = k if stride is None else stride
    _, h, w, _ = x.shape
    (kh, kw), (sh, sw) = normalise_pair(k), normalise_pair(stride)
    (top, bottom), (left, right) = normalise_pad(pad)
    y = np.zeros((x.shape[0], *output_shape(x, k, stride, pad, ceil), x.shape[3]))
    for n, p, q, c in np.ndindex(y.shape):
        inside = cells(x, p, q, k, stride, pad)
        total = 0.0
        for _, (row, column) in inside:
            total += float(x[n, row, column, c])
        count = len(inside)
        if count_include_pad:
            count = 0
            for i, j in np.ndindex(kh, kw):
                if p * sh + i < top + h + bottom and q * sw + j < left + w + right:
                    count += 1
        y[n, p, q, c] = total / count
    return y


def global_avg_pool(x: np.ndarray) -> np.ndarray:
    """x (N, H, W, C) -> y (N, C): y[n, c] = (sum over h, w of x[n, h, w, c]) / (H*W)."""
    x = floats(x)
    images, h, w, channels = x.shape
    y = np.zeros((images, channels))
    for n, c in np.ndindex(y.shape):
        total = 0.0
        for row, column in np.ndindex(h, w):
            total += float(x[n, row, column, c])
        y[n, c] = quotient(total, h * w)
    return y
