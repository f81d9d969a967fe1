"""Arithmetic, matrix products and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from types import EllipsisType, NoneType

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module
from minicnn.ops.reduce import normal_axes, sum_to_channels, unbroadcast

Index = int | slice | EllipsisType | None


@op
def add(a: Array, b: Array) -> Pair:
    """y = a + b, with broadcasting.        ga = g,  gb = g."""
    _check_broadcast("add", a, b)
    a_shape, b_shape = a.shape, b.shape  # the derivative needs the shapes, not the arrays
    return a + b, lambda g: (unbroadcast(g, a_shape), unbroadcast(g, b_shape))


@op
def subtract(a: Array, b: Array) -> Pair:
    """y = a - b, with broadcasting.        ga = g,  gb = -g."""
    _check_broadcast("subtract", a, b)
    a_shape, b_shape = a.shape, b.shape
    return a - b, lambda g: (unbroadcast(g, a_shape), unbroadcast(-g, b_shape))


@op
def multiply(a: Array, b: Array) -> Pair:
    """y = a b, element by element, with broadcasting.        ga = g b,  gb = g a."""
    _check_broadcast("multiply", a, b)
    return a * b, lambda g: (unbroadcast(g * b, a.shape), unbroadcast(g * a, b.shape))


@op
def divide(a: Array, b: Array) -> Pair:
    """y = a / b, element by element, with broadcasting.        ga = g / b,  gb = -g y / b."""
    _check_broadcast("divide", a, b)
    y = a / b
    return y, lambda g: (unbroadcast(g / b, a.shape), unbroadcast(-g * y / b, b.shape))


def _check_broadcast(where: str, a: Array, b: Array) -> None:
    """Aligned at the right, each pair of lengths must be equal or hold a 1."""
    if not all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1], strict=False)):
        raise ValueError(f"{where}: shapes {a.shape} and {b.shape} do not broadcast; reshape one of them")


@op
def negative(a: Array) -> Pair:
    """y = -a.        ga = -g."""
    return -a, lambda g: (-g,)


@op
def matmul(a: Array, b: Array) -> Pair:
    """y = a b for matrices a (M, K), b (K, N).        ga = g b',  gb = a' g."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: expected shapes (M, K) and (K, N), got {a.shape} and {b.shape}")
    return a @ b, lambda g: (g @ b.T, a.T @ g)


@op(selective=True)
def linear(x: Array, w: Array, b: Array | None = None) -> Pair:
    """y = x w + b for x (N, in), w (in, out), b (out,).        gx = g w',  gw = x' g,  gb = sum of g."""
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[0]:
        raise ValueError(f"linear: expected x (N, in) and w (in, out), got {x.shape} and {w.shape}; flatten x first?")
    if b is not None and b.shape != (w.shape[1],):
        raise ValueError(f"linear: b must have shape ({w.shape[1]},) for w {w.shape}, got {b.shape}")
    y = x @ w
    if b is not None:
        y += b

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        gx = g @ w.T if needs[0] else None
        gw = x.T @ g if needs[1] else None
        gb = sum_to_channels(g) if needs[2] and b is not None else None
        return gx, gw, gb

    return y, vjp


@op
def reshape(x: Array, *, shape: tuple[int, ...]) -> Pair:
    """y = x in another shape, in row-major order; one length may be -1.        gx = g in the old shape."""
    before = x.shape
    try:
        y = x.reshape(shape)
    except ValueError:
        raise ValueError(f"reshape: x of shape {before} does not fill the shape {shape}") from None
    return y, lambda g: (g.reshape(before),)


@op
def getitem(x: Array, *, at: Index | tuple[Index, ...]) -> Pair:
    """y = x[at] for numbers, slices, ... and None, as in NumPy.        gx = g there, 0 elsewhere."""
    xp, shape = array_module(x), x.shape
    each = at if isinstance(at, tuple) else (at,)
    kinds = (Integral, slice, EllipsisType, NoneType)
    others = [type(one).__name__ for one in each if isinstance(one, bool) or not isinstance(one, kinds)]
    if others:
        remedy = "to choose by a mask or a list, multiply by zeros and ones, and sum"
        raise TypeError(f"getitem: x is indexed by numbers, slices, ... and None, got a {others[0]}; {remedy}")
    try:
        y = x[at]
    except IndexError as error:
        raise IndexError(f"getitem: {error}; x has shape {shape}") from None

    def vjp(g: Array) -> Grads:
        gx = xp.zeros(shape, g.dtype)
        gx[at] = g
        return (gx,)

    return y, vjp


@op
def concat(*xs: Array, axis: int = -1) -> Pair:
    """y = the arrays one after the other along `axis`.        Each gradient is its part of g."""
    if not xs:
        raise ValueError("concat: needs at least one array")
    xp = array_module(xs[0])
    (axis,) = normal_axes("concat", xs[0], axis)
    shapes = [x.shape for x in xs]
    if len({(len(shape), *shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ValueError(f"concat: the shapes {shapes} differ in other axes than {axis}")
    ends = [sum(x.shape[axis] for x in xs[: i + 1]) for i in range(len(xs) - 1)]
    return xp.concatenate(xs, axis), lambda g: tuple(xp.split(g, ends, axis))
