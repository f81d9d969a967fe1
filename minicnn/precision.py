"""How exact products of float32 matrices are, and so how fast.

    float32    as exact as the numbers
    tf32       factors are rounded to 11 bits first: on a GPU with tensor cores
    bf16       to 8 bits: there, and on processors that have instructions for it

Products are added up in float32, and everything but products is float32 as ever.  Numbers of float64 are not concerned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("float32", "tf32", "bf16")
PRECISION = "MINICNN_PRECISION"  # the variable of the environment that says it


def precision() -> str:
    """One of NAMES."""
    name = os.environ.get(PRECISION, "float32")
    if name not in NAMES:
        raise ValueError(f"{PRECISION} must be one of {', '.join(NAMES)}, got {name!r}")
    return name


def set_precision(name: str) -> None:
    """From now on, in this process and those that it starts."""
    if name not in NAMES:
        raise ValueError(f"set_precision: choose from {', '.join(NAMES)}, got {name!r}")
    os.environ[PRECISION] = name


@contextmanager
def use_precision(name: str) -> Iterator[None]:
    """Inside it products are that exact, in the whole process."""
    before = os.environ.get(PRECISION)
    set_precision(name)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(PRECISION, None)
        else:
            os.environ[PRECISION] = before
