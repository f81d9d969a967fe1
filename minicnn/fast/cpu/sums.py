"""Sums over all positions of a batch, on every core."""

from __future__ import annotations

import numpy as np

from minicnn.ops.reduce import sum_to_channels
from minicnn.parallel import sum_over_batch


def bias_gradient(g: np.ndarray) -> np.ndarray:
    """The sum of g (N, ..., C) over all axes but the last: (C,)."""
    total = np.zeros(g.shape[-1], g.dtype)

    def work(piece: slice, summand: np.ndarray) -> None:
        summand[...] = sum_to_channels(g[piece])

    sum_over_batch(work, len(g), g[:1].nbytes, into=total)
    return total
