"""The layers that experiments.bench compares: those of the CIFAR networks, on noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from minicnn import ops
from minicnn.autodiff import Op, Pair

IMAGES, FILTERS = (0, 3, 1, 2), (3, 2, 0, 1)  # our axes (NHWC, HWIO) in the order of other frameworks (NCHW, OIHW)
# fmt: off
CONVOLUTIONS = (  # kernel, size, channels, filters
    (3, 32, 3, 96), (3, 32, 96, 96), (3, 16, 96, 192), (3, 16, 192, 192), (3, 8, 192, 192), (1, 10, 192, 192),
    (3, 32, 96, 48), (3, 32, 24, 24), (3, 16, 48, 48),
    (3, 32, 64, 64), (3, 8, 256, 256), (3, 4, 512, 512), (3, 2, 512, 512),
)
# fmt: on
OTHERS: tuple[tuple[str, Op, dict[str, Any]], ...] = (
    ("relu", ops.relu, {}),
    ("crelu", ops.crelu, {}),
    ("max pool 3x3/2", ops.max_pool2d, {"k": 3, "stride": 2, "ceil": True}),
    ("max pool 2x2", ops.max_pool2d, {"k": 2}),
    ("batch norm", ops.batch_norm, {}),
)


@dataclass(frozen=True)
class LayerCase:
    """An op on arrays, the first of which are images; a contender computes its output and all gradients."""

    name: str
    op: Op
    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    multiply_adds: int = 0  # forward
    kind = "layer"

    @property
    def flops(self) -> int:
        """Those of a direct algorithm: forward, and twice as many for the two gradients."""
        return 6 * self.multiply_adds

    @cached_property
    def gradient(self) -> np.ndarray:
        """That of the output, which backward starts from."""
        y, _ = self.op.pair(*self.arrays, **self.options)
        return np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)

    def exact(self) -> list[np.ndarray]:
        """The output and the gradients, by the textbook in float64."""
        return self.values(self.op.textbook, np.float64)

    def values(self, version: Callable[..., Pair], dtype: type = np.float32) -> list[np.ndarray]:
        y, vjp = version(*(a.astype(dtype, copy=False) for a in self.arrays), **self.options)
        return [y, *vjp(self.gradient.astype(dtype, copy=False))]


def layer_cases(batch: int) -> Iterator[LayerCase]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    for k, size, c, f in CONVOLUTIONS:
        x, w, b = normal(batch, size, size, c), normal(k, k, c, f) / np.float32(np.sqrt(k * k * c)), normal(f)
        work = batch * size * size * k * k * c * f
        yield LayerCase(f"conv {k}x{k} {c}-{f} at {size}x{size}", ops.conv2d, (x, w, b), {"pad": k // 2}, work)
    for name, op, options in OTHERS:
        parameters = (1 + normal(96) / 4, normal(96)) if op is ops.batch_norm else ()
        yield LayerCase(f"{name} 96 at 32x32", op, (normal(batch, 32, 32, 96), *parameters), options)
