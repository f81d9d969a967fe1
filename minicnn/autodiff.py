"""Reverse-mode differentiation: @op and Tape.

An *op* is a pure function of arrays.  It returns its value and its vector-Jacobian product, side by side:

    @op
    def avr(x):
        return abs(x), lambda g: (g * sign(x),)      # one gradient (or None) for each positional argument

Given arrays it computes an array.  Given a Tensor it computes a Tensor, and if a Tape is recording it notes what was
computed from what, with the vjp.  Walking that record backwards is the chain rule:

    with Tape() as tape:
        loss = softmax_cross_entropy(model(x), labels)
    tape.backward(loss)                              # adds d loss / d p to p.grad of every Parameter p

The record is in the order of creation, which is a topological order: backward is a loop, with no sort and no
recursion.  A vjp closes over arrays, never over Tensors, and the record holds no Tensors but the leaves: there are no
cycles, and what stays in memory is exactly what the derivatives mention.  First derivatives only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import update_wrapper
from operator import is_
from typing import Any, NamedTuple, overload

import numpy as np

from minicnn.backend import Array, device_of, fast_versions, is_known_array
from minicnn.parallel import within_memory
from minicnn.tensor import OPS, Buffer, Node, Parameter, Tensor, as_array, is_tracked, scalar_as_array

__all__ = ["OPS", "Buffer", "Grads", "Op", "Pair", "Parameter", "Tape", "Tensor", "Vjp", "op"]

Grads = tuple[Array, ...]  # an array or None for each positional argument
Vjp = Callable[..., Grads]
Pair = tuple[Array, Vjp]

_FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}
_recording: ContextVar[Tape | None] = ContextVar("the tape that is recording", default=None)

# If set, called as watcher(op, arrays, y) whenever an op has computed y: for those who count (nn/summary.py).
watcher: ContextVar[Callable[[Op, tuple[Array, ...], Array], None] | None] = ContextVar("who counts", default=None)


def recording() -> bool:
    """Whether a tape records what is computed here."""
    return _recording.get() is not None


@contextmanager
def around_derivatives(wrap: Callable[[Vjp], Vjp]) -> Iterator[None]:
    """Of what is recorded inside of it, wrap(vjp) will be called instead of the vjp."""
    tape = _recording.get()
    first = 0 if tape is None else len(tape)
    yield
    if tape is not None:
        tape._steps[first:] = [step._replace(vjp=wrap(step.vjp)) for step in tape._steps[first:]]


class Step(NamedTuple):
    """One line of a tape's record.  An input is a leaf, the node of a computed Tensor, or None: no gradient wanted."""

    op: Op
    out: Node
    inputs: list[Tensor | Node | None]
    kinds: list[tuple[tuple[int, ...], Any] | None]  # shape and dtype that each gradient must have
    vjp: Vjp


class Tape:
    """The list of what was computed.  `with Tape() as tape: loss = ...`, then `tape.backward(loss)`.

    Between the forward and the backward pass, do not write into arrays that were used: a vjp may read them.  What
    another thread computes is not recorded, unless it runs in a copy of this context:
    thread_pool.submit(contextvars.copy_context().run, function, x).
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
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

    def record(self, op: Op, out: Tensor, args: tuple[Any, ...], vjp: Vjp) -> None:
        """Note that `out` was computed from `args`, some of which are tracked."""
        out.node = Node()
        tracked = [a if is_tracked(a) else None for a in args]
        inputs = [a if a is None or a.requires_grad else a.node for a in tracked]
        kinds = [None if a is None else (a.data.shape, a.data.dtype) for a in tracked]
        self._steps.append(Step(op, out.node, inputs, kinds, vjp))

    def backward(self, loss: Tensor) -> None:
        """Add d loss / d leaf to the `.grad` of every leaf.

        The record is consumed on the way, so memory is released as soon as it is no longer needed.  If a derivative
        raises, the leaves that it had not reached keep their old gradients.
        """
        node = self._node_of(loss)
        with device_of(loss.data).active():
            grads = {node: _one(loss.data)}
            while self._steps:
                step = self._steps.pop()
                g = grads.pop(step.out, None)
                if g is not None:  # otherwise it does not lead to the loss
                    _pass_on(step, g, grads)

    def leaves(self) -> list[Tensor]:
        """Those that were used so far, each once."""
        found = {id(x): x for step in self._steps for x in step.inputs if isinstance(x, Tensor)}
        return list(found.values())

    def _node_of(self, loss: Tensor) -> Node:
        """The node of the loss, if all that it was computed from is on this tape."""
        if not isinstance(loss, Tensor):
            raise TypeError(f"backward: the loss must be a Tensor, got {type(loss).__name__}; compute it from Tensors")
        if loss.data.size != 1:
            raise ValueError(f"backward: the loss must be a scalar, got shape {loss.shape}; take a mean or a sum")
        if loss.node is None or not any(step.out is loss.node for step in self._steps):
            raise RuntimeError(
                "backward: the loss is not on this tape: it was computed outside `with Tape()`, depends on no "
                "Parameter that learns, or the tape was consumed by an earlier backward"
            )
        missing = {loss.node}
        for step in reversed(self._steps):
            if step.out in missing:
                missing.remove(step.out)
                missing.update(x for x in step.inputs if isinstance(x, Node))
        if missing:
            raise RuntimeError(
                "backward: the loss depends on Tensors that another tape recorded, or that this one has consumed; "
                "compute everything between the leaves and the loss within one `with Tape()`"
            )
        return loss.node


_ones: dict[tuple[str, Any], Array] = {}  # on GPUs, by device and dtype


def _one(loss: Array) -> Array:
    """d loss / d loss.  On a GPU it is uploaded once: a launch less in every step.  No vjp may write into its g."""
    where = device_of(loss)
    if where.cuda is None or loss.ndim > 0:
        return where.xp.ones_like(loss)
    key = (where.name, loss.dtype)
    if key not in _ones:
        _ones[key] = where.put(np.ones((), loss.dtype))
    return _ones[key]


def _pass_on(step: Step, g: Array, grads: dict[Node, Array]) -> None:
    """Add what the vjp of a step makes of g to the leaves, and to the `grads` of what was computed before."""
    found = _gradients(step, g)
    for i, (x, gx) in enumerate(zip(step.inputs, found, strict=True)):
        if isinstance(x, Tensor) and gx is not None:
            x.grad = _owned(gx, [g, *found[:i]]) if x.grad is None else scalar_as_array(x.grad + gx)
        elif isinstance(x, Node) and gx is not None:
            grads[x] = scalar_as_array(grads[x] + gx) if x in grads else gx


def _gradients(step: Step, g: Array) -> list[Array]:
    """What the vjp of a step gives, checked: one gradient (or None) for each argument, of its shape and dtype."""
    needs = [x is not None for x in step.inputs]
    arguments = (g, needs) if step.op.selective else (g,)
    found = within_memory(device_of(g), f"the derivative of {step.op.name}", step.vjp, *arguments)
    grads = [scalar_as_array(gx) for gx in found]
    if len(grads) != len(needs):
        raise RuntimeError(f"{step.op.name}: its vjp gives {len(grads)} gradients for {len(needs)} arguments")
    for i, (gx, kind) in enumerate(zip(grads, step.kinds, strict=True)):
        if gx is not None and kind is not None and (gx.shape, gx.dtype) != kind:
            raise RuntimeError(
                f"{step.op.name}: its vjp gives argument {i} a gradient of shape {gx.shape} and dtype {gx.dtype}; "
                f"the argument has {kind[0]} and {kind[1]}"
            )
    return grads


def _owned(gx: Array, others: list[Array]) -> Array:
    """gx as an array of its own: add, for one, hands the same g to both its arguments."""
    return gx.copy() if gx.base is not None or any(gx is other for other in others) else gx


class Op:
    """An operation: called on arrays it gives an array, on Tensors a Tensor (which a recording tape notes).

    pair(*arrays, **static)    (y, vjp), by the version that fits: the first of `faster` (on a GPU, `faster_on_gpu`)
                               whose condition holds, else the textbook
    textbook                   the function as it is written in minicnn/ops
    faster                     [(fits, pair)]: versions from minicnn/fast, entered by minicnn/fast/dispatch.py
    faster_on_gpu              the same for arrays where kernels run
    """

    def __init__(self, textbook: Callable[..., Pair], *, integers: tuple[str, ...], selective: bool):
        self.textbook = textbook
        self.faster: list[tuple[Callable[..., bool], Callable[..., Pair]]] = []
        self.faster_on_gpu: list[tuple[Callable[..., bool], Callable[..., Pair]]] = []
        self.name = textbook.__name__
        self.selective = selective
        self._integers = integers
        kinds = inspect.Parameter
        parameters = inspect.signature(textbook).parameters.values()
        self._names = [p.name for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        for p in parameters:
            array = p.default is p.empty or p.default is None  # None where it may be left out
            if p.kind is kinds.POSITIONAL_OR_KEYWORD and not array:
                raise TypeError(
                    f"{self.name}: {p.name}={p.default!r} is an option, not an array, and options are keyword-only: "
                    f"put * before it, def {self.name}(..., *, {p.name}={p.default!r})"
                )
        self._optional = {p.name for p in parameters if p.default is None}
        self._any_number = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
        self.__qualname__: str
        update_wrapper(self, textbook)
        if str(textbook.__module__).startswith("minicnn."):  # an op of one's own may be called `multiply`
            OPS[self.name] = self

    def pair(self, *args: Array, **static: Any) -> Pair:
        return self._pair(self._positional(args, static), static)

    def _pair(self, args: tuple[Array, ...], static: dict[str, Any]) -> Pair:
        """`pair`, of all array arguments in order."""
        arrays = self._checked(args)
        if not arrays:
            return self.textbook(**static)
        where = device_of(arrays[0])
        with where.active():
            chosen, versions = self.textbook, self.faster if where.cuda is None else self.faster_on_gpu
            if versions and fast_versions():
                chosen = next((fast for fits, fast in versions if fits(*arrays, **static)), chosen)
            y, vjp = self._two(within_memory(where, self.name, chosen, *arrays, **static))
        if y.dtype != arrays[0].dtype:
            raise TypeError(
                f"{self.name}: the result has dtype {y.dtype}, the input {arrays[0].dtype}; give options as Python "
                "numbers, and arrays among them in the dtype of the input"
            )
        if (watch := watcher.get()) is not None:
            watch(self, arrays, y)
        return scalar_as_array(y), vjp

    def _two(self, result: Any) -> Pair:
        """(y, vjp).  Asked for explicitly: an array of two rows would fall apart into them, and y be the first."""
        if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
            raise TypeError(
                f"{self.name}: an op returns (y, vjp), where vjp(g) gives one gradient (or None) per array; "
                f"this one returns {type(result).__name__}"
            )
        return result

    def __call__(self, *args: Any, **static: Any) -> Any:
        args = self._positional(args, static)
        arrays = tuple([a.data if isinstance(a, Tensor) else a for a in args])
        y, vjp = self._pair(arrays, static)
        if all(map(is_, args, arrays)):  # no Tensor among them
            return y
        out = Tensor(y)
        tape = _recording.get()
        if tape is not None and any(map(is_tracked, args)):
            tape.record(self, out, args, vjp)
        return out

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> str:
        """Pickled by name, like a function; for copy and deepcopy this means: the op itself.

        Analyses, exports and fast versions know an op by its identity.
        """
        return self.__qualname__

    def _positional(self, args: tuple[Any, ...], static: dict[str, Any]) -> tuple[Any, ...]:
        """All array arguments in order: those given by keyword leave `static`, and an absent bias is None."""
        if self._any_number and args and isinstance(args[0], list | tuple):
            raise TypeError(
                f"{self.name}: takes arrays one by one, {self.name}(a, b), not in a {type(args[0]).__name__}"
            )
        if len(args) > len(self._names) and not self._any_number:
            raise TypeError(
                f"{self.name}: takes {len(self._names)} arrays, got {len(args)}; other options are keywords"
            )
        for name in self._names[len(args) :]:
            if name not in static and name not in self._optional:
                raise TypeError(f"{self.name}: the argument {name} is missing")
            args = (*args, static.pop(name, None))
        return args

    def _alike(self, arrays: tuple[Any, ...]) -> bool:
        """Whether there is nothing to check: arrays of one type, dtype and device, some that are optional left out."""
        if not arrays or not is_known_array(arrays[0]) or arrays[0].dtype not in _FLOATS or self._integers:
            return False
        first = arrays[0]
        kind, dtype, where = type(first), first.dtype, device_of(first)
        for i in range(1, len(arrays)):
            array = arrays[i]
            if array is None:
                if i >= len(self._names) or self._names[i] not in self._optional:
                    return False
            elif type(array) is not kind or array.dtype != dtype or device_of(array) is not where:
                return False
        return True

    def _checked(self, arrays: tuple[Any, ...]) -> tuple[Array, ...]:
        """One device, one dtype, float32 or float64: what every op may rely on."""
        if self._alike(arrays):
            return arrays
        checked, floats = [], {}
        for i, array in enumerate(arrays):
            name = self._names[i] if i < len(self._names) else f"argument {i}"
            if array is not None or name not in self._optional:
                array = as_array(self.name, name, array, "int64" if name in self._integers else "float32")
                if name not in self._integers:
                    floats[name] = array
            checked.append(array)
        for name, array in floats.items():
            check_float(self.name, name, array)
        if len({array.dtype for array in floats.values()}) > 1:
            found = ", ".join(f"{name} {array.dtype}" for name, array in floats.items())
            raise TypeError(f"{self.name}: arguments of different dtypes: {found}; convert one: x.astype(dtype)")
        if len({device_of(array).name for array in floats.values()}) > 1:
            found = ", ".join(f"{name} {device_of(array).name}" for name, array in floats.items())
            remedy = "minicnn.to_device(x, device) or model.to(device)"
            raise TypeError(f"{self.name}: arguments of different devices: {found}; convert one: {remedy}")
        return tuple(checked)


def check_float(where: str, name: str, array: Array) -> None:
    if array.dtype not in _FLOATS:
        raise TypeError(
            f"{where}: {name} has dtype {array.dtype}; only float32 and float64 are computed with: "
            f"use {name}.astype('float32')"
        )


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
