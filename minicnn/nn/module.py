"""Module: a named tree of parameters.  Sequential: layers one after the other.

A layer owns parameters, never mathematics: its `forward` calls ops.  There is no global training mode and no global
random generator: `train` and `stream` are arguments.

    model = Sequential(Conv2d(3, 8, 3, pad=1), CReLU(), GlobalAvgPool(), Linear(16, 10)).initialise(seed=0)
    y = model(x)                                                      # evaluation
    y = model(x, train=True, stream=Stream(seed).child("dropout").at(step))

`train` is False in evaluation, and in training True or a Part (Train, below).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import NoneType
from typing import Any, Self, SupportsIndex

import numpy as np

from minicnn.autodiff import Buffer, Parameter, Tensor, around_derivatives
from minicnn.backend import Array, Device, device, device_of, is_array, to_device, to_host
from minicnn.cluster import Part
from minicnn.cuda import NVTX, Cuda
from minicnn.nn.init import Scheme
from minicnn.nn.state import check_state
from minicnn.parallel import memory_for
from minicnn.random import Stream

# False in evaluation.  In training True, or, where a batch is spread over many processes (minicnn/cluster.py), the Part
# of it that x is; a Part is true, even one without samples.  Most layers ask only whether it is true, or hand it on;
# BatchNorm alone looks into the Part, for the moments of the whole batch.  Hence one argument and not two: the second
# would stand in the signature of every layer for the sake of this one.
Train = bool | Part

# If set, watcher(module, forward) is called instead of forward() when a module computes (nn/summary.py).  A Sequential
# then calls its layers one by one.
watcher: ContextVar[Callable[[Module, Callable[[], Any]], Any] | None] = ContextVar("who watches", default=None)


class Module:
    """Something with parameters (Parameter), state (Buffer) and child modules.

    All are found as its attributes, and in lists, tuples and dicts that are attributes, however deep.
    """

    schemes: Mapping[str, Scheme] = {}  # how each parameter of this layer is initialised

    def __setattr__(self, name: str, value: Any) -> None:
        """An attribute as any other; but a parameter is not lost by an assignment that was to change its values."""
        old = vars(self).get(name)
        if isinstance(old, (Parameter, Buffer)) and not isinstance(value, (Parameter, Buffer, NoneType)):
            kind, given = type(old).__name__, type(value).__name__
            raise TypeError(
                f"{type(self).__name__}: {name} is a {kind}, and a {given} cannot take its place; "
                f"assign to .{name}.data to change its values, or give another {kind}"
            )
        super().__setattr__(name, value)

    def __call__(self, x: Array | Tensor, *, train: Train = False, stream: Stream | None = None) -> Tensor:
        """The output for a batch x.  `train` turns on dropout and batch statistics; dropout draws from `stream`.

        If x is this rank's part of a larger batch, `train` is that Part instead of True.
        """
        watch = watcher.get()
        y = self.forward(x, train, stream) if watch is None else watch(self, lambda: self.forward(x, train, stream))
        if isinstance(y, Tensor):
            return y
        if not is_array(y):
            raise TypeError(
                f"{type(self).__name__}: its forward must return one Tensor or array, it returned a {type(y).__name__}"
            )
        return Tensor(y)

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor | Array:
        """What __call__ computes; x is a Tensor or an array.

        A module hands `train` on to its children as it is, and gives each a stream of its own: stream.child(name).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define forward(x, train, stream)")

    def with_next(self, following: Sequence[Module], train: Train) -> tuple[Callable[[Any], Tensor], int] | None:
        """What computes this layer and some of those that follow it in a Sequential at once, if something does.

        That is a function from the input to the output of the last of them, and the number of those that follow.
        """
        return None

    def _held(self) -> Iterator[tuple[str, Module | Parameter | Buffer]]:
        """What this module has itself, by the name of the attribute; "name.0", "name.key" in a list or dict."""
        for name, value in vars(self).items():
            yield from _found(name, value)

    def children(self) -> Iterator[tuple[str, Module]]:
        """The child modules, by the name of their attribute; "name.0", "name.key" in a list or dict of modules."""
        return ((name, value) for name, value in self._held() if isinstance(value, Module))

    def modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
        yield prefix, self
        for name, child in self.children():
            yield from child.modules(f"{prefix}.{name}" if prefix else name)

    def named_state(self) -> Iterator[tuple[str, Parameter | Buffer]]:
        """Every parameter and buffer with its path, such as "3.weight"."""
        paths = set()
        for path, module in self.modules():
            for name, value in module._held():
                if isinstance(value, (Parameter, Buffer)):
                    whole = f"{path}.{name}" if path else name
                    if whole in paths:  # a state has one place for each
                        raise ValueError(
                            f"{type(self).__name__}: two of its parameters or buffers would be called {whole}; "
                            "give layers, attributes and keys different names, without dots"
                        )
                    paths.add(whole)
                    yield whole, value

    def parameters(self) -> list[Parameter]:
        """Those that are learned, each once, however often it is used."""
        found = {id(p): p for _, p in self.named_state() if isinstance(p, Parameter) and p.requires_grad}
        return list(found.values())

    def freeze(self) -> Self:
        """Keep all parameters of this module as they are: they get no gradients; return the module itself."""
        for p in self.parameters():
            p.freeze()
        return self

    def zero_grad(self) -> None:
        for p in self.parameters():
            p.grad = None

    def to(self, target: str | Device | None = None, dtype: Any = None) -> Self:
        """Move all parameters and buffers to a device, or to another precision; return the module itself.

        All of them or, where there is no memory for all, none.
        """
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise TypeError(f"Module.to: dtype must be float32 or float64, got {dtype}")
        where = None if target is None else device(target)
        values = list({id(value): value for _, value in self.named_state()}.values())
        for value, moved in zip(values, [_moved(value.data, where, dtype) for value in values], strict=True):
            value.data = moved
        self.zero_grad()
        return self

    def initialise(self, seed: int) -> Self:
        """Draw all parameters anew, each from the stream of its own path; return the module itself."""
        for path, module in self.modules():
            module.draw(Stream(seed).child("init", *path.split(".")))
        return self

    def draw(self, stream: Stream) -> None:
        """Draw this layer's own parameters (not those of its children)."""
        for name, scheme in self.schemes.items():
            p = getattr(self, name)
            if p is not None:
                values = scheme(p.shape, stream.child(name).generator())
                p.data = put_like(values, p.data)
                p.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all parameters and buffers on the host, by path."""
        return {name: np.array(to_host(value.data)) for name, value in self.named_state()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over all values of `state`; if a name is missing, unexpected or misshapen, nothing changes.

        Matrices are (in, out) and filters (kh, kw, in, out).  PyTorch's are the other way round, which a square matrix
        does not show: one that comes from there is refused.
        """
        own = dict(self.named_state())
        check_state({name: tuple(value.data.shape) for name, value in own.items()}, state)
        taken = {name: put_like(state[name], value.data) for name, value in own.items()}
        for name, value in own.items():
            value.data = taken[name]

    def __repr__(self) -> str:
        """The tree of layers, one line each."""
        own = ((name, value) for name, value in self._held() if isinstance(value, Parameter))
        words = self.kernel() or ", ".join(f"{name} {'x'.join(map(str, value.shape))}" for name, value in own)
        lines = [f"  {name}: {child!r}".replace("\n", "\n  ") for name, child in self.children()]
        return (
            "\n".join([f"{type(self).__name__}({words}", *lines, ")"]) if lines else f"{type(self).__name__}({words})"
        )

    # For nn/summary.py

    def kernel(self) -> str:
        """What to print in the "kernel" column of a summary."""
        return ""


class Sequential(Module):
    """Layers one after the other.  Positional ones are called "0", "1", ...; keywords give a name.

    A derived class may have further modules as attributes: they come after the layers, and its `forward` calls them.
    """

    def __init__(self, *layers: Module, **named: Module):
        self.layers = {str(i): layer for i, layer in enumerate(layers)} | named
        if len(self.layers) != len(layers) + len(named):
            raise ValueError("Sequential: a keyword has the name of a positional layer")
        for name, layer in self.layers.items():
            if not isinstance(layer, Module):
                raise TypeError(f"Sequential: layer {name} must be a Module, got {type(layer).__name__}")
            if "." in name:  # which is what joins the names of a path
                raise ValueError(f"Sequential: a layer cannot be called {name!r}; take a name without dots")

    def _held(self) -> Iterator[tuple[str, Module | Parameter | Buffer]]:
        yield from self.layers.items()
        for name, value in vars(self).items():
            if name != "layers":
                yield from _found(name, value)

    def __getitem__(self, which: str | SupportsIndex) -> Module:
        """A layer by its name or its position: model["conv1"], model[0], model[-1]."""
        if isinstance(which, slice):
            raise TypeError("Sequential: one layer at a time; nn.Sequential(*list(model)[1:3]) is a network of some")
        if not isinstance(which, str):
            at = operator.index(which)
            if not -len(self) <= at < len(self):
                raise IndexError(f"Sequential: there is no layer {at}, there are {len(self)}")
            return list(self)[at]
        if which not in self.layers:
            raise KeyError(f"Sequential: there is no layer {which!r}, there are {', '.join(self.layers)}")
        return self.layers[which]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers.values())

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        values = x.data if isinstance(x, Tensor) else x
        with device_of(values).active() if is_array(values) else nullcontext():  # once, and not in each op anew
            names, layers, watched = list(self.layers), list(self.layers.values()), watcher.get() is not None
            cuda = device_of(values).cuda if NVTX and is_array(values) else None
            i = 0
            while i < len(layers):
                at_once = None if watched else layers[i].with_next(layers[i + 1 :], train)
                following = 0 if at_once is None else at_once[1]
                with _NO_RANGE if cuda is None else _range(cuda, names[i:], layers[i : i + following + 1]):
                    if at_once is None:
                        x = layers[i](x, train=train, stream=None if stream is None else stream.child(names[i]))
                    else:
                        x = at_once[0](x)
                i += 1 + following
        return x

    @property
    def _plain(self) -> bool:
        """Whether it calls its layers one after the other, as Sequential does."""
        return type(self).forward is Sequential.forward

    def trace(self, x: Array | Tensor) -> Iterator[tuple[str, Array]]:
        """(path, output array) of every layer in evaluation, in order, those of an inner Sequential included.

        A class derived from Sequential may use its layers in another way: of one among the layers only the output is
        given, and for itself it is refused.
        """
        if not self._plain:
            raise TypeError(
                f"{type(self).__name__}.trace: its own forward decides what its layers compute; trace a Sequential"
            )
        y: Any = x
        for name, layer in self.layers.items():
            if isinstance(layer, Sequential) and layer._plain:
                for path, inner in layer.trace(y):
                    yield f"{name}.{path}", inner
                    y = inner
            else:
                y = layer(y).data
                yield name, y


class Residual(Module):
    """A skip connection: y = body(x) + x, or body(x) + shortcut(x) where the shapes differ."""

    def __init__(self, body: Module, shortcut: Module | None = None):
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Tensor:
        past = x
        if self.shortcut is not None:
            past = self.shortcut(x, train=train, stream=None if stream is None else stream.child("shortcut"))
        y = self.body(x, train=train, stream=None if stream is None else stream.child("body"))
        if y.shape != past.shape:
            remedy = "give a shortcut that changes x alike, such as Conv2d(c_in, c_out, 1, stride=2)"
            raise ValueError(f"Residual: the body makes {y.shape} of x {x.shape}, beside it is {past.shape}; {remedy}")
        return y + past


def _found(name: str, value: Any) -> Iterator[tuple[str, Module | Parameter | Buffer]]:
    """What an attribute holds: itself, or what is in a list, tuple or dict, and in those within it."""
    if isinstance(value, (Module, Parameter, Buffer)):
        yield name, value
    elif isinstance(value, (list, tuple, dict)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _found(f"{name}.{key}", inner)


_NO_RANGE = nullcontext()


@contextmanager
def _range(cuda: Cuda, names: Sequence[str], layers: Sequence[Module]) -> Iterator[None]:
    """What these layers start is called "conv1 Conv2d, act1 CReLU" in profilers, their derivatives also "backward"."""
    name = ", ".join(f"{name} {type(layer).__name__}" for name, layer in zip(names, layers, strict=False))
    with cuda.range(name), around_derivatives(cuda.range(f"{name}, backward")):
        yield


def put_like(values: np.ndarray, like: Array) -> Array:
    """A copy of a host array, with the dtype and on the device of `like`."""
    where = device_of(like)
    with memory_for(where, "the network"):
        return where.put(np.array(values, dtype=like.dtype))


def _moved(x: Array, where: Device | None, dtype: Any) -> Array:
    """x in another precision, on another device; None leaves either as it is."""
    if dtype is not None:
        source = device_of(x)
        with source.active(), memory_for(source, "the network"):
            x = x.astype(dtype)
    if where is None:
        return x
    with memory_for(where, "the network"):
        return to_device(x, where)
