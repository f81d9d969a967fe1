"""Softmax cross-entropy: a kernel and a sum forward, a kernel for the derivative.  And how many answers are wrong."""

from __future__ import annotations

import numpy as np

from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.fast.cuda.kernels import available, launch
from minicnn.ops.loss import check_labels


def fits(logits: Array, labels: Array, *, total: int | None = None, smoothing: float = 0.0) -> bool:
    return available(logits)


def softmax_cross_entropy(logits: Array, labels: Array, *, total: int | None = None, smoothing: float = 0.0) -> Pair:
    """ops.softmax_cross_entropy."""
    xp = array_module(logits)
    n, classes = check_labels(logits, labels, total, smoothing)
    labels = xp.asarray(labels, np.int64)
    losses, largest, logsum = (xp.empty(len(logits), logits.dtype) for _ in range(3))
    launch("loss.cross_entropy", (losses, largest, logsum), logits, labels, classes, n, float(smoothing))

    def vjp(g: Array) -> Grads:
        glogits = xp.empty(logits.shape, logits.dtype)
        launch("loss.cross_entropy_grad", (glogits,), g, logits, largest, logsum, labels, classes, n, float(smoothing))
        return glogits, None

    return losses.sum(), vjp


def fits_count(logits: Array) -> bool:
    return available(logits)


def wrong_answers(logits: Array, labels: Array) -> Array:
    """ops.wrong_answers."""
    xp = array_module(logits)
    wrong = xp.empty(len(logits), np.int64)
    launch("loss.wrong_answers", (wrong,), logits, xp.asarray(labels, np.int64), logits.shape[1])
    return wrong.sum()
