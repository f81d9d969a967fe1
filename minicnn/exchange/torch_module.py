"""A network as a torch.nn.Module with the same weights, under the same names.  This file needs torch.

    module = torch_module(model, (32, 32, 3))
    module(torch.from_numpy(x.transpose(0, 3, 1, 2)))        the outputs of model(x), for x (N, 32, 32, 3)

It can be trained, too: dropout, batch statistics and frozen layers are those of `model`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from minicnn import nn, ops
from minicnn.autodiff import Parameter
from minicnn.exchange.layout import COUNTER, entries, pytorch_state
from minicnn.exchange.walk import Pool, Step, is_a, steps, untranslatable
from minicnn.ops.pool import window_counts
from minicnn.ops.windows import as_pad, as_pair

F = torch.nn.functional
Padding = tuple[tuple[int, int], tuple[int, int]]


def torch_module(model: nn.Sequential, input_shape: Sequence[int]) -> Any:
    """A torch.nn.Sequential that computes what `model` does, for images of shape (H, W, C) given as (N, C, H, W)."""
    module = _module(model, "", {step.name: step for step in steps(model, input_shape)})
    state = {name: torch.from_numpy(array) for name, array in pytorch_state(model, input_shape).items()}
    module.to(next(iter(state.values())).dtype if state else torch.float32)
    counters = {name: value for name, value in module.state_dict().items() if name.endswith(COUNTER)}
    module.load_state_dict(state | counters)
    own = dict(model.named_state())
    for entry in entries(model, input_shape):
        if isinstance(parameter := own[entry.ours], Parameter):
            module.get_parameter(entry.theirs).requires_grad_(parameter.requires_grad)
    return module


def _module(module: nn.Module, path: str, found: Mapping[str, Step]) -> Any:
    if is_a(module, nn.Sequential):
        assert isinstance(module, nn.Sequential)
        below = f"{path}." if path else ""
        return torch.nn.Sequential(
            OrderedDict((name, _module(layer, below + name, found)) for name, layer in module.layers.items())
        )
    if is_a(module, nn.Residual):
        return _Residual(
            OrderedDict((name, _module(child, f"{path}.{name}", found)) for name, child in module.children())
        )
    return _layer(found[path])


def _layer(step: Step) -> Any:
    layer = step.layer
    if is_a(layer, nn.Conv2d):
        assert isinstance(layer, nn.Conv2d)
        (kh, kw, c, f), pad = layer.weight.shape, as_pad(step.name, layer.pad)
        options = {"stride": as_pair(step.name, "stride", layer.stride), "bias": layer.bias is not None}
        if _symmetric(pad):
            return torch.nn.Conv2d(c, f, (kh, kw), padding=(pad[0][0], pad[1][0]), **options)
        return _PaddedConv2d(_flat(pad), c, f, (kh, kw), **options)
    if is_a(layer, nn.Linear):
        assert isinstance(layer, nn.Linear)
        return torch.nn.Linear(*layer.weight.shape, bias=layer.bias is not None)
    if is_a(layer, nn.BatchNorm):
        assert isinstance(layer, nn.BatchNorm)
        kind = torch.nn.BatchNorm2d if len(step.shape) == 3 else torch.nn.BatchNorm1d
        return kind(layer.gamma.data.size, eps=layer.eps, momentum=layer.momentum)
    if is_a(layer, nn.Dropout):
        assert isinstance(layer, nn.Dropout)
        return torch.nn.Dropout(layer.rate)
    if is_a(layer, nn.Flatten):
        return torch.nn.Flatten()
    if is_a(layer, nn.Lambda):
        assert isinstance(layer, nn.Lambda)
        if layer.function in OPS and layer.options.get("axis", -1) == -1:
            return OPS[layer.function](step)
    raise untranslatable(step, "PyTorch")


class _Residual(torch.nn.ModuleDict):  # type: ignore[misc, unused-ignore]
    """body(x) + x, or body(x) + shortcut(x)."""

    def forward(self, x: Any) -> Any:
        return self["body"](x) + (self["shortcut"](x) if "shortcut" in self else x)


class _PaddedConv2d(torch.nn.Conv2d):  # type: ignore[misc, unused-ignore]
    """PyTorch's own has the same padding on opposite sides."""

    def __init__(self, around: tuple[int, int, int, int], *sizes: Any, **options: Any):
        super().__init__(*sizes, **options)
        self.around = around

    def forward(self, x: Any) -> Any:
        return super().forward(F.pad(x, self.around))


def _symmetric(pad: Padding) -> bool:
    return all(before == after for before, after in pad)


def _flat(pad: Padding) -> tuple[int, int, int, int]:
    """In the order of F.pad."""
    (top, bottom), (left, right) = pad
    return left, right, top, bottom


class Function(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A function without weights; `words` are what print(module) shows of it."""

    def __init__(self, words: str, function: Callable[[Any], Any]):
        super().__init__()
        self.words, self.function = words, function

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.words


def crelu(x: Any) -> Any:
    """[relu(x), relu(-x)] along the channels, axis 1."""
    return torch.cat((torch.relu(x), torch.relu(-x)), 1)


def _antirectifier(x: Any, eps: float = 1e-12) -> Any:
    d = x - x.mean(1, keepdim=True)
    return crelu(d / d.square().sum(1, keepdim=True).clamp(min=eps).sqrt())


def _soft_threshold(x: Any, threshold: float = 0.25) -> Any:
    return torch.cat((torch.relu(x - threshold), torch.relu(-x - threshold)), 1)


ELEMENTWISE: dict[Any, Callable[..., Any]] = {
    ops.relu: lambda: torch.nn.ReLU(),
    ops.leaky_relu: lambda slope=0.01: torch.nn.LeakyReLU(slope),
    ops.avr: lambda: Function("|x|", torch.abs),
}


def _elementwise(step: Step) -> Any:
    return ELEMENTWISE[step.layer.function](**step.options)  # type: ignore[attr-defined]  # a Lambda has it


def _concatenated(step: Step) -> Any:
    options = {name: value for name, value in step.options.items() if name != "axis"}
    activation = options.pop("activation", ops.relu)
    if activation is ops.relu:
        return Function("[relu(x), relu(-x)]", crelu)
    if activation not in ELEMENTWISE:
        raise untranslatable(step, "PyTorch")
    phi = ELEMENTWISE[activation](**options)
    return Function(f"[f(x), f(-x)], f = {phi}", lambda x: torch.cat((phi(x), phi(-x)), 1))


def _max_pool(step: Step) -> Any:
    """PyTorch's own where its padding can be that; it must be the same on opposite sides and at most k / 2."""
    pool, ceil = Pool.of(step), bool(step.options.get("ceil"))
    k, stride = pool.windows.k, pool.windows.stride
    if _fits(pool):
        return torch.nn.MaxPool2d(k, stride, (pool.given[0][0], pool.given[1][0]), ceil_mode=ceil)
    around = _flat(pool.around)
    words = f"maximum, k {k}, stride {stride}, padding {around}"
    return Function(words, lambda x: F.max_pool2d(F.pad(x, around, value=-np.inf), k, stride))


def _avg_pool(step: Step) -> Any:
    pool, options = Pool.of(step), step.options
    k, stride, with_pad = pool.windows.k, pool.windows.stride, bool(options.get("count_include_pad"))
    if _fits(pool):
        padding = (pool.given[0][0], pool.given[1][0])
        return torch.nn.AvgPool2d(k, stride, padding, bool(options.get("ceil")), with_pad)
    around = _flat(pool.around)
    share = torch.from_numpy(k[0] * k[1] / window_counts(pool.windows, with_pad)[..., 0])  # (OH, OW)
    words = f"mean, k {k}, stride {stride}, padding {around}"
    return Function(words, lambda x: F.avg_pool2d(F.pad(x, around), k, stride) * share.to(x))


def _fits(pool: Pool) -> bool:
    halves = all(2 * before <= k for (before, _), k in zip(pool.given, pool.windows.k, strict=True))
    return _symmetric(pool.given) and halves


OPS: dict[Any, Callable[[Step], Any]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    ops.crelu: _concatenated,
    ops.concatenated: _concatenated,
    ops.soft_threshold: lambda step: Function(
        "two-sided soft threshold", lambda x: _soft_threshold(x, step.options.get("threshold", 0.25))
    ),
    ops.antirectifier: lambda step: Function(
        "antirectifier", lambda x: _antirectifier(x, step.options.get("eps", 1e-12))
    ),
    ops.max_pool2d: _max_pool,
    ops.avg_pool2d: _avg_pool,
    ops.global_avg_pool: lambda step: Function("mean over all pixels", lambda x: x.mean((2, 3))),
    ops.softmax: lambda step: torch.nn.Softmax(1),
    ops.log_softmax: lambda step: torch.nn.LogSoftmax(1),
}
