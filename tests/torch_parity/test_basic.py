"""Arithmetic with broadcasting, matrix products, shapes, sums and means."""

import numpy as np
import pytest

from minicnn import ops
from tests.torch_parity.convert import compare, normal, torch

BINARY = {
    "add": (ops.add, torch.add),
    "subtract": (ops.subtract, torch.subtract),
    "multiply": (ops.multiply, torch.multiply),
    "divide": (ops.divide, torch.divide),
}
BROADCASTS = {
    "same": ((3, 4), (3, 4)),
    "row": ((3, 4), (4,)),
    "column": ((3, 4), (3, 1)),
    "outer": ((3, 1), (1, 4)),
    "scalar-right": ((2, 3), ()),
    "scalar-left": ((), (2, 3)),
    "scalars": ((), ()),
    "channels": ((2, 3, 5, 4), (4,)),
    "images": ((5, 4), (2, 3, 1, 4)),
    "both-ways": ((2, 1, 5, 1), (3, 1, 4)),
    "ones": ((1, 1), (1,)),
}
OPERATORS = {
    "x+2": lambda x: x + 2,
    "2+x": lambda x: 2 + x,
    "x-2": lambda x: x - 2,
    "2-x": lambda x: 2 - x,
    "x*0.5": lambda x: x * 0.5,
    "0.5*x": lambda x: 0.5 * x,
    "x/3": lambda x: x / 3,
    "3/x": lambda x: 3 / x,
    "-x": lambda x: -x,
    "x*x+x": lambda x: x * x + x,  # the same leaf several times
    "x@x": lambda x: x @ x,
    "x**3": lambda x: x**3,
    "x**-2": lambda x: x**-2,
    "x[1]": lambda x: x[1],
    "x[...,1:-1:2]": lambda x: x[..., 1:-1:2],
    "x[:2,None,-1]": lambda x: x[:2, None, -1],
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "reshape": lambda x: x.reshape(2, -1),
}
REDUCTIONS = {"reduce_sum": (ops.reduce_sum, torch.sum), "reduce_mean": (ops.reduce_mean, torch.mean)}
AXES = [None, 0, 2, -1, (0, 1), (1, 2), (-1, 0), (0, 1, 2, 3)]


def away_from_zero(x):
    """A denominator: the same signs, every modulus increased by 1."""
    return np.asarray(x + np.copysign(1, x), x.dtype)


@pytest.mark.parametrize("shapes", BROADCASTS.values(), ids=BROADCASTS.keys())
@pytest.mark.parametrize(("ours", "theirs"), BINARY.values(), ids=BINARY.keys())
def test_binary_op(ours, theirs, shapes, dtype):
    a, b = normal(dtype, *shapes)
    compare(ours, theirs, a, away_from_zero(b))


@pytest.mark.parametrize("formula", OPERATORS.values(), ids=OPERATORS.keys())
def test_operator(formula, dtype):
    (x,) = normal(dtype, (4, 4))
    compare(formula, formula, away_from_zero(x))


@pytest.mark.parametrize("name", ["exp", "log", "sigmoid"])
def test_elementary(name, dtype):
    (x,) = normal(dtype, (3, 4))
    compare(getattr(ops, name), getattr(torch, name), np.abs(x) + np.asarray(0.5, dtype) if name == "log" else x)


def test_negative(dtype):
    compare(ops.negative, torch.neg, *normal(dtype, (3, 4)))


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((1, 6), (6, 1)), ((5, 1), (1, 2))], ids=["3x4x5", "dot", "outer"]
)
def test_matmul(shapes, dtype):
    compare(ops.matmul, torch.matmul, *normal(dtype, *shapes))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("sizes", [(7, 5, 3), (1, 4, 2), (3, 1, 1)], ids=["7x5x3", "one-sample", "one-to-one"])
def test_linear(sizes, bias, dtype):
    n, c_in, c_out = sizes
    shapes = [(n, c_in), (c_in, c_out), (c_out,)] if bias else [(n, c_in), (c_in, c_out)]
    compare(ops.linear, lambda x, w, *b: torch.nn.functional.linear(x, w.T, *b), *normal(dtype, *shapes))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis, dtype):
    shapes = [[3, 4, 5] for _ in range(3)]
    for length, shape in enumerate(shapes, start=1):
        shape[axis] = length
    compare(
        lambda *xs: ops.concat(*xs, axis=axis),
        lambda *xs: torch.cat(xs, axis),
        *normal(dtype, *map(tuple, shapes)),
    )


def test_reshape(dtype):
    compare(
        lambda x: ops.reshape(x, shape=(4, -1, 3)), lambda x: torch.reshape(x, (4, -1, 3)), *normal(dtype, (2, 3, 4, 5))
    )


@pytest.mark.parametrize("keepdims", [False, True], ids=["drop", "keep"])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize(("ours", "theirs"), REDUCTIONS.values(), ids=REDUCTIONS.keys())
def test_reduction(ours, theirs, axis, keepdims, dtype):
    compare(
        lambda x: ours(x, axis=axis, keepdims=keepdims),
        lambda x: theirs(x, dim=axis, keepdim=keepdims),
        *normal(dtype, (2, 3, 4, 5)),
    )
