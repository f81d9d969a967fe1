"""Reverse-mode differentiation: Tensor, Tape and @op.

An *op* is a pure function of arrays.  It returns its value and its vector-Jacobian product, side by side:

    @op
    def avr(x):
        return abs(x), lambda g: (g * sign(x),)      # one gradient (or None) for each positional argument

Given arrays it computes an array.  Given a Tensor it computes a Tensor, and if a Tape is recording it adds
(output, inputs, vjp) to the record.  Walking that record backwards is the chain rule:

    with Tape() as tape:
        loss = softmax_cross_entropy(model(x), labels)
    tape.backward(loss)                              # adds d loss / d p to p.grad of every Parameter p

The record is in the order of creation, which is a topological order: backward is a loop, with no sort and no
recursion.  A vjp closes over arrays, never over Tensors: there are no cycles, and what stays in memory is
exactly what it mentions.  First derivatives only.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import update_wrapper
from numbers import Real
from typing import Any, overload

import numpy as np

from minicnn.backend import Array, array_module, device_of, is_array, to_host

Grads = tuple[Array, ...]  # an array or None for each positional argument
Vjp = Callable[..., Grads]
Pair = tuple[Array, Vjp]

OPS: dict[str, Op] = {}  # every op by its name

_recording: ContextVar[Tape | None] = ContextVar("the tape that is recording", default=None)


class Tensor:
    """An array that a tape can follow.  `requires_grad` marks a leaf: backward adds to its `.grad`."""

    __slots__ = ("__weakref__", "data", "grad", "requires_grad", "tracked")
    __array_ufunc__ = None  # numpy_array + tensor calls Tensor.__radd__

    def __init__(self, data: Array, *, requires_grad: bool = False):
        self.data: Array = _as_array("Tensor", "data", data)
        self.grad: Array | None = None
        self.requires_grad = requires_grad
        self.tracked = requires_grad  # leads to a leaf, so a tape records what is computed from it

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array (the very array of a Tensor on the CPU, a copy from a GPU)."""
        return to_host(self.data)

    def item(self) -> float:
        """The value of a Tensor of one element."""
        return float(self.data.item())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device={device_of(self.data)})"

    def __len__(self) -> int:
        return len(self.data)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("a Tensor is not converted to an array silently: use tensor.numpy() or tensor.data")

    # Operators, so that a loss can be written as a formula.  The ops are looked up by name because they are
    # defined in minicnn.ops, which imports this file.

    def _binary(self, name: str, other: object, *, reflected: bool = False) -> Tensor:
        if isinstance(other, Real):  # a number takes the dtype and the device of the Tensor
            other = array_module(self.data).asarray(other, self.dtype)
        if not isinstance(other, Tensor) and not is_array(other):
            return NotImplemented
        return OPS[name](other, self) if reflected else OPS[name](self, other)

    def __add__(self, other: object) -> Tensor:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: object) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: object) -> Tensor:
        return self._binary("subtract", other, reflected=True)

    def __mul__(self, other: object) -> Tensor:
        return self._binary("multiply", other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: object) -> Tensor:
        return self._binary("divide", other, reflected=True)

    def __matmul__(self, other: object) -> Tensor:
        return self._binary("matmul", other)

    def __rmatmul__(self, other: object) -> Tensor:
        return self._binary("matmul", other, reflected=True)

    def __neg__(self) -> Tensor:
        return OPS["negative"](self)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["reduce_sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["reduce_mean"](self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: int) -> Tensor:
        return OPS["reshape"](self, shape=shape)


class Parameter(Tensor):
    """A Tensor that is learned: a leaf whose gradient is always wanted."""

    __slots__ = ()

    def __init__(self, data: Array):
        super().__init__(data, requires_grad=True)


class Buffer:
    """An array that belongs to a model but is not learned, such as a running mean."""

    __slots__ = ("data",)

    def __init__(self, data: Array):
        self.data = data


class Tape:
    """The list of what was computed.  `with Tape() as tape: loss = ...`, then `tape.backward(loss)`.

    Between the forward and the backward pass, do not write into arrays that were used: a vjp may read them.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, tuple[Any, ...], Vjp, bool]] = []
        self._token: Token[Tape | None] | None = None

    def __enter__(self) -> Tape:
        if _recording.get() is not None:
            raise RuntimeError("Tape: another tape is recording here; tapes do not nest")
        self._token = _recording.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _recording.reset(self._token)

    def __len__(self) -> int:
        return len(self._steps)

    def backward(self, loss: Tensor) -> None:
        """Add d loss / d leaf to the `.grad` of every leaf.

        The record is consumed on the way, so memory is released as soon as it is no longer needed.
        """
        self._check(loss)
        grads = {id(loss): array_module(loss.data).ones_like(loss.data)}
        while self._steps:
            out, inputs, vjp, selective = self._steps.pop()
            g = grads.pop(id(out), None)
            if g is None:  # does not lead to the loss
                continue
            needs = [is_tracked(x) for x in inputs]
            for x, gx in zip(inputs, vjp(g, needs) if selective else vjp(g), strict=True):
                if gx is None or not is_tracked(x):
                    continue
                if x.requires_grad:
                    x.grad = _owned(gx, g) if x.grad is None else x.grad + gx
                else:
                    grads[id(x)] = grads[id(x)] + gx if id(x) in grads else gx

    def _check(self, loss: Tensor) -> None:
        if not isinstance(loss, Tensor):
            raise TypeError(f"backward: the loss must be a Tensor, got {type(loss).__name__}; compute it from Tensors")
        if loss.data.size != 1:
            raise ValueError(f"backward: the loss must be a scalar, got shape {loss.shape}; take a mean or a sum")
        if not any(out is loss for out, *_ in self._steps):
            raise RuntimeError(
                "backward: the loss is not on this tape: it was computed outside `with Tape()`, depends on no "
                "Parameter, or the tape was consumed by an earlier backward"
            )


def is_tracked(x: object) -> bool:
    return isinstance(x, Tensor) and x.tracked


def _owned(gx: Array, g: Array) -> Array:
    """gx as an array of its own: add, for one, hands the same g to both its arguments."""
    if isinstance(gx, np.generic):
        return np.asarray(gx)
    return gx.copy() if gx is g or gx.base is not None else gx


class Op:
    """An operation: called on arrays it gives an array, on Tensors a Tensor (which a recording tape notes).

    pair(*arrays, **static)    (y, vjp), by the version that fits: the first of `faster` whose condition holds,
                               else the textbook
    textbook                   the function as it is written in minicnn/ops
    faster                     [(fits, pair)]: versions from minicnn/fast, entered by minicnn/fast/dispatch.py
    """

    def __init__(self, textbook: Callable[..., Pair], *, integers: tuple[str, ...], selective: bool):
        self.textbook = textbook
        self.faster: list[tuple[Callable[..., bool], Callable[..., Pair]]] = []
        self.name = textbook.__name__
        self._integers = integers
        self._selective = selective
        kinds = inspect.Parameter
        parameters = inspect.signature(textbook).parameters.values()
        self._names = [p.name for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        self._optional = {p.name for p in parameters if p.default is None}
        update_wrapper(self, textbook)
        OPS[self.name] = self

    def pair(self, *args: Array, **static: Any) -> Pair:
        arrays = self._checked(self._positional(args, static))
        chosen = self.textbook
        if os.environ.get("MINICNN_FAST") != "0":
            chosen = next((fast for fits, fast in self.faster if fits(*arrays, **static)), chosen)
        y, vjp = chosen(*arrays, **static)
        return np.asarray(y) if isinstance(y, np.generic) else y, vjp

    def __call__(self, *args: Any, **static: Any) -> Any:
        args = self._positional(args, static)
        y, vjp = self.pair(*(a.data if isinstance(a, Tensor) else a for a in args), **static)
        if not any(isinstance(a, Tensor) for a in args):
            return y
        out = Tensor(y)
        tape = _recording.get()
        if tape is not None and any(map(is_tracked, args)):
            out.tracked = True
            tape._steps.append((out, args, vjp, self._selective))
        return out

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def _positional(self, args: tuple[Any, ...], static: dict[str, Any]) -> tuple[Any, ...]:
        """All array arguments in order: those given by keyword leave `static`, and an absent bias is None."""
        for name in self._names[len(args) :]:
            if name not in static and name not in self._optional:
                raise TypeError(f"{self.name}: the argument {name} is missing")
            args = (*args, static.pop(name, None))
        return args

    def _checked(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """One device, one dtype, float32 or float64: what every op may rely on."""
        checked, floats = [], {}
        for i, array in enumerate(arrays):
            name = self._names[i] if i < len(self._names) else f"argument {i}"
            if array is not None or name not in self._optional:
                array = _as_array(self.name, name, array)
                if name not in self._integers:
                    floats[name] = array
            checked.append(array)
        for name, array in floats.items():
            if array.dtype not in (np.float32, np.float64):
                raise TypeError(
                    f"{self.name}: {name} has dtype {array.dtype}; only float32 and float64 are computed with: "
                    f"use {name}.astype('float32')"
                )
        for what, kinds in (
            ("dtypes", {name: str(array.dtype) for name, array in floats.items()}),
            ("devices", {name: device_of(array).name for name, array in floats.items()}),
        ):
            if len(set(kinds.values())) > 1:
                found = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
                remedy = "x.astype(dtype)" if what == "dtypes" else "minicnn.to_device(x, device) or model.to(device)"
                raise TypeError(f"{self.name}: arguments of different {what}: {found}; convert one: {remedy}")
        return tuple(checked)


def _as_array(where: str, name: str, x: object) -> Array:
    if isinstance(x, np.generic):
        return np.asarray(x)
    if not is_array(x):
        raise TypeError(f"{where}: {name} must be an array, got {type(x).__name__}; use numpy.asarray(..., 'float32')")
    return x


@overload
def op(function: Callable[..., Pair]) -> Op: ...
@overload
def op(*, integers: tuple[str, ...] = (), selective: bool = False) -> Callable[[Callable[..., Pair]], Op]: ...
def op(function: Any = None, *, integers: tuple[str, ...] = (), selective: bool = False) -> Any:
    """Make an op of a function of arrays that returns (y, vjp).

    integers    names of arguments that hold integers, such as labels: not checked for floats here
    selective   its vjp takes a second argument, `needs`: which of its gradients are wanted at all.  The input
                of a first layer needs none, and the gradient of a convolution is expensive.
    """
    if function is not None:
        return Op(function, integers=integers, selective=selective)
    return lambda f: Op(f, integers=integers, selective=selective)
