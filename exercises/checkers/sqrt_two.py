"""Compares complexity with loops, and measures the classes by the loops too, never by the answer's own complexity."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from exercises.complexities import complexity
from exercises.grading import AnswerError, array, call, matrix, same, shown


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    by_hand = [np.array([[1.0, -1.0]]), np.array([[1.0, 1.0]]), np.array([[2.0, 0.0], [0.0, -1.0]])]
    drawn = [rng.integers(-2, 3, (f, p)).astype(float) for f, p in [(1, 1), (1, 3), (3, 4), (4, 5)]]
    for values in (*by_hand, *drawn, rng.normal(size=(3, 6))):
        for activation in ("identity", "crelu"):
            got = array("complexity", call(answer, "complexity", values, activation))
            expected = np.array(complexity(values, activation))
            same("complexity", got, expected, given=f'"{activation}" of {shown(values)}')
    for points in range(2, 9):
        values = a_class(answer, "counterexample", points)
        if abs((found := ratio("counterexample", values)) - math.sqrt(2)) > 1e-9:
            raise AnswerError(
                f"counterexample({points}) = {shown(values)}\n"
                f"  expected  crelu / identity = 1.41421356\n  got       {found:.9g}"
            )
    for points in (4, 6):
        examine_robust(answer, points)


def a_class(answer: ModuleType, name: str, points: int) -> np.ndarray:
    values = matrix(f"{name}({points})", call(answer, name, points))
    if values.shape[1] != points or len(values) > 20:
        raise AnswerError(
            f"{name}({points}) should have {points} columns, one per point, and at most 20 rows, got {values.shape}"
        )
    return values


def ratio(name: str, values: np.ndarray) -> float:
    plain = complexity(values, "identity")
    if plain == 0:
        raise AnswerError(f"{name}: all functions of {shown(values)} are 0")
    return complexity(values, "crelu") / plain


def examine_robust(answer: ModuleType, points: int) -> None:
    values = a_class(answer, "robust", points)
    what = f"robust({points}) = {shown(values)}"
    if len(values) != 3:
        raise AnswerError(f"{what}\n  expected  3 functions\n  got       {len(values)}")
    if (values == 0).any():
        raise AnswerError(f"{what}\n  no value may be 0")
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        if np.linalg.svd(unit[[i, j]], compute_uv=False)[1] < 1e-12:  # a cosine of 1 - 1e-12 is an angle of 1e-6
            raise AnswerError(f"{what}\n  function {j} is a multiple of function {i}")
    if (found := ratio("robust", values)) <= 1.4:
        raise AnswerError(f"{what}\n  expected  crelu / identity above 1.4\n  got       {found:.6g}")
