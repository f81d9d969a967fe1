"""Is this derivative right?  Checks to run on an op of one's own.

check_gradient    compares the gradient with finite differences along a random direction
check_adjoint     checks that two linear maps are each other's transpose

    >>> import numpy as np
    >>> from minicnn.gradcheck import check_gradient
    >>> from minicnn.ops import crelu
    >>> error = check_gradient(crelu, np.array([[1.0, -2.0]]))

A direction is enough: for a derivative J, a random cotangent u and a random direction v, the number <J'u, v> computed
by backpropagation must be <u, J v>, which is the derivative of <u, f(x + t v)> at t = 0.  A wrong J fails with
probability 1, and the cost is two evaluations, whatever the number of inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minicnn.autodiff import Parameter, Tape, Tensor
from minicnn.backend import Array, device_of, to_host

EPSILON = float(np.finfo(np.float64).eps)


class GradientError(AssertionError):
    """A gradient disagrees with finite differences, or two maps are not adjoint."""


def check_gradient(
    f: Callable[..., Tensor],
    *arrays: Array,
    parameters: Sequence[Parameter] = (),
    step: float = 1e-6,
    tolerance: float = 1e-6,
    **static: Any,
) -> float:
    """Compare the gradient of f(*arrays, **static) with central differences.

    Returns the largest relative error beyond what rounding explains: 0.0 if there is none.

    f is an op, a layer or any function of Tensors; `parameters` are differentiated too.  Every argument is checked
    by itself, so the error says which gradient is wrong.  The arrays must be float64 (float32 is too coarse for
    differences) and away from kinks and ties: closer than `step`, the two sides differ and no gradient is right.
    """
    rng = np.random.default_rng(0)
    leaves = [Tensor(a, requires_grad=True) for a in arrays] + [*parameters]
    names = [f"argument {i}" for i in range(len(arrays))] + [f"parameter {i}" for i in range(len(parameters))]
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.dtype != np.float64:
            raise TypeError(f"check_gradient: {name} has dtype {leaf.dtype}; finite differences need float64")

    def evaluate() -> Tensor:
        return f(*leaves[: len(arrays)], **static)

    with Tape() as tape:
        y = evaluate()
        u = _like(rng, y.data)
        loss = (y * u).sum()
    with _gradients_set_aside([*parameters, *tape.leaves()]):  # parameters that f does not use, others that it does
        tape.backward(loss)
        errors = [0.0]
        for name, leaf in zip(names, leaves, strict=True):
            v = _like(rng, leaf.data)
            products = 0 * v if leaf.grad is None else leaf.grad * v
            numeric, noise = _difference(lambda: evaluate().data * u, leaf, v, step)
            scale = max(float(abs(products).sum()), abs(numeric))
            errors.append(_compare(name, float(products.sum()), numeric, scale, noise, tolerance))
    return max(errors)


def _difference(terms: Callable[[], Array], leaf: Tensor, v: Array, step: float) -> tuple[float, float]:
    """The central difference of the sum of terms() along v, and the part of it that rounding may have made."""
    value, sums, noise = leaf.data, [], 0.0
    try:
        for sign in (1, -1):
            leaf.data = value + sign * step * v
            found = terms()
            sums.append(float(found.sum()))
            noise = max(noise, 16 * EPSILON * float(abs(found).sum()) / step)  # rounding in f, divided by the step
    finally:
        leaf.data = value
    return (sums[0] - sums[1]) / (2 * step), noise


def check_adjoint(
    forward: Callable[[Array], Array],
    adjoint: Callable[[Array], Array],
    x: Array,
    *,
    tolerance: float = 1e-10,
) -> float:
    """Check <A x, r> = <x, A' r> for random arrays, the first shaped as x; return the relative error."""
    rng = np.random.default_rng(0)
    x = _like(rng, x)
    ax = forward(x)
    r = _like(rng, ax)
    left, right = float((ax * r).sum()), float((x * adjoint(r)).sum())
    size = float(np.linalg.norm(to_host(ax)) * np.linalg.norm(to_host(r)))
    return _compare("the adjoint", right, left, size, 0.0, tolerance)


def _like(rng: np.random.Generator, x: Array) -> Array:
    """A standard normal array with the shape, dtype and device of x."""
    return device_of(x).put(rng.standard_normal(x.shape).astype(x.dtype))


def _compare(what: str, exact: float, numeric: float, scale: float, noise: float, tolerance: float) -> float:
    """|exact - numeric| beyond what rounding explains, relative to `scale`; GradientError if it is too large."""
    excess = abs(exact - numeric) - noise
    error = 0.0 if excess <= 0 else excess / scale if scale else math.inf
    if not error <= tolerance:  # NaN fails
        raise GradientError(f"{what}: backpropagation gives {exact:.12g}, expected {numeric:.12g} (error {error:.1e})")
    return error


@contextmanager
def _gradients_set_aside(leaves: Sequence[Tensor]) -> Iterator[None]:
    """Inside it leaves have no gradients; afterwards they have their old ones again."""
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, grad in zip(leaves, before, strict=True):
            leaf.grad = grad
