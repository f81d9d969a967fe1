"""A network layer by layer, with the shapes that enter each: what every translation starts from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn import nn
from minicnn.backend import Array, device_of
from minicnn.ops.pool import pool_windows
from minicnn.ops.windows import Windows

BEHIND_FLATTEN = "behind a Flatten of several pixels there must be a Linear"


class Step(NamedTuple):
    """A layer, its path in the network, and what enters it.

    shape     of one sample: (H, W, C), or (features,)
    order     behind a Flatten: their feature i is our feature order[i]; None if both have the same order
    inputs    the steps whose outputs enter, by name; "" is the input of the network

    Flatten lists the numbers of an image as (H, W, C) here and as (C, H, W) elsewhere.  One output enters a layer, two
    enter a Residual, which adds them: the step behind its body and the one behind its shortcut.
    """

    name: str
    layer: nn.Module
    shape: tuple[int, ...]
    order: np.ndarray | None
    inputs: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Those of a Lambda, such as an activation or a pool."""
        return self.layer.options if isinstance(self.layer, nn.Lambda) else {}


class Value(NamedTuple):
    """What a step gives: an array for one sample, the order of its features as in Step, and the step's name."""

    array: Array
    order: np.ndarray | None
    step: str


def steps(model: nn.Sequential, input_shape: Sequence[int]) -> list[Step]:
    """The layers of a network in the order of computation, for images of shape (H, W, C).

    Those within a Sequential or a Residual are listed one by one; a Residual comes behind its own, as the sum of two.
    """
    if not is_a(model, nn.Sequential):
        raise TypeError(
            f"networks for other programs are nn.Sequential, of the layers of minicnn.nn; got {_kind(model)}"
        )
    found: list[Step] = []

    def walk(name: str, module: nn.Module, x: Value) -> Value:
        if is_a(module, nn.Sequential):
            assert isinstance(module, nn.Sequential)
            for child, layer in module.layers.items():
                x = walk(f"{name}.{child}" if name else child, layer, x)
            return x
        entering = [x]
        if is_a(module, nn.Residual):
            assert isinstance(module, nn.Residual)
            y = walk(f"{name}.body", module.body, x)
            entering = [y, x if module.shortcut is None else walk(f"{name}.shortcut", module.shortcut, x)]
        output = module(x.array).data
        first, last = entering[0], entering[-1]
        if not _same(first.order, last.order):
            raise ValueError(f"{name}: what the Residual adds would be in two orders elsewhere; {BEHIND_FLATTEN}")
        found.append(Step(name, module, first.array.shape[1:], first.order, tuple(value.step for value in entering)))
        return Value(output, _order_behind(found[-1], output.shape[1:]), name)

    like = next((value.data for _, value in model.named_state()), np.zeros(1, np.float32))
    last = walk("", model, Value(device_of(like).put(np.zeros((1, *input_shape), like.dtype)), None, ""))
    if last.order is not None:
        raise ValueError(f"the outputs of {last.step} would be in another order elsewhere: {BEHIND_FLATTEN}")
    return found


def _same(order: np.ndarray | None, other: np.ndarray | None) -> bool:
    return order is other or (order is not None and other is not None and np.array_equal(order, other))


def _order_behind(step: Step, output: tuple[int, ...]) -> np.ndarray | None:
    if len(step.shape) == 3 and len(output) == 1 and math.prod(step.shape) == output[0]:  # a Flatten
        h, w, c = step.shape
        return None if h * w == 1 else np.arange(h * w * c).reshape(h, w, c).transpose(2, 0, 1).ravel()
    if step.order is None or isinstance(step.layer, nn.Linear):
        return None
    return (
        np.concatenate([step.order, step.order + len(step.order)]) if output[0] == 2 * len(step.order) else step.order
    )


def channels_first(shape: Sequence[int]) -> tuple[int, ...]:
    """(C, H, W) for (H, W, C); the shape of plain features as it is."""
    return (*shape[-1:], *shape[:-1])


def is_a(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer computes what this kind does; a class derived from it may compute something else."""
    return isinstance(layer, kind) and type(layer).forward is kind.forward


def untranslatable(step: Step, target: str) -> TypeError:
    what = _kind(step.layer)
    if isinstance(step.layer, nn.Lambda):
        what += f" of {getattr(step.layer.function, 'name', step.layer.function)} {step.layer.kernel()}".rstrip()
    return TypeError(f"{step.name} ({what}) has no translation to {target}; minicnn/exchange knows those of minicnn.nn")


def _kind(module: Any) -> str:
    return type(module).__name__


class Pool(NamedTuple):
    """The windows of a pool, with all padding explicit: no rounding up, and no rules about it, are left.

    given     ((top, bottom), (left, right)) as the layer has it
    around    the padding that lets exactly our windows fit; more than given in ceil mode, or less if it is not seen
    """

    windows: Windows

    @staticmethod
    def of(step: Step) -> Pool:
        options = {name: value for name, value in step.options.items() if name != "count_include_pad"}
        x = np.broadcast_to(np.float32(0), (1, *step.shape))
        return Pool(pool_windows(step.name, x, **{"stride": None, "pad": 0, "ceil": False} | options))

    @property
    def given(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return self.windows.pad

    @property
    def around(self) -> tuple[tuple[int, int], tuple[int, int]]:
        w = self.windows
        rows, columns = (
            (before, max(0, (out - 1) * stride + k - before - size))
            for size, k, stride, (before, _), out in zip(w.size, w.k, w.stride, w.pad, w.out, strict=True)
        )
        return rows, columns
