"""Max pooling in C (pool.c)."""

from __future__ import annotations

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.fast.cpu.memory import empty
from minicnn.fast.native.im2col import shape_in_c
from minicnn.fast.native.library import available, kernels
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Pad, Size, as_pair
from minicnn.parallel import over_batch

MOST_CELLS = 256  # a cell of a window is noted in a byte


def fits(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> bool:
    kh, kw = as_pair("max_pool2d", "k", k)
    return available(x) and x.ndim == 4 and x.size > 0 and kh * kw <= MOST_CELLS


def max_pool2d(x: np.ndarray, *, k: Size, stride: Size | None = None, pad: Pad = 0, ceil: bool = False) -> Pair:
    """ops.max_pool2d."""
    windows = pool_windows("max_pool2d", x, k, stride, pad, ceil)
    x = np.ascontiguousarray(x)
    steps, x_shape, dtype = kernels(x.dtype), x.shape, x.dtype
    shape = shape_in_c(windows, x.shape[3])
    y = empty((len(x), *windows.out, x.shape[3]), dtype)
    cells = empty(y.shape, np.uint8)
    sample_bytes = x[:1].nbytes
    over_batch(lambda p: steps.pool_max(x, shape, p.start, p.stop, y, cells), len(x), sample_bytes, x)

    def vjp(g: np.ndarray) -> Grads:
        g, gx = np.ascontiguousarray(g), empty(x_shape, dtype)

        def work(p: slice) -> None:
            steps.pool_max_adjoint(g, cells, shape, p.start, p.stop, gx)

        over_batch(work, x_shape[0], sample_bytes, gx)
        return (gx,)

    return y, vjp
