"""Networks that experiments.bench compares, in minicnn and in PyTorch, on the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from experiments.benchmarks.torch_twin import torch_twin
from minicnn import models, nn, ops
from minicnn.autodiff import Tape
from minicnn.optim import SGD
from minicnn.parallel import threads, use_threads
from minicnn.random import Stream

Call = Callable[[], object]


@dataclass(frozen=True)
class Network:
    """A network, the side of the images it takes, how many classes it tells apart and the size of a batch."""

    build: Callable[[], nn.Sequential]
    side: int = 32
    classes: int = 10
    batch: int = 128


MODELS: dict[str, Network] = {
    "convpool": Network(lambda: models.convpool("relu")),
    "convpool-double": Network(lambda: models.convpool("relu", "double")),
    "crelu": Network(lambda: models.convpool("crelu")),
    "crelu-half": Network(lambda: models.convpool("crelu", "half")),
    "vgg": Network(lambda: models.vgg("relu", ())),
    "vgg-crelu": Network(lambda: models.vgg("crelu", (1, 3, 5))),
    "allcnn": Network(lambda: models.allcnn_b(), side=224, classes=1000, batch=16),
    "allcnn-crelu": Network(lambda: models.allcnn_b("crelu-conv1-4"), side=224, classes=1000, batch=16),
}
LARGEST_BATCH = 2**16  # what does not fit into memory below it says so; above it NumPy speaks of dimensions
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


def largest_error(values: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """The largest over the arrays of max |value - exact| / max |exact|."""
    return max(float(np.abs(v - e).max() / np.abs(e).max()) for v, e in zip(values, exact, strict=True))


def nchw(array: np.ndarray, channels_last: bool) -> Any:
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last else tensor


# --- whole networks ---


class ModelCase:
    """A network with a batch of noise: a training step (loss, gradients, SGD with momentum), or the logits alone."""

    def __init__(self, name: str, batch: int | None = None, *, training: bool):
        self.network, self.training = MODELS[name], training
        self.batch = self.network.batch if batch is None else batch
        shape, rng = (self.network.side, self.network.side, 3), np.random.default_rng(0)
        self.x = rng.standard_normal((self.batch, *shape)).astype(np.float32)
        self.labels = rng.integers(0, self.network.classes, self.batch)
        work = nn.describe(self.network.build(), shape).multiply_adds * self.batch
        self.flops = (6 if training else 2) * work

    def calls(self, *, compiled: bool) -> dict[str, Call]:
        calls = {"ours": self.ours()}
        if "torch" in sides():
            _forget_compiled()
            for c in (False, True) if compiled else (False,):
                for last in (False, True):
                    name = f"{'compiled' if c else 'eager'}, {'channels last' if last else 'contiguous'}"
                    calls[name] = self.torch(compiled=c, channels_last=last)
        return calls

    def ours(self) -> Call:
        model = self.network.build()
        if not self.training:
            return lambda: model(self.x)
        optimiser = SGD(model.parameters(), 1e-3, **HYPER)

        def step() -> None:
            with Tape() as tape:
                logits = model(self.x, train=True, stream=Stream(0).at(optimiser.steps))
                loss = ops.softmax_cross_entropy(logits, self.labels)
            tape.backward(loss)
            optimiser.step()
            optimiser.zero_grad()

        return step

    def torch(self, *, compiled: bool, channels_last: bool) -> Call:
        import torch

        torch_version()  # sets the threads
        model = torch_twin(self.network.build()).train(self.training)
        x, labels = nchw(self.x, channels_last), torch.from_numpy(self.labels)
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
        """Ours and PyTorch's: the logits of at most 8 images (in evaluation mode) against float64 textbook ops."""
        x = self.x[:8]
        model = self.network.build()
        ours = model(x).data
        with _variable("MINICNN_FAST", "0"):
            exact = self.network.build().to(dtype="float64")(x.astype(np.float64)).data
        theirs = None
        if "torch" in sides():
            import torch

            with torch.inference_mode():
                theirs = largest_error([torch_twin(model).eval()(nchw(x, False)).numpy()], [exact])
        return largest_error([ours], [exact]), theirs


def _forget_compiled() -> None:
    """torch.compile gives up after eight versions of a function, whichever network they were for."""
    import torch

    torch.compiler.reset()


# --- ourselves ---


def thread_counts() -> list[int]:
    return sorted({1, 2, 4, threads()} & set(range(1, threads() + 1)))


def step_with(model: str, batch: int, *, threads: int | None = None) -> Call:
    """A training step on so many images, with so many threads (default: all)."""
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
