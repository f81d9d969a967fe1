"""Softmax and cross-entropy. The maximum of a row is subtracted first, so that no exponential overflows."""

import math

import numpy as np

from reference.common import floats, maximum, quotient


def row_maximum(x: np.ndarray, n: int) -> float:
    """max over c of x[n, c], for x (N, C)."""
    largest = -math.inf
    for c in range(x.shape[1]):
        largest = maximum(largest, float(x[n, c]))
    return largest


def exponential_sum(x: np.ndarray, n: int, m: float) -> float:
    """The sum over c of exp(x[n, c] - m), for x (N, C)."""
    total = 0.0
    for c in range(x.shape[1]):
        total += math.exp(float(x[n, c]) - m)
    return total


def softmax(x: np.ndarray) -> np.ndarray:
    """x (N, C) -> y (N, C), every row positive with sum 1.

    y[n, c] = exp(x[n, c] - m) / (sum over d of exp(x[n, d] - m)), with m = max over d of x[n, d].
    """
    x = floats(x)
    y = np.zeros(x.shape)
    for n in range(x.shape[0]):
        m = row_maximum(x, n)
        total = exponential_sum(x, n, m)
        for c in range(x.shape[1]):
            y[n, c] = math.exp(float(x[n, c]) - m) / total
    return y


def log_softmax(x: np.ndarray) -> np.ndarray:
    """x (N, C) -> y (N, C), the logarithm of softmax.

    y[n, c] = x[n, c] - m - log(sum over d of exp(x[n, d] - m)), with m = max over d of x[n, d].
    """
    x = floats(x)
    y = np.zeros(x.shape)
    for n in range(x.shape[0]):
        m = row_maximum(x, n)
        total = exponential_sum(x, n, m)
        for c in range(x.shape[1]):
            y[n, c] = float(x[n, c]) - m - math.log(total)
    return y


def softmax_cross_entropy(logits: np.ndarray, labels: np.ndarray, *, smoothing: float = 0.0) -> np.ndarray:
    """logits (N, C), integer labels (N,) -> the mean over the batch, a 0-d array.

    loss = (sum over n and c of -t[n, c] log softmax(logits)[n, c]) / N, where t[n, c] = s / C, for the smoothing s,
    and t[n, labels[n]] = 1 - s + s / C.
    """
    logits, labels = floats(logits), np.asarray(labels)
    images, classes = logits.shape
    if labels.shape != (images,):
        raise ValueError(f"softmax_cross_entropy: labels {labels.shape} must be ({images},)")
    logs = log_softmax(logits)
    total = 0.0
    for n in range(images):
        label = int(labels[n])
        if not 0 <= label < classes:
            raise ValueError(f"softmax_cross_entropy: label {label} at {n} is not in 0 .. {classes - 1}")
        total -= (1 - smoothing) * float(logs[n, label])
        if smoothing > 0:
            for c in range(classes):
                total -= smoothing / classes * float(logs[n, c])
    return np.array(quotient(total, images))
