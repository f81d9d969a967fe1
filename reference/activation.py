"""Activations: the rectifier, and those that keep both signs of their input (CReLU and its relatives).

Concatenation is in blocks: x has C entries on the axis, and entry c of x gives the entries c and c + C of y.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from reference.common import each, floats, maximum, normalise_axis, quotient, root


def blocks(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """[first, second] on the axis: two arrays (..., C, ...) of one shape -> (..., 2C, ...)."""
    axis = normalise_axis(axis, first.ndim)
    size = first.shape[axis]
    y = np.zeros((*first.shape[:axis], 2 * size, *first.shape[axis + 1 :]))
    for at in np.ndindex(first.shape):
        y[at] = first[at]
        y[(*at[:axis], at[axis] + size, *at[axis + 1 :])] = second[at]
    return y


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0), element by element: any shape, the same shape."""
    return each(lambda value: maximum(value, 0.0), x)


def leaky_relu(x: np.ndarray, *, slope: float = 0.01) -> np.ndarray:
    """x if x > 0, otherwise slope * x, element by element: any shape, the same shape."""
    return each(lambda value: value if value > 0.0 else slope * value, x)


def avr(x: np.ndarray) -> np.ndarray:
    """The absolute value rectifier |x|, element by element: any shape, the same shape."""
    return each(abs, x)


def crelu(x: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """CReLU (paper, Definition 2.1): (..., C, ...) -> (..., 2C, ...).

    rho(x) = [rho+, rho-] = [max(x, 0), max(-x, 0)] on the axis.
    """
    positive = each(lambda value: maximum(value, 0.0), x)
    negative = each(lambda value: maximum(-value, 0.0), x)
    return blocks(positive, negative, axis)


def crelu_inverse(y: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """x = rho+ - rho-, for y = [rho+, rho-] on the axis: (..., 2C, ...) -> (..., C, ...)."""
    y = floats(y)
    axis = normalise_axis(axis, y.ndim)
    if y.shape[axis] % 2 != 0:
        raise ValueError(f"crelu_inverse: axis {axis} of y {y.shape} must be even, two blocks of one size")
    size = y.shape[axis] // 2
    x = np.zeros((*y.shape[:axis], size, *y.shape[axis + 1 :]))
    for at in np.ndindex(x.shape):
        x[at] = float(y[at]) - float(y[(*at[:axis], at[axis] + size, *at[axis + 1 :])])
    return x


def concatenated(x: np.ndarray, *, activation: Callable[..., np.ndarray], axis: int = -1, **options: Any) -> np.ndarray:
    """[activation(x), activation(-x)] on the axis: (..., C, ...) -> (..., 2C, ...); crelu is the one of relu.

    `activation` is a function of this file, `options` are what it takes besides x.
    """
    x = floats(x)
    return blocks(activation(x, **options), activation(-x, **options), axis)


def soft_threshold(x: np.ndarray, *, threshold: float = 0.25, axis: int = -1) -> np.ndarray:
    """[max(x - t, 0), max(-x - t, 0)] on the axis: (..., C, ...) -> (..., 2C, ...).

    The two-sided soft threshold of Coates and Ng (2011); with t = 0 it is crelu.
    """
    positive = each(lambda value: maximum(value - threshold, 0.0), x)
    negative = each(lambda value: maximum(-value - threshold, 0.0), x)
    return blocks(positive, negative, axis)


def antirectifier(x: np.ndarray, *, eps: float = 1e-12) -> np.ndarray:
    """(..., C) -> (..., 2C): crelu of the centred and normalised x, each sample (last axis) by itself.

    d = x - mean(x),  u = d / sqrt(max(sum of d^2, eps)),  y = [max(u, 0), max(-u, 0)].
    """
    x = floats(x)
    channels = x.shape[-1]
    u = np.zeros(x.shape)
    for at in np.ndindex(x.shape[:-1]):
        total = 0.0
        for c in range(channels):
            total += float(x[(*at, c)])
        mean = quotient(total, channels)
        squares = 0.0
        for c in range(channels):
            d = float(x[(*at, c)]) - mean
            squares += d * d
        for c in range(channels):
            u[(*at, c)] = quotient(float(x[(*at, c)]) - mean, root(maximum(squares, eps)))
    return crelu(u, axis=-1)
