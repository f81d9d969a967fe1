"""Single layers that experiments.bench compares, in minicnn and in PyTorch, on the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments.benchmarks.networks import Call, largest_error, nchw, sides
from minicnn import ops
from minicnn.autodiff import Op
from minicnn.backend import CPU

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

# name, op, its options, the same in PyTorch: a function of the module and its tensors
LAYERS: tuple[tuple[str, Op, dict[str, Any], Callable[..., Any]], ...] = (
    ("relu", ops.relu, {}, lambda torch, x: torch.relu(x)),
    ("crelu", ops.crelu, {}, lambda torch, x: torch.cat((torch.relu(x), torch.relu(-x)), 1)),
    (
        "max pool 3x3/2",
        ops.max_pool2d,
        {"k": 3, "stride": 2, "ceil": True},
        lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2, ceil_mode=True),
    ),
    ("max pool 2x2", ops.max_pool2d, {"k": 2}, lambda torch, x: torch.nn.functional.max_pool2d(x, 2, 2)),
    (
        "batch norm",
        ops.batch_norm,
        {},
        lambda torch, x, gamma, beta: torch.nn.functional.batch_norm(x, None, None, gamma, beta, True),
    ),
)


@dataclass(frozen=True)
class OpCase:
    """An op on arrays, the first of them images; `theirs` gets the module torch, NCHW images and OIHW filters."""

    name: str
    op: Op
    theirs: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    multiply_adds: int = 0  # forward

    @property
    def flops(self) -> int:
        """Of a direct algorithm: forward, and twice that for the two gradients."""
        return 6 * self.multiply_adds

    def gradient(self) -> np.ndarray:
        y = self.op.pair(*self.arrays, **self.options)[0]
        return np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)

    def calls(self) -> dict[str, Call]:
        g = self.gradient()

        def ours() -> object:
            with CPU.active():
                return self.op.pair(*self.arrays, **self.options)[1](g)

        calls: dict[str, Call] = {"ours": ours}
        if "torch" in sides():
            for channels_last in (False, True):
                kind = "channels last" if channels_last else "contiguous"
                calls[f"eager, {kind}"] = partial(self._theirs, *self._inputs(g, channels_last))
        return calls

    def _theirs(self, inputs: list[Any], gradient: Any) -> list[Any]:
        import torch

        return list(torch.autograd.grad(self.theirs(torch, *inputs), inputs, gradient))

    def _inputs(self, g: np.ndarray, channels_last: bool) -> tuple[list[Any], Any]:
        """The arrays and the gradient as PyTorch has them."""
        import torch

        x, *parameters = self.arrays
        inputs = [nchw(x, channels_last)]
        for p in parameters:
            inputs.append(nchw(p.transpose(3, 0, 1, 2), channels_last) if p.ndim == 4 else torch.from_numpy(p.copy()))
        return [i.requires_grad_() for i in inputs], nchw(g, channels_last)

    def errors(self) -> tuple[float, float | None]:
        """Ours and PyTorch's: y and all gradients against the textbook in float64."""
        g = self.gradient()
        exact = self._values(self.op.textbook, np.float64, g)
        ours = largest_error(self._values(self.op.pair, np.float32, g), exact)
        if "torch" not in sides():
            return ours, None
        import torch

        inputs, gradient = self._inputs(g, False)
        y = self.theirs(torch, *inputs).detach().numpy().transpose(0, 2, 3, 1)
        gx, *others = (a.numpy() for a in self._theirs(inputs, gradient))
        theirs = [y, gx.transpose(0, 2, 3, 1), *(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for a in others)]
        return ours, largest_error(theirs, exact)

    def _values(self, version: Callable[..., Any], dtype: type, g: np.ndarray) -> list[np.ndarray]:
        y, vjp = version(*(a.astype(dtype) for a in self.arrays), **self.options)
        return [y, *vjp(g.astype(dtype))]


def op_cases(batch: int) -> Iterator[OpCase]:
    """The layers of the CIFAR networks, on noise."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    for k, size, c, f in CONVOLUTIONS:
        pad, shape = k // 2, (k, k, c, f)
        arrays = (normal(batch, size, size, c), normal(*shape) / np.float32(np.sqrt(k * k * c)), normal(f))
        work = batch * size * size * k * k * c * f
        name = f"conv {k}x{k} {c}-{f} at {size}x{size}"
        yield OpCase(name, ops.conv2d, partial(_their_conv2d, pad), arrays, {"pad": pad}, work)
    for name, op, options, theirs in LAYERS:
        parameters = (1 + normal(96) / 4, normal(96)) if op is ops.batch_norm else ()
        yield OpCase(f"{name} 96 at 32x32", op, theirs, (normal(batch, 32, 32, 96), *parameters), options)


def _their_conv2d(pad: int, torch: Any, x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.conv2d(x, w, b, padding=pad)
