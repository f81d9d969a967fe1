"""Convolution of tiny images, where most of a window lies in the padding: tap by tap, without the taps that see zeros.

    y[:, o] = sum over pixels i that output o sees of  x[:, i] w[t]        t = i + pad - stride o, the tap

Each term is a product of matrices (N, C) (C, F) that lie in memory as they are.  At 2x2 pixels a 3x3 window with pad 1
has 4 of its 9 taps within the image: im2col would do 36 such products, this does 16.  The derivatives are sums over the
same triples (o, i, t):

    gx[:, i] = sum g[:, o] w[t]'            gw[t] = sum x[:, i]' g[:, o]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.cpu.sums import bias_gradient
from minicnn.ops.conv import check_conv2d
from minicnn.ops.windows import Pad, Pair2, Size, Windows, as_pad, as_pair
from minicnn.parallel import cut, over_slices, scratch

LEAST_CHANNELS = 32  # with fewer, the products are too small to be worth a call each
MOST_TAPS = 200  # of all windows of an image: with more, Python's share is too large

Triple = tuple[Pair2, Pair2, Pair2]  # output pixel, input pixel, tap


def fits(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> bool:
    """Whether at most half of the taps see the image, and there are few."""
    if type(x) is not np.ndarray or x.ndim != 4 or w.ndim != 4 or x.size == 0 or min(w.shape[2:]) < LEAST_CHANNELS:
        return False
    return _few(x.shape, w.shape[:2], as_pair("conv2d", "stride", stride), as_pad("conv2d", pad))


@lru_cache(maxsize=512)
def _few(shape: tuple[int, ...], k: Pair2, stride: Pair2, pad: tuple[Pair2, Pair2]) -> bool:
    """Whether at most MOST_TAPS belong to the windows of an image, and at most half of these see it."""
    windows = Windows.of_shape("conv2d", shape, k, stride, pad)
    oh, ow = windows.out
    all_taps = oh * ow * k[0] * k[1]
    return all_taps <= MOST_TAPS and 2 * len(triples(windows)) <= all_taps


def triples(windows: Windows) -> list[Triple]:
    """All (output pixel, input pixel, tap) with the input pixel inside the image."""

    def along(axis: int) -> list[tuple[int, int, int]]:
        size, k, stride, out = (pair[axis] for pair in (windows.size, windows.k, windows.stride, windows.out))
        first = windows.pad[axis][0]
        found = ((o, o * stride + t - first, t) for o in range(out) for t in range(k))
        return [(o, i, t) for o, i, t in found if 0 <= i < size]

    return [((p, q), (i, j), (s, t)) for p, i, s in along(0) for q, j, t in along(1)]


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Size = 1, pad: Pad = 0) -> Pair:
    """ops.conv2d."""
    check_conv2d(x, w, b)
    windows = Windows.over("conv2d", x, w.shape[:2], stride, pad)
    all_triples = triples(windows)
    y = empty((len(x), *windows.out, w.shape[3]), x.dtype)

    def output(pixel: Pair2) -> None:
        total = y[:, *pixel]  # (N, F), a view
        _add_up(total, ((x[:, *i], w[t]) for o, i, t in all_triples if o == pixel))
        if b is not None:
            total += b

    _over_pixels(output, windows.out, x)

    def vjp(g: np.ndarray, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gw = empty(w.shape, w.dtype) if needs[1] else None

        def data_gradient(pixel: Pair2) -> None:
            _add_up(gx[:, *pixel], ((g[:, *o], w[t].T) for o, i, t in all_triples if i == pixel))  # type: ignore[index]

        def weight_gradient(tap: Pair2) -> None:
            _add_up(gw[tap], ((x[:, *i].T, g[:, *o]) for o, i, t in all_triples if t == tap))  # type: ignore[index]

        if gx is not None:
            _over_pixels(data_gradient, windows.size, x)
        if gw is not None:
            _over_pixels(weight_gradient, windows.k, x)
        return gx, gw, bias_gradient(g) if needs[2] and b is not None else None

    return y, vjp


def _over_pixels(work: Callable[[Pair2], None], size: Pair2, like: np.ndarray) -> None:
    """work((row, column)) for every pixel of an image of this size (or tap of a kernel), on every core."""
    pixels = list(np.ndindex(size))
    over_slices(lambda piece: work(pixels[piece.start]), cut(0, len(pixels), 1), like)


def _add_up(total: np.ndarray, factors: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
    """total = the sum of the products a b; 0 if there are none."""
    product = scratch("product", total.shape, total.dtype)
    total[...] = 0
    for a, b in factors:
        total += np.matmul(a, b, out=product)
