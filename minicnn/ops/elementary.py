"""Elementary functions, element by element."""

from __future__ import annotations

from minicnn.autodiff import Pair, op
from minicnn.backend import Array, array_module


@op
def exp(x: Array) -> Pair:
    """y = e^x.        gx = g y."""
    y = array_module(x).exp(x)
    return y, lambda g: (g * y,)


@op
def log(x: Array) -> Pair:
    """y = ln x.        gx = g / x."""
    return array_module(x).log(x), lambda g: (g / x,)


@op
def sigmoid(x: Array) -> Pair:
    """y = 1 / (1 + e^-x).        gx = g y (1 - y).

    Computed from e = e^-|x|, which cannot overflow: 1 / (1 + e) where x >= 0, e / (1 + e) elsewhere.
    """
    xp = array_module(x)
    e = xp.exp(-xp.abs(x))
    y = xp.where(x >= 0, 1, e) / (1 + e)
    return y, lambda g: (g * y * (1 - y),)


@op
def power(x: Array, *, exponent: float) -> Pair:
    """y = x^p for a number p.        gx = g p x^(p - 1), which for p = 0 is 0 even where x is."""
    xp, p = array_module(x), float(exponent)
    return x**p, lambda g: (g * (p * x ** (p - 1)) if p else xp.zeros_like(g),)
