"""Tensor: an array that a tape can follow.  Parameter: one that is learned.  Buffer: one that is only kept.

The operators of a Tensor call ops by name (OPS), because the ops are defined in minicnn/ops, which imports this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Number, Real
from typing import Any, NoReturn

import numpy as np

from minicnn.backend import Array, array_module, device_of, is_array, to_host

OPS: dict[str, Any] = {}  # minicnn's own ops by name, entered by @op


class Node:
    """The identity of a computed Tensor on a tape.  The tape holds it instead of the Tensor, whose array may go."""

    __slots__ = ()


class Tensor:
    """An array that a tape can follow.  `requires_grad` marks a leaf: backward adds to its `.grad`."""

    __slots__ = ("__weakref__", "_leaf", "data", "grad", "node")
    __array_ufunc__ = None  # numpy_array + tensor calls Tensor.__radd__

    def __init__(self, data: Array, *, requires_grad: bool = False):
        self.data: Array = as_array("Tensor", "data", data)
        self.grad: Array | None = None
        self._leaf = requires_grad
        self.node: Node | None = None  # set by the tape that recorded it

    @property
    def requires_grad(self) -> bool:
        """Whether this is a leaf whose gradient is wanted; decided when it is made (but see Parameter.freeze)."""
        return self._leaf

    @property
    def tracked(self) -> bool:
        """Whether a tape records what is computed from it: it is a leaf, or was computed from one."""
        return self._leaf or self.node is not None

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

    def __bool__(self) -> bool:
        raise TypeError("the truth of a Tensor is not defined: compare tensor.item() or tensor.numpy()")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("a Tensor is not converted to an array silently: use tensor.numpy() or tensor.data")

    def __eq__(self, other: object) -> bool:
        """Whether it is the same Tensor, for lists and dicts; with a number or an array, an error like tensor > 0."""
        if isinstance(other, (Number, np.generic)) or is_array(other):
            raise TypeError("a Tensor is not compared with values: compare tensor.numpy() or tensor.item()")
        return NotImplemented  # then Python asks the other, and goes by identity

    __hash__ = object.__hash__  # which a class with __eq__ would lose; != is the opposite of ==

    # Operators, so that a loss can be written as a formula.

    def _binary(self, name: str, other: object, *, reflected: bool = False) -> Tensor:
        if isinstance(other, Real):  # a number takes the dtype and the device of the Tensor
            with device_of(self.data).active():
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

    def __pow__(self, exponent: object) -> Tensor:
        return OPS["power"](self, exponent=exponent) if isinstance(exponent, Real) else NotImplemented

    def __getitem__(self, at: Any) -> Tensor:
        return OPS["getitem"](self, at=at)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.__getitem__, range(len(self)))  # len raises if it has no axis

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["reduce_sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["reduce_mean"](self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Tensor:
        """t.reshape(2, 3) or t.reshape((2, 3))."""
        return OPS["reshape"](self, shape=shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)


class Parameter(Tensor):
    """A Tensor that is learned: a leaf whose gradient is wanted until `freeze`.  Optimisers write into its array."""

    __slots__ = ()

    def __init__(self, data: Array):
        super().__init__(data, requires_grad=True)

    def freeze(self) -> None:
        """From now on it is not learned: no tape follows it, and Module.parameters leaves it out."""
        self._leaf, self.grad = False, None

    def _not_in_place(self, other: object) -> NoReturn:
        """`p -= lr * p.grad` would be `p = p - lr * p.grad`: another Tensor of that name, and the model learns nothing.

        Also while a tape records: what a forward pass may write must not depend on whether it trains.
        """
        raise TypeError(
            "Parameter: -=, += and the like do not change a Parameter; write p.data -= ... to change it, "
            "or p = p - ... for a new Tensor"
        )

    __iadd__ = __isub__ = __imul__ = __itruediv__ = _not_in_place


class Buffer:
    """An array that belongs to a model but is not learned, such as a running mean."""

    __slots__ = ("data",)

    def __init__(self, data: Array):
        self.data = data


def is_tracked(x: object) -> bool:
    return isinstance(x, Tensor) and x.tracked


def scalar_as_array(x: Any) -> Any:
    """x; but a NumPy scalar, which NumPy's arithmetic makes of 0-d arrays, becomes a 0-d array again."""
    return np.asarray(x) if isinstance(x, np.generic) else x


def as_array(where: str, name: str, x: object, dtype: str = "float32") -> Array:
    """x, which must be an array or a scalar of NumPy, as an array; `dtype` is what the error recommends."""
    if not is_array(x):
        raise TypeError(f"{where}: {name} must be an array, got {type(x).__name__}; use numpy.asarray(..., '{dtype}')")
    return scalar_as_array(x)
