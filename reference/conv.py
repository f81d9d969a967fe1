"""Convolution as neural networks have it: cross-correlation, the filter is not flipped."""

import numpy as np

from reference.common import floats
from reference.windows import Pad, Pair, normalise_pair, output_shape, zero_pad


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Pair = 1, pad: Pad = 0) -> np.ndarray:
    """x (N, H, W, C_in), w (kh, kw, C_in, C_out), b (C_out,) or None -> y (N, OH, OW, C_out).

    y[n, p, q, o] = b[o] + sum of x[n, p*stride + i - top, q*stride + j - left, c] * w[i, j, c, o],
    over all i, j, c; x is 0 outside the image.
    """
    x, w = floats(x), floats(w)
    kh, kw, channels, filters = w.shape
    if x.shape[3] != channels:
        raise ValueError(f"conv2d: x {x.shape} has {x.shape[3]} channels, w {w.shape} expects {channels}")
    bias = np.zeros(filters) if b is None else floats(b)
    if bias.shape != (filters,):
        raise ValueError(f"conv2d: b {bias.shape} must be ({filters},), one for each filter of w {w.shape}")
    sh, sw = normalise_pair(stride)
    oh, ow = output_shape(x, (kh, kw), stride, pad)
    padded = zero_pad(x, pad)
    y = np.zeros((x.shape[0], oh, ow, filters))
    for n, p, q, o in np.ndindex(y.shape):
        total = float(bias[o])
        for i, j, c in np.ndindex(kh, kw, channels):
            total += float(padded[n, p * sh + i, q * sw + j, c]) * float(w[i, j, c, o])
        y[n, p, q, o] = total
    return y
