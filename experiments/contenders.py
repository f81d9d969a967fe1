"""What experiments.bench compares: layers and networks, in minicnn and in PyTorch, on the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from experiments.twin import torch_twin
from minicnn import models, nn
from minicnn import ops as our_ops
from minicnn.autodiff import Op, Tape
from minicnn.backend import CPU
from minicnn.optim import SGD
from minicnn.parallel import threads, use_threads
from minicnn.random import Stream

Call = Callable[[], object]
MODELS: dict[str, Callable[[], nn.Sequential]] = {
    "convpool": lambda: models.convpool("relu"),
    "convpool-double": lambda: models.convpool("relu", "double"),
    "crelu": lambda: models.convpool("crelu"),
    "crelu-half": lambda: models.convpool("crelu", "half"),
    "vgg": lambda: models.vgg("relu", ()),
    "vgg-crelu": lambda: models.vgg("crelu", (1, 3, 5)),
}
HYPER: dict[str, Any] = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}


def sides() -> list[str]:
    return ["ours", "torch"] if find_spec("torch") else ["ours"]


@cache
def torch_version() -> str:
    if "torch" not in sides():
        return "PyTorch is not installed"
    import torch

    torch.set_num_threads(threads())
    return f"PyTorch {torch.__version__} with {torch.get_num_threads()} threads"


def _largest_error(values: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """The largest over the arrays of max |value - exact| / max |exact|."""
    return max(float(np.abs(v - e).max() / np.abs(e).max()) for v, e in zip(values, exact, strict=True))


def _nchw(array: np.ndarray, channels_last: bool) -> Any:
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last else tensor


# --- single layers ---


@dataclass(frozen=True)
class OpCase:
    """An op on arrays, the first of them images; `theirs` gets NCHW images and OIHW filters."""

    name: str
    op: Op
    theirs: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    multiply_adds: int = 0  # forward
    training: bool = True

    @property
    def flops(self) -> int:
        """Of a direct algorithm: forward, and twice that for the two gradients."""
        return 6 * self.multiply_adds

    def gradient(self) -> np.ndarray:
        y = self.op.pair(*self.arrays, **self.options)[0]
        return np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)

    def calls(self, *, compiled: bool) -> dict[str, Call]:
        g = self.gradient()

        def ours() -> object:
            with CPU.active():
                return self.op.pair(*self.arrays, **self.options)[1](g)

        calls: dict[str, Call] = {"ours": ours}
        if "torch" in sides():
            for channels_last in (False, True):
                kind = "channels last" if channels_last else "contiguous"
                calls[f"eager, {kind}"] = lambda c=channels_last: self._theirs(g, c)  # type: ignore[misc]
        return calls

    def _theirs(self, g: np.ndarray, channels_last: bool) -> list[Any]:
        import torch

        inputs, gradient = self._inputs(channels_last)
        y = self.theirs(*inputs)
        return list(torch.autograd.grad(y, inputs, gradient))

    @cache  # noqa: B019  (a case lives as long as its measurement)
    def _inputs(self, channels_last: bool) -> tuple[list[Any], Any]:
        import torch

        x, *parameters = self.arrays
        g = self.gradient()
        inputs = [_nchw(x, channels_last)]
        for p in parameters:
            inputs.append(_nchw(p.transpose(3, 0, 1, 2), channels_last) if p.ndim == 4 else torch.from_numpy(p.copy()))
        return [i.requires_grad_() for i in inputs], _nchw(g, channels_last)

    def __hash__(self) -> int:
        return hash(self.name)

    def errors(self) -> tuple[float, float | None]:
        """Ours and PyTorch's: y and all gradients against the textbook in float64."""
        g = self.gradient()
        exact = self._values(self.op.textbook, np.float64, g)
        ours = _largest_error(self._values(self.op.pair, np.float32, g), exact)
        if "torch" not in sides():
            return ours, None
        inputs, _ = self._inputs(False)
        y = self.theirs(*inputs).detach().numpy().transpose(0, 2, 3, 1)
        gx, *others = (a.numpy() for a in self._theirs(g, False))
        theirs = [y, gx.transpose(0, 2, 3, 1), *(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for a in others)]
        return ours, _largest_error(theirs, exact)

    def _values(self, version: Callable[..., Any], dtype: type, g: np.ndarray) -> list[np.ndarray]:
        y, vjp = version(*(a.astype(dtype) for a in self.arrays), **self.options)
        return [y, *vjp(g.astype(dtype))]


def op_cases(batch: int) -> Iterator[OpCase]:
    """The layers of the CIFAR networks."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def conv2d(pad: int) -> Callable[..., Any]:
        def call(x: Any, w: Any, b: Any) -> Any:
            import torch

            return torch.nn.functional.conv2d(x, w, b, padding=pad)

        return call

    for k, size, c, f in CONVOLUTIONS:
        pad, shape = k // 2, (k, k, c, f)
        arrays = (normal(batch, size, size, c), normal(*shape) / np.float32(np.sqrt(k * k * c)), normal(f))
        work = batch * size * size * k * k * c * f
        yield OpCase(f"conv {k}x{k} {c}-{f} at {size}x{size}", our_ops.conv2d, conv2d(pad), arrays, {"pad": pad}, work)

    def theirs(name: str) -> Callable[..., Any]:
        def call(x: Any, *parameters: Any) -> Any:
            import torch
            from torch.nn import functional

            return {
                "relu": lambda: torch.relu(x),
                "crelu": lambda: torch.cat((torch.relu(x), torch.relu(-x)), 1),
                "max pool 3x3/2": lambda: functional.max_pool2d(x, 3, 2, ceil_mode=True),
                "max pool 2x2": lambda: functional.max_pool2d(x, 2, 2),
                "batch norm": lambda: functional.batch_norm(x, None, None, parameters[0], parameters[1], True),
            }[name]()

        return call

    layers: list[tuple[str, Op, dict[str, Any]]] = [
        ("relu", our_ops.relu, {}),
        ("crelu", our_ops.crelu, {}),
        ("max pool 3x3/2", our_ops.max_pool2d, {"k": 3, "stride": 2, "ceil": True}),
        ("max pool 2x2", our_ops.max_pool2d, {"k": 2}),
        ("batch norm", our_ops.batch_norm, {}),
    ]
    for name, op, options in layers:
        parameters = (1 + normal(96) / 4, normal(96)) if op is our_ops.batch_norm else ()
        yield OpCase(f"{name} 96 at 32x32", op, theirs(name), (normal(batch, 32, 32, 96), *parameters), options)


CONVOLUTIONS = (  # kernel, size, channels, filters
    (3, 32, 3, 96),
    (3, 32, 96, 96),
    (3, 16, 96, 192),
    (3, 16, 192, 192),
    (3, 8, 192, 192),
    (1, 10, 192, 192),
    (3, 32, 96, 48),
    (3, 32, 24, 24),
    (3, 16, 48, 48),
    (3, 32, 64, 64),
    (3, 8, 256, 256),
    (3, 4, 512, 512),
    (3, 2, 512, 512),
)


# --- whole networks ---


class ModelCase:
    """A network with a batch of noise: a training step (loss, gradients, SGD with momentum), or the logits alone."""

    def __init__(self, name: str, batch: int, *, training: bool):
        self.name, self.training = name, training
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((batch, 32, 32, 3)).astype(np.float32)
        self.labels = rng.integers(0, 10, batch)
        work = nn.describe(MODELS[name](), (32, 32, 3)).multiply_adds * batch
        self.flops = (6 if training else 2) * work

    def calls(self, *, compiled: bool) -> dict[str, Call]:
        calls = {"ours": self.ours()}
        if "torch" in sides():
            for c in (False, True) if compiled else (False,):
                for last in (False, True):
                    name = f"{'compiled' if c else 'eager'}, {'channels last' if last else 'contiguous'}"
                    calls[name] = self.torch(compiled=c, channels_last=last)
        return calls

    def ours(self) -> Call:
        model = MODELS[self.name]()
        if not self.training:
            return lambda: model(self.x)
        optimiser = SGD(model.parameters(), 1e-3, **HYPER)

        def step() -> None:
            with Tape() as tape:
                logits = model(self.x, train=True, stream=Stream(0).at(optimiser.steps))
                loss = our_ops.softmax_cross_entropy(logits, self.labels)
            tape.backward(loss)
            optimiser.step()
            optimiser.zero_grad()

        return step

    def torch(self, *, compiled: bool, channels_last: bool) -> Call:
        import torch

        torch_version()  # sets the threads
        model = torch_twin(MODELS[self.name]()).train(self.training)
        x, labels = _nchw(self.x, channels_last), torch.from_numpy(self.labels)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        optimiser = torch.optim.SGD(model.parameters(), 1e-3, **HYPER)
        if compiled:
            model = torch.compile(model)
        if not self.training:

            def infer() -> None:
                with torch.inference_mode():
                    model(x)

            return infer

        def step() -> None:
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

        return step

    def errors(self) -> tuple[float, float | None]:
        """Ours and PyTorch's: the logits of 8 images (in evaluation mode) against float64 textbook ops."""
        x = self.x[:8]
        model = MODELS[self.name]()
        ours = model(x).data
        with _variable("MINICNN_FAST", "0"):
            exact = MODELS[self.name]().to(dtype="float64")(x.astype(np.float64)).data
        theirs = None
        if "torch" in sides():
            import torch

            with torch.inference_mode():
                theirs = _largest_error([torch_twin(model).eval()(_nchw(x, False)).numpy()], [exact])
        return _largest_error([ours], [exact]), theirs


# --- ourselves ---


def thread_counts() -> list[int]:
    return sorted({1, 2, 4, threads()} & set(range(1, threads() + 1)))


def scaling_call(model: str, *, batch: int, threads: int | None = None) -> Call:
    """A training step with so many threads."""
    step = ModelCase(model, batch, training=True).ours()
    if threads is None:
        return step

    def call() -> None:
        with use_threads(threads):
            step()

    return call


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Within, an environment variable has this value."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
