"""Arithmetic with broadcasting, elementary functions, matrix products, sums and means, shapes, parts, dropout."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reference.common import each, floats, normalise_axis, quotient


def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a + b: shapes are aligned at their ends, a missing size is 1, a size of 1 is stretched."""
    ndim = max(len(a), len(b))
    long_a, long_b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    shape: tuple[int, ...] = ()
    for size_a, size_b in zip(long_a, long_b, strict=True):
        if size_a != size_b and size_a != 1 and size_b != 1:
            raise ValueError(f"shapes {a} and {b} do not broadcast: {size_a} is not {size_b}, neither is 1")
        shape += (size_b if size_a == 1 else size_a,)
    return shape


def broadcast_index(at: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Which element of an array of this shape stands at index `at` of the broadcast array."""
    last = at[len(at) - len(shape) :]
    return tuple(0 if size == 1 else index for index, size in zip(last, shape, strict=True))


def elementwise(f: Callable[[float, float], float], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y[at] = f(a[at], b[at]) for every index of the broadcast shape."""
    a, b = floats(a), floats(b)
    y = np.zeros(broadcast_shape(a.shape, b.shape))
    for at in np.ndindex(y.shape):
        y[at] = f(float(a[broadcast_index(at, a.shape)]), float(b[broadcast_index(at, b.shape)]))
    return y


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b, of the broadcast shape of a and b."""
    return elementwise(lambda one, other: one + other, a, b)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b, of the broadcast shape of a and b."""
    return elementwise(lambda one, other: one - other, a, b)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b element by element, of the broadcast shape of a and b."""
    return elementwise(lambda one, other: one * other, a, b)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b element by element, of the broadcast shape of a and b; x / 0 is inf, -inf or NaN."""
    return elementwise(quotient, a, b)


def negative(a: np.ndarray) -> np.ndarray:
    """-a: any shape, the same shape."""
    return each(lambda value: -value, a)


def exp(x: np.ndarray) -> np.ndarray:
    """e^x: any shape, the same shape."""
    return each(math.exp, x)


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of positive numbers: any shape, the same shape."""
    return each(math.log, x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x): any shape, the same shape."""
    return each(lambda value: 1 / (1 + math.exp(-value)), x)


def power(x: np.ndarray, *, exponent: float) -> np.ndarray:
    """x^exponent: any shape, the same shape."""
    return each(lambda value: math.pow(value, exponent), x)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a (L, M), b (M, R) -> y (L, R): y[i, j] = sum over m of a[i, m] * b[m, j]."""
    a, b = floats(a), floats(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: a {a.shape} and b {b.shape} must be (L, M) and (M, R)")
    y = np.zeros((a.shape[0], b.shape[1]))
    for i, j in np.ndindex(y.shape):
        total = 0.0
        for m in range(a.shape[1]):
            total += float(a[i, m]) * float(b[m, j])
        y[i, j] = total
    return y


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """x (N, in), w (in, out), b (out,) or None -> y (N, out).

    y[n, o] = b[o] + sum over c of x[n, c] * w[c, o].
    """
    y = matmul(x, w)
    if b is None:
        return y
    b = floats(b)
    if b.shape != y.shape[1:]:
        raise ValueError(f"linear: b {b.shape} must be {y.shape[1:]}, one number for each output")
    for n, o in np.ndindex(y.shape):
        y[n, o] = float(y[n, o]) + float(b[o])
    return y


def reduced_axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The axes that a reduction goes over, counted from 0: None is all of them."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(normalise_axis(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} names an axis of {ndim} twice")
    return axes


def reduce_sum(x: np.ndarray, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """The sum of x over an axis, some axes or (None) all; they disappear, or stay with size 1 if keepdims."""
    x = floats(x)
    axes = reduced_axes(axis, x.ndim)
    y = np.zeros(tuple(1 if a in axes else size for a, size in enumerate(x.shape)))
    for at in np.ndindex(x.shape):
        to = tuple(0 if a in axes else index for a, index in enumerate(at))
        y[to] = float(y[to]) + float(x[at])
    return y if keepdims else reshape(y, shape=tuple(size for a, size in enumerate(x.shape) if a not in axes))


def reduce_mean(x: np.ndarray, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """`reduce_sum` divided by the number of elements in each sum; NaN if there are none."""
    x = floats(x)
    count = 1
    for a in reduced_axes(axis, x.ndim):
        count *= x.shape[a]
    return each(lambda total: quotient(total, count), reduce_sum(x, axis=axis, keepdims=keepdims))


def reshape(x: np.ndarray, *, shape: int | tuple[int, ...]) -> np.ndarray:
    """The elements of x, in row-major order (the last index runs fastest), in a new shape.

    One size may be -1: it is x.size divided by the product of the others.
    """
    x = floats(x)
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    known = 1
    for size in sizes:
        known *= 1 if size == -1 else size
    unknown = sizes.count(-1)
    fits = known != 0 and x.size % known == 0 if unknown == 1 else known == x.size
    if not fits or unknown > 1 or min(sizes, default=0) < -1:
        raise ValueError(f"reshape: the {x.size} elements of {x.shape} do not fit the shape {shape}")
    y = np.zeros(tuple(x.size // known if size == -1 else size for size in sizes))
    for to, at in zip(np.ndindex(y.shape), np.ndindex(x.shape), strict=True):  # both in row-major order
        y[to] = x[at]
    return y


def getitem(x: np.ndarray, *, at: Any) -> np.ndarray:
    """x[at], for numbers, slices, ... and None: axis by axis, which elements of x stand where in y.

    A number takes one place of an axis, which disappears; a slice takes some; None is a new axis of size 1; ... stands
    for all axes that nothing else speaks of.
    """
    x = floats(x)
    given = list(at) if isinstance(at, tuple) else [at]
    spoken_of = sum(1 for one in given if one is not None and one is not Ellipsis)
    if Ellipsis not in given:
        given.append(Ellipsis)
    dots = given.index(Ellipsis)
    given[dots : dots + 1] = [slice(None)] * (x.ndim - spoken_of)
    places: list[list[int]] = []  # for every axis of x, those that are taken
    shape: list[int] = []
    for one in given:
        if one is None:
            shape.append(1)
            continue
        size = x.shape[len(places)]
        if isinstance(one, slice):
            places.append(list(range(size))[one])
            shape.append(len(places[-1]))
        else:
            places.append([range(size)[one]])  # IndexError beyond the end
    y = np.zeros(tuple(len(taken) for taken in places))
    for to in np.ndindex(y.shape):
        y[to] = x[tuple(taken[i] for taken, i in zip(places, to, strict=True))]
    return reshape(y, shape=tuple(shape))


def concat(*xs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Arrays one after the other on the axis: (..., C1, ...), (..., C2, ...) -> (..., C1 + C2, ...)."""
    if not xs:
        raise ValueError("concat: needs at least one array")
    arrays = [floats(x) for x in xs]
    ndim = arrays[0].ndim
    axis = normalise_axis(axis, ndim)
    before, after = arrays[0].shape[:axis], arrays[0].shape[axis + 1 :]
    total = 0
    for x in arrays:
        if x.ndim != ndim or x.shape[:axis] != before or x.shape[axis + 1 :] != after:
            raise ValueError(f"concat: {[x.shape for x in arrays]} must agree on every axis but {axis}")
        total += x.shape[axis]
    y = np.zeros((*before, total, *after))
    start = 0
    for x in arrays:
        for at in np.ndindex(x.shape):
            y[(*at[:axis], start + at[axis], *at[axis + 1 :])] = x[at]
        start += x.shape[axis]
    return y


def dropout_with_mask(x: np.ndarray, keep: np.ndarray, *, scale: float) -> np.ndarray:
    """x * scale where keep, 0 elsewhere, x and keep of one shape. Dropout has scale = 1 / (1 - rate)."""
    x = floats(x)
    keep = np.asarray(keep)
    if keep.shape != x.shape:
        raise ValueError(f"dropout_with_mask: keep {keep.shape} must be of the shape of x, {x.shape}")
    y = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        y[at] = float(x[at]) * scale if keep[at] else 0.0
    return y
