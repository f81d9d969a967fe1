"""Compares glu with its formula in loops: value, gradient, dtype, large numbers, errors."""

from __future__ import annotations

import math
import warnings
from types import ModuleType

import numpy as np

from exercises.grading import AnswerError, function, run, same, shown
from minicnn.autodiff import Op


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    glu = function(answer, "glu")
    if not isinstance(glu, Op):
        raise AnswerError("glu is a plain function; put @op (from minicnn.autodiff) above it")
    examine(answer, glu, np.array([[3.0, 0.0]]), -1, rng)  # by hand: 3 sigmoid(0) = 1.5
    for shape, axis in [((2, 4), -1), ((4, 3), 0), ((2, 3, 6), 2), ((2, 4, 3), 1)]:
        examine(answer, glu, rng.normal(size=shape), axis, rng)
    examine_float32(answer, glu, rng)
    for dtype in (np.float64, np.float32):  # exp(100) is too much for float32 only
        examine_large(answer, glu, dtype)
    examine_odd(glu)


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t)) if t >= 0 else math.exp(t) / (1 + math.exp(t))


def expected(x: np.ndarray, g: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """y and gx, one number at a time, with the two halves on the last axis."""
    last = np.moveaxis(x, axis, -1)
    half = last.shape[-1] // 2
    gradient, y = np.zeros(last.shape), np.zeros((*last.shape[:-1], half))
    g = np.moveaxis(g, axis, -1)
    for at in np.ndindex(y.shape):
        other = (*at[:-1], at[-1] + half)
        s = sigmoid(float(last[other]))
        y[at] = last[at] * s
        gradient[at] = g[at] * s
        gradient[other] = g[at] * last[at] * s * (1 - s)
    return np.moveaxis(y, -1, axis), np.moveaxis(gradient, -1, axis)


def examine(answer: ModuleType, glu: Op, x: np.ndarray, axis: int, rng: np.random.Generator) -> None:
    shape = list(x.shape)
    shape[axis] //= 2
    g = rng.normal(size=shape)
    y, gx = expected(x, g, axis)
    given = f"axis={axis}, x = {shown(x)}"
    before, g_before = x.copy(), g.copy()
    got, vjp = run(answer, glu.pair, x, axis=axis)
    same("y", got, y, given=given)
    grads = run(answer, vjp, g)
    if not isinstance(grads, tuple) or len(grads) != 1:
        raise AnswerError("vjp(g) should return a tuple with one gradient, (gx,), since glu has one array argument")
    same("gx", grads[0], gx, given=f"{given}, g = {shown(g)}")
    if (x != before).any() or (g != g_before).any():
        raise AnswerError("your op writes into its arguments: others still read them")


def examine_float32(answer: ModuleType, glu: Op, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 4)).astype(np.float32)
    y, vjp = run(answer, glu.pair, x)
    (gx,) = run(answer, vjp, np.ones_like(y))
    for name, value in (("y", y), ("gx", gx)):
        if (found := np.asarray(value).dtype) != np.float32:
            raise AnswerError(f"{name} has dtype {found} for x of dtype float32: no op changes the dtype")


def examine_large(answer: ModuleType, glu: Op, dtype: type) -> None:
    x: np.ndarray = np.array([[2.0, 3.0, 1000.0, -1000.0]], dtype)  # sigmoid is 1 and 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, vjp = run(answer, glu.pair, x)
        (gx,) = run(answer, vjp, np.ones((1, 2), dtype))
    given = f"x = {shown(x)} of dtype {x.dtype}"
    same("y", y, np.array([[2.0, 0.0]]), given=given)
    same("gx", gx, np.array([[1.0, 0.0, 0.0, 0.0]]), given=f"{given}, g = 1")


def examine_odd(glu: Op) -> None:
    try:
        glu.pair(np.zeros((2, 3)))
    except ValueError as error:
        if "glu" in str(error) and "3" in str(error):
            return
        raise AnswerError(
            f"x of shape (2, 3) has no halves; your message should name glu and the shape: {error}"
        ) from None
    except Exception as error:
        raise AnswerError(f"x of shape (2, 3) has no halves: raise ValueError, not {type(error).__name__}") from None
    raise AnswerError(
        "x of shape (2, 3) has no halves, but your op accepts it: raise ValueError and say what would fit"
    )
