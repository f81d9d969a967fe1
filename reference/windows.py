"""Sliding windows over images: how many there are, what they hold (unfold), and adding them back (fold).

`k` and `stride` are an int or a pair (rows, columns); `pad` is an int, a pair (rows, columns), or
((top, bottom), (left, right)). Element (i, j) of window (p, q) is the cell (p*stride + i, q*stride + j) of
the padded image, which is the cell (p*stride + i - top, q*stride + j - left) of the image itself.
"""

import numpy as np

from reference.common import floats

Pair = int | tuple[int, int]
Pad = int | tuple[int, int] | tuple[tuple[int, int], tuple[int, int]]


def normalise_pair(value: Pair) -> tuple[int, int]:
    """3 -> (3, 3); (2, 3) -> (2, 3)."""
    if isinstance(value, int | np.integer):
        return int(value), int(value)
    rows, columns = value
    return int(rows), int(columns)


def normalise_pad(pad: Pad) -> tuple[tuple[int, int], tuple[int, int]]:
    """1 -> ((1, 1), (1, 1)); (1, 2) -> ((1, 1), (2, 2)); ((0, 1), (2, 3)) -> ((0, 1), (2, 3))."""
    if isinstance(pad, int | np.integer):
        return normalise_pair(int(pad)), normalise_pair(int(pad))
    rows, columns = pad
    return normalise_pair(rows), normalise_pair(columns)


def output_size(size: int, k: int, stride: int, before: int, after: int, ceil: bool = False) -> int:
    """How many windows of k cells, `stride` apart, lie on an axis of `size` cells with padding at both ends.

    floor((size + before + after - k) / stride) + 1. In ceil mode the quotient is rounded up, so that the last
    window may reach beyond the padded axis, but that window is dropped if it would start in the padding after
    the image, that is if (out - 1) * stride >= size + before (PyTorch's rule).
    """
    if k < 1 or stride < 1 or before < 0 or after < 0:
        raise ValueError(f"k {k} and stride {stride} must be at least 1, pad ({before}, {after}) at least 0")
    room = size + before + after - k
    if ceil:
        out = -(-room // stride) + 1
        if (out - 1) * stride >= size + before:
            out -= 1
    else:
        out = room // stride + 1
    if out < 1:
        raise ValueError(f"no window of {k} cells fits on {before} + {size} + {after} cells")
    return out


def output_shape(x: np.ndarray, k: Pair, stride: Pair, pad: Pad, ceil: bool = False) -> tuple[int, int]:
    """(OH, OW): `output_size` of the rows and of the columns of x (N, H, W, C)."""
    _, h, w, _ = x.shape
    (kh, kw), (sh, sw) = normalise_pair(k), normalise_pair(stride)
    (top, bottom), (left, right) = normalise_pad(pad)
    return output_size(h, kh, sh, top, bottom, ceil), output_size(w, kw, sw, left, right, ceil)


def zero_pad(x: np.ndarray, pad: Pad) -> np.ndarray:
    """x (N, H, W, C) -> (N, top + H + bottom, left + W + right, C), zero outside the image."""
    x = floats(x)
    (top, bottom), (left, right) = normalise_pad(pad)
    images, h, w, channels = x.shape
    y = np.zeros((images, top + h + bottom, left + w + right, channels))
    for n, row, column, c in np.ndindex(x.shape):
        y[n, top + row, left + column, c] = x[n, row, column, c]
    return y


def unfold(x: np.ndarray, *, k: Pair, stride: Pair = 1, pad: Pad = 0) -> np.ndarray:
    """Every window of x (N, H, W, C): rows (N, OH, OW, kh, kw, C), also called im2col.

    rows[n, p, q, i, j, c] = x[n, p*stride + i - top, q*stride + j - left, c], and 0 outside the image.
    """
    x = floats(x)
    (kh, kw), (sh, sw) = normalise_pair(k), normalise_pair(stride)
    oh, ow = output_shape(x, k, stride, pad)
    padded = zero_pad(x, pad)
    rows = np.zeros((x.shape[0], oh, ow, kh, kw, x.shape[3]))
    for n, p, q, i, j, c in np.ndindex(rows.shape):
        rows[n, p, q, i, j, c] = padded[n, p * sh + i, q * sw + j, c]
    return rows


def fold(rows: np.ndarray, *, shape: tuple[int, int, int, int], stride: Pair = 1, pad: Pad = 0) -> np.ndarray:
    """The adjoint of unfold, also called col2im: rows (N, OH, OW, kh, kw, C) -> x of shape (N, H, W, C).

    x[n, h, w, c] = the sum of rows[n, p, q, i, j, c] over all p, q, i, j with p*stride + i - top = h and
    q*stride + j - left = w. What falls into the padding is dropped.
    """
    rows = floats(rows)
    (sh, sw), ((top, _), (left, _)) = normalise_pair(stride), normalise_pad(pad)
    _, h, w, _ = shape
    x = np.zeros(shape)
    expected = (shape[0], *output_shape(x, rows.shape[3:5], stride, pad), *rows.shape[3:5], shape[3])
    if rows.shape != expected:
        raise ValueError(f"fold: rows {rows.shape} are not the windows of {shape}: expected {expected}")
    for n, p, q, i, j, c in np.ndindex(rows.shape):
        row, column = p * sh + i - top, q * sw + j - left
        if 0 <= row < h and 0 <= column < w:
            x[n, row, column, c] = float(x[n, row, column, c]) + float(rows[n, p, q, i, j, c])
    return x
