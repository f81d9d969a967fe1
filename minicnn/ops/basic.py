"""Arithmetic, matrix products, shapes and dropout."""

from __future__ import annotations

from collections.abc import Sequence

from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module
from minicnn.ops.reduce import normal_axes, sum_to_channels, unbroadcast
from minicnn.random import Stream


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
        return gx, gw, None if b is None else sum_to_channels(g)

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


@op
def dropout(x: Array, *, rate: float, stream: Stream) -> Pair:
    """y = m x / q, where m is 1 with probability q = 1 - rate and 0 else ("inverted": E y = x).    gx = m g / q.

    The mask is a function of the stream and of each sample's position in the batch (minicnn/random.py): 16 random
    bits an element, compared with rate * 2^16 rounded to an integer; q is exactly the probability that results.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate must be in [0, 1), got {rate}")
    if x.ndim == 0:
        raise ValueError("dropout: x needs a batch axis, got a scalar")
    xp = array_module(x)
    threshold, scale = rounded_rate(rate)
    kept = stream.uniform16(x.shape[0], x[:1].size) >= threshold  # (N, size of a sample), drawn on the host
    mask = xp.asarray(kept).reshape(x.shape)

    def masked(values: Array) -> Array:
        return xp.where(mask, values * scale, 0)

    return masked(x), lambda g: (masked(g),)


def rounded_rate(rate: float) -> tuple[int, float]:
    """The number that 16 random bits must reach for an element to be kept; and the scale, 1 / its probability."""
    threshold = min(round(rate * 65536), 65535)
    return threshold, 1 / (1 - threshold / 65536)
