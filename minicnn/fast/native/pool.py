"""Max pooling in C (pool.c)."""

from __future__ import annotations

import numpy as np

from minicnn.autodiff import Grads, Pair, recording
from minicnn.fast.cpu.memory import empty
from minicnn.fast.native.im2col import shape_in_c
from minicnn.fast.native.library import available, kernels
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size, as_pair
from minicnn.parallel import over_batch, threads_here

MOST_CELLS = 256  # a cell of a window is noted in a byte
PIECE_BYTES = 256 << 10  # of the image, in a piece: enough to be worth a thread
SHARES = 16  # at most that many pieces


def fits(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> bool:
    kh, kw = as_pair("max_pool2d", "k", k)
    return available(x) and x.ndim == 4 and x.size > 0 and kh * kw <= MOST_CELLS


def max_pool2d(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d."""
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    x = np.ascontiguousarray(x)
    steps, dtype = kernels(x.dtype), x.dtype
    shape = shape_in_c(windows, x.shape[3])
    y = empty((len(x), *windows.out, x.shape[3]), dtype)
    rows = len(x) * windows.out[0]
    piece = max(1, PIECE_BYTES * rows // x.nbytes, -(-rows // SHARES))

    def maxima(cells: np.ndarray | None) -> np.ndarray | None:
        steps.pool_max(x, shape, rows, threads_here(), piece, y, cells)
        return cells

    noted = maxima(empty(y.shape, np.uint8) if recording() else None)  # in inference nobody asks for them
    again = maxima if noted is None else None  # it keeps x, which a derivative with notes must not
    x_shape, y_shape = x.shape, y.shape

    def vjp(g: np.ndarray) -> Grads:
        cells = noted if again is None else again(empty(y_shape, np.uint8))
        g, gx = np.ascontiguousarray(g), empty(x_shape, dtype)

        def work(p: slice) -> None:
            steps.pool_max_adjoint(g, cells, shape, p.start, p.stop, gx)

        over_batch(work, len(gx), gx[:1].nbytes, gx)
        return (gx,)

    return y, vjp
