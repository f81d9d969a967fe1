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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicnn.autodiff import Parameter, Tape, Tensor
from minicnn.backend import Array, device_of, to_host


class GradientError(AssertionError):
    """A gradient disagrees with finite differences, or two maps are not adjoint."""


def check_gradient(
    f: Callable[..., Tensor],
    *arrays: Array,
    parameters: Sequence[Parameter] = (),
    step: float = 1e-6,
    tolerance: float = 1e-6,
    seed: int = 0,
    **static: Any,
) -> float:
    """Compare the gradient of f(*arrays, **static) with central differences; give the largest relative error.

    f is an op, a layer or any function of Tensors; `parameters` are differentiated too.  Every argument is checked
    by itself, so the error says which gradient is wrong.  The arrays must be float64 (float32 is too coarse for
    differences) and away from kinks and ties: closer than `step`, the two sides differ and no gradient is right.
    """
    rng = np.random.default_rng(seed)
    leaves = [Tensor(a, requires_grad=True) for a in arrays] + [*parameters]
    names = [f"argument {i}" for i in range(len(arrays))] + [f"parameter {i}" for i in range(len(parameters))]
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.dtype != np.float64:
            raise TypeError(f"check_gradient: {name} has dtype {leaf.dtype}; finite differences need float64")

    def evaluate() -> Tensor:
        return f(*leaves[: len(arrays)], **static)

    grads_before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    with Tape() as tape:
        y = evaluate()
        u = _like(rng, y.data)
        loss = (y * u).sum()
    tape.backward(loss)

    worst = 0.0
    for name, leaf, grad_before in zip(names, leaves, grads_before, strict=True):
        value, v = leaf.data, _like(rng, leaf.data)
        exact = 0.0 if leaf.grad is None else float((leaf.grad * v).sum())
        sides = []
        for sign in (1, -1):
            leaf.data = value + sign * step * v
            sides.append(float((evaluate().data * u).sum()))
        leaf.data, leaf.grad = value, grad_before
        numeric = (sides[0] - sides[1]) / (2 * step)
        scale = 1 + abs(sides[0])  # rounding in f is divided by the step: allow for a large <u, f>
        worst = max(worst, _compare(name, exact, numeric, scale=scale, tolerance=tolerance))
    return worst


def check_adjoint(
    forward: Callable[[Array], Array],
    adjoint: Callable[[Array], Array],
    x: Array,
    *,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> float:
    """Check <A x, r> = <x, A' r> for random arrays, the first shaped as x; give the relative error."""
    rng = np.random.default_rng(seed)
    x = _like(rng, x)
    ax = forward(x)
    r = _like(rng, ax)
    left, right = float((ax * r).sum()), float((x * adjoint(r)).sum())
    size = np.linalg.norm(to_host(ax)) * np.linalg.norm(to_host(r))
    return _compare("the adjoint", right, left, scale=float(size) or 1.0, tolerance=tolerance)


def _like(rng: np.random.Generator, x: Array) -> Array:
    """A standard normal array with the shape, dtype and device of x."""
    return device_of(x).put(rng.standard_normal(x.shape).astype(x.dtype))


def _compare(what: str, exact: float, numeric: float, *, scale: float, tolerance: float) -> float:
    error = abs(exact - numeric) / max(scale, abs(numeric))
    if not error <= tolerance:  # NaN fails
        raise GradientError(f"{what}: backpropagation gives {exact:.12g}, expected {numeric:.12g} (error {error:.1e})")
    return error
