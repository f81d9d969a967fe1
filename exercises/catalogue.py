"""The tasks: their names, and what `python -m exercises.check --list` prints.  docs/exercises.md explains them.

A task has a starter file, exercises/starters/<name>.py, and a check, exercises/checkers/<name>.py.
"""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    title: str
    level: str
    minutes: int
    numpy_alone: bool = False  # the rest of this repository has the answer, so importing it is refused


TASKS = {
    "write_an_op": Task("Write an operation and its derivative", "first steps", 45),
    "break_a_gradient": Task(
        "Break a gradient so that a weak check misses it, and write the check that does not", "first steps", 60, True
    ),
    "faster_layer": Task("Make a convolution ten times as fast as its loops", "programming", 90, True),
    "pairing_null": Task(
        "How opposed are random filters?  A null distribution and its p-value", "statistics", 60, True
    ),
    "sqrt_two": Task("Find the sqrt 2 counterexample to the paper's Theorem 4.1", "theory", 75, True),
    "prove_or_refute": Task("Five bounds on complexity: prove them or break them", "theory", 120),
    "max_pool_bound": Task("Break the paper's bound for max pooling", "theory", 90),
    "reconstruct": Task("Get an image back from its CReLU features", "programming", 120, True),
}
