"""Verdicts on five bounds; the complexities of a class that should break one are computed in loops."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

import numpy as np

from exercises.complexities import complexity
from exercises.grading import AnswerError, call, matrix, shown

MARGIN = 1.01
POINTS = 4


class Bound(NamedTuple):
    """left(F) <= factor * right(F); `left` and `right` are names of exercises/complexities.py."""

    text: str
    left: str
    right: str
    factor: float
    functions: int
    holds: bool


BOUNDS = {
    "relu": Bound("R(ReLU o F) <= R(F)", "relu", "identity", 1, 4, False),
    "relu_single": Bound("R(ReLU o F) <= R(F) for one function", "relu", "identity", 1, 1, True),
    "modulus": Bound("R(|F|) <= R(F)", "modulus", "identity", 1, 4, False),
    "modulus_twice": Bound("R(|F|) <= 2 R(F)", "modulus", "identity", 2, 4, True),
    "crelu_lower": Bound("R(F) <= sqrt(2) CReLU(F)", "identity", "crelu", math.sqrt(2), 4, True),
}


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    answers = call(answer, "answers")
    if not isinstance(answers, dict):
        raise AnswerError(f"answers() should return a dict, got {type(answers).__name__}")
    if missing := [name for name in BOUNDS if name not in answers]:
        raise AnswerError(f"answers() says nothing about {', '.join(missing)}")
    for name, bound in BOUNDS.items():
        examine(name, bound, answers[name])


def examine(name: str, bound: Bound, given: object) -> None:
    if isinstance(given, str):
        if given != "holds":
            raise AnswerError(f'{name}: expected "holds" or a class (a matrix), got {given!r}')
        if not bound.holds:
            raise AnswerError(
                f"{name}: {bound.text} does not hold\n"
                "  Use the absolute value in the definition: look for functions whose positive parts agree in sign\n"
                "  where the functions themselves cancel.  A search over small integers finds some."
            )
        return
    values = matrix(name, given)
    if values.shape[1] != POINTS or len(values) > bound.functions or (values == 0).any():
        raise AnswerError(
            f"{name}: a class has {POINTS} points (columns), at most {bound.functions} functions (rows), no value 0\n"
            f"  got  {shown(values)}"
        )
    left, right = complexity(values, bound.left), bound.factor * complexity(values, bound.right)
    if left < MARGIN * right:
        raise AnswerError(
            f"{name}: {bound.text} is not broken by {shown(values)}\n"
            f"  expected  the left side at least {MARGIN} times the right side\n  got       {left:.6g} and {right:.6g}"
        )
