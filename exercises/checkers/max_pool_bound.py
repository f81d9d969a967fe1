"""The example must satisfy the theorem's assumption and its ratio exceed the bound, by minicnn/theory/pooling.py."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from exercises.grading import AnswerError, call, matrix, parts, shown
from minicnn.theory.pooling import pool_signal, ratio_bounds, reconstruct_signal, theorem_matrices

MARGIN = 0.1


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    found = parts("counterexample()", call(answer, "counterexample"), 3)
    filters, c, stride = matrix("filters", found[0]), matrix("c", found[1]), found[2]
    what = f"filters = {shown(filters)}, c = {shown(c)}, stride = {shown(stride)}"
    check_shapes(filters, c, stride, what)
    check_assumption(c, what)
    D = filters.shape[0] + (c.shape[1] - 1) * stride
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, D, stride=stride)
    if np.linalg.matrix_rank(W_x) < W_x.shape[1]:
        raise AnswerError(f"{what}\n  the {W_x.shape[1]} shifts with c != 0 are linearly dependent")
    bound = ratio_bounds(W_x, W_tilde).paper
    if math.isnan(bound):
        raise AnswerError(
            f"{what}\n  l > L: the bound is the root of a negative number.  Look for an example with a real bound."
        )
    estimate = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    ratio = float(np.linalg.norm(x - estimate) / np.linalg.norm(x))
    if ratio < bound + MARGIN:
        raise AnswerError(
            f"{what}\n  x = {shown(x)}, x' = {shown(estimate)}\n"
            f"  expected  a ratio of at least the bound + {MARGIN}\n  got       ratio {ratio:.6g}, bound {bound:.6g}"
        )


def check_shapes(filters: np.ndarray, c: np.ndarray, stride: object, what: str) -> None:
    if not isinstance(stride, int | np.integer) or isinstance(stride, bool) or stride < 1:
        raise AnswerError(f"stride should be an integer, at least 1, got {shown(stride)}")
    if len(filters) < 2 or (filters == 0).any():
        raise AnswerError(f"{what}\n  filters must have at least 2 entries (rows), none of them 0")
    if len(c) != filters.shape[1]:
        raise AnswerError(f"{what}\n  c should have one row for each of the {filters.shape[1]} filters, got {len(c)}")
    if max(filters.size, c.size) > 1000:
        raise AnswerError("the example has more than 1000 numbers; a small one is enough")


def check_assumption(c: np.ndarray, what: str) -> None:
    if not c.any():
        raise AnswerError(f"{what}\n  c is 0, and so is x")
    for i, row in enumerate(c):
        if (row > 0).sum() > 1:
            raise AnswerError(
                f"{what}\n  assumption (S1) does not hold: {(row > 0).sum()} coefficients of filter {i} are > 0"
            )
