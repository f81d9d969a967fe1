"""broken_crelu must be broken where it should be; find() must find the wrong gradients of functions it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from exercises.grading import AnswerError, array, call, parts, run, same, shown


class Patient(NamedTuple):
    """A function with at most one wrong gradient, and what is wrong with it."""

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    wrong: int | None
    why: str


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    examine_broken(answer, rng)
    for patient in patients(rng):
        arrays = tuple(a.copy() for a in patient.arrays)
        got = call(answer, "find", patient.function, arrays)
        if got is not None and not isinstance(got, int | np.integer):
            raise AnswerError(f"find should return an index or None, got {shown(got)}")
        if got != patient.wrong:
            raise AnswerError(
                f"find({patient.function.__name__}, ...) with arrays of shapes {[a.shape for a in arrays]}\n"
                f"  expected  {patient.wrong}\n  got       {got}\n  {patient.why}"
            )


def examine_broken(answer: ModuleType, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    y, vjp = parts("broken_crelu(x)", call(answer, "broken_crelu", x), 2)
    same("y", y, np.concatenate((np.maximum(x, 0), np.maximum(-x, 0)), 1), given=f"x = {shown(x)}")
    (gx,) = parts("vjp(g)", run(answer, vjp, np.ones((3, 8))), 1)
    same("gx", gx, np.sign(x), given=f"x = {shown(x)} and g = ones, where it should be right")
    for _ in range(5):
        g = rng.normal(size=(3, 8))
        (gx,) = parts("vjp(g)", run(answer, vjp, g), 1)
        right = np.where(x > 0, g[:, :4], -g[:, 4:])
        gx = array("gx", gx)
        if gx.shape != x.shape:
            raise AnswerError(f"vjp(g) of broken_crelu has shape {gx.shape}, x has {x.shape}")
        if abs(gx - right).max() > 1e-3:
            return
    raise AnswerError("the vjp of broken_crelu is right for random g too: nothing is broken")


# --- functions, right and wrong ---


def patients(rng: np.random.Generator) -> list[Patient]:
    def a(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    x, w, b = a(5, 4), a(4, 3), a(3)
    return [
        Patient(product, (x, a(5, 4)), None, "All of its gradients are right."),
        Patient(product_once, (x, a(5, 4)), 1, "It is y = u v, and the gradient of v is g, not g u."),
        Patient(affine, (x, w, b), None, "All of its gradients are right."),
        Patient(affine_one_row, (x, w, b), 1, "It is y = x w + b, and the gradient of w uses one row of x only."),
        Patient(affine_mean, (x, w, b), 2, "It is y = x w + b, and the gradient of b is a mean, not a sum, over rows."),
        Patient(centred, (a(6, 5),), None, "All of its gradients are right."),
        Patient(
            centred_constant, (a(6, 5),), 0, "y = x - mean(x) has the gradient g - mean(g), which is 0 for g = ones."
        ),
        Patient(last_entry, (a(40),), 0, "One entry of forty has the gradient 0."),
        Patient(one_per_mille, (x,), 0, "The gradient is too large by a factor of 1.001."),
        Patient(large, (x,), None, "Its values are large, 1e6 x^2, and so are rounding errors: use relative errors."),
        Patient(small, (x,), 0, "Its values are small, 1e-6 x^2, and the factor 2 is missing: use relative errors."),
    ]


def product(u: np.ndarray, v: np.ndarray) -> Any:
    return u * v, lambda g: (g * v, g * u)


def product_once(u: np.ndarray, v: np.ndarray) -> Any:
    return u * v, lambda g: (g * v, g)


def affine(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    return x @ w + b, lambda g: (g @ w.T, x.T @ g, g.sum(axis=0))


def affine_one_row(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    return x @ w + b, lambda g: (g @ w.T, np.outer(x[0], g[0]), g.sum(axis=0))


def affine_mean(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    return x @ w + b, lambda g: (g @ w.T, x.T @ g, g.mean(axis=0))


def centred(x: np.ndarray) -> Any:
    return x - x.mean(), lambda g: (g - g.mean(),)


def centred_constant(x: np.ndarray) -> Any:
    return x - x.mean(), lambda g: (0 * g,)


def last_entry(x: np.ndarray) -> Any:
    return np.tanh(x), lambda g: (g * (1 - np.tanh(x) ** 2) * (np.arange(x.size) < x.size - 1),)


def one_per_mille(x: np.ndarray) -> Any:
    return np.exp(x), lambda g: (1.001 * g * np.exp(x),)


def large(x: np.ndarray) -> Any:
    return 1e6 * x**2, lambda g: (2e6 * g * x,)


def small(x: np.ndarray) -> Any:
    return 1e-6 * x**2, lambda g: (1e-6 * g * x,)
