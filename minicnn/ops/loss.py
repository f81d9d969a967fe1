"""Softmax and the loss of a classifier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module, device_of, is_array, version_of

# [(fits, version)]: faster versions of `wrong_answers`, entered by minicnn/fast/dispatch.py
FASTER_COUNTS: list[tuple[Callable[[Array], bool], Callable[[Array, Array], Array]]] = []


@op
def softmax(x: Array) -> Pair:
    """y_i = exp(x_i) / sum_j exp(x_j) over the last axis.        gx = y (g - <g, y>)."""
    xp = array_module(x)
    y = xp.exp(_log_softmax(x))
    return y, lambda g: (y * (g - (g * y).sum(axis=-1, keepdims=True)),)


@op
def log_softmax(x: Array) -> Pair:
    """y_i = x_i - log sum_j exp(x_j) over the last axis.        gx = g - softmax(x) sum(g)."""
    xp = array_module(x)
    y = _log_softmax(x)
    return y, lambda g: (g - xp.exp(y) * g.sum(axis=-1, keepdims=True),)


@op(integers=("labels",))
def softmax_cross_entropy(logits: Array, labels: Array, *, total: int | None = None, smoothing: float = 0.0) -> Pair:
    """y = mean over the batch of -(sum over the classes of t log softmax(logits)), a scalar.

    logits (N, classes), labels (N,) integers.        glogits = g (softmax(logits) - t) / N.

    t = onehot(labels), so that y is the mean of -log softmax(logits)[label]; with `smoothing` s it is
    (1 - s) onehot(labels) + s / classes: no class is certain, and logits need not grow without end.

    If these are N of the `total` samples of a batch, y is their share of its mean: the sum divided by `total`.

    Labels on the host are checked to lie in 0 .. classes - 1.  Checking labels that are on a GPU would make the
    program wait for it, so there a label out of range gives NaN, loss and gradient, instead of an error.
    """
    xp = array_module(logits)
    n, classes = check_labels(logits, labels, total, smoothing)
    labels = xp.asarray(labels)
    log_p, even = _log_softmax(logits), smoothing / classes  # (N, classes)
    onehot = labels[:, None] == xp.arange(classes)  # (N, classes), all False where a label is out of range
    valid = onehot.any(axis=1, keepdims=True)  # (N, 1)
    sums = (1 - smoothing) * xp.where(onehot, log_p, 0).sum(axis=1, keepdims=True)
    if smoothing:  # else a logit of -inf would count
        sums = sums + even * log_p.sum(axis=1, keepdims=True)
    y = -xp.where(valid, sums, np.nan).sum() / n

    def vjp(g: Array) -> Grads:
        target = (1 - smoothing) * onehot.astype(log_p.dtype) + even
        return (xp.where(valid, g * (xp.exp(log_p) - target) / n, np.nan), None)

    return y, vjp


def wrong_answers(logits: Array, labels: Array) -> Array:
    """How many labels (N,) are not the first of the largest logits (N, classes): a scalar on their device.

    It is no op: nothing is differentiated through it.
    """
    with device_of(logits).active():
        return version_of(_wrong_answers, FASTER_COUNTS, logits)(logits, labels)


def _wrong_answers(logits: Array, labels: Array) -> Array:
    return (logits.argmax(axis=1) != labels).sum()


def _log_softmax(x: Array) -> Array:
    """Stable: subtracting the largest entry leaves the result as it is and keeps exp from overflowing."""
    xp = array_module(x)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"softmax: the last axis must hold at least one class, got shape {x.shape}")
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))


def check_labels(logits: Array, labels: Array, total: int | None, smoothing: float) -> tuple[int, int]:
    """What the sum is divided by, and the number of classes."""
    name = "softmax_cross_entropy"
    if logits.ndim != 2 or 0 in (logits.shape if total is None else logits.shape[1:]):
        raise ValueError(f"{name}: logits must have shape (N, classes), neither zero, got {logits.shape}")
    n, classes = logits.shape
    if not is_array(labels) or labels.dtype.kind not in "iu":
        raise TypeError(f"{name}: labels must be an array of integers, got {getattr(labels, 'dtype', type(labels))}")
    if device_of(labels).name not in ("cpu", device_of(logits).name):
        raise TypeError(f"{name}: logits are on {device_of(logits)}, labels on {device_of(labels)}; move the labels")
    if labels.shape != (n,):
        raise ValueError(f"{name}: labels must have shape ({n},) for logits {logits.shape}, got {labels.shape}")
    if array_module(labels) is np and n and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(f"{name}: labels must be in 0 .. {classes - 1}, got {labels.min()} .. {labels.max()}")
    if total is not None and not total >= max(1, n):
        raise ValueError(f"{name}: total must be positive and at least the {n} samples that are here, got {total}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"{name}: smoothing must be in [0, 1), got {smoothing}")
    return n if total is None else total, classes
