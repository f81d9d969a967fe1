"""The same ops and networks in PyTorch, with the same weights: for comparisons of speed and of results.

minicnn stores images as NHWC and filters as HWIO; PyTorch uses NCHW (in memory contiguous, or "channels last") and
OIHW.  This file needs torch; minicnn itself never does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from experiments.benchmarks.layers import FILTERS
from minicnn import Parameter, nn, ops

F = torch.nn.functional
OPS: dict[Any, Callable[..., Any]] = {  # with the arguments that ours have, as far as our networks use them
    ops.relu: torch.relu,
    ops.crelu: lambda x: torch.cat((torch.relu(x), torch.relu(-x)), 1),
    ops.avr: torch.abs,
    ops.global_avg_pool: lambda x: x.mean((2, 3)),
    ops.max_pool2d: lambda x, k, stride=None, pad=0, ceil=False: F.max_pool2d(x, k, stride, pad, ceil_mode=ceil),
    ops.batch_norm: lambda x, gamma, beta: F.batch_norm(x, None, None, gamma, beta, True),
    ops.conv2d: lambda x, w, b, pad: F.conv2d(x, w, b, padding=pad),
}


def to_torch(array: np.ndarray, axes: tuple[int, ...] | None = None, *, channels_last: bool = False) -> Any:
    """A copy with its axes in this order; images and filters, which have four, may be stored channels last."""
    tensor = torch.from_numpy(np.array(array.transpose(axes), order="C"))
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last and array.ndim == 4 else tensor


def torch_twin(model: nn.Sequential) -> Any:
    """A torch.nn.Sequential that computes what `model` does; its input is NCHW."""
    return torch.nn.Sequential(*(_layer(layer) for _, layer in model.children()))


def _layer(layer: nn.Module) -> Any:
    if isinstance(layer, nn.Conv2d):
        kh, kw, c, f = layer.weight.shape
        conv = torch.nn.Conv2d(c, f, (kh, kw), layer.stride, layer.pad, bias=layer.bias is not None)
        return _with_weights(conv, layer.weight, layer.bias, FILTERS)
    if isinstance(layer, nn.Linear):
        linear = torch.nn.Linear(*layer.weight.shape, bias=layer.bias is not None)
        return _with_weights(linear, layer.weight, layer.bias, (1, 0))
    if isinstance(layer, nn.BatchNorm):
        norm = _BatchNorm(layer.gamma.data.size, eps=layer.eps, momentum=layer.momentum)
        return _with_weights(norm, layer.gamma, layer.beta)
    if isinstance(layer, nn.Dropout):
        return torch.nn.Dropout(layer.rate)
    if isinstance(layer, nn.Flatten):
        return torch.nn.Flatten()
    if isinstance(layer, nn.Lambda) and layer.function in OPS:
        return _Function(partial(OPS[layer.function], **layer.options))
    raise TypeError(f"torch_twin: no twin of {layer} is known; add its op to OPS in {__name__}")


class _Function(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class _BatchNorm(torch.nn.BatchNorm2d):  # type: ignore[misc, unused-ignore]
    """For (N, C, H, W) or (N, C)."""

    def _check_input_dim(self, input: Any) -> None:
        pass


def _with_weights(layer: Any, weight: Parameter, bias: Parameter | None, axes: tuple[int, ...] | None = None) -> Any:
    """The layer with our weights, whose axes are put into PyTorch's order; frozen where ours is."""
    with torch.no_grad():
        layer.weight.copy_(to_torch(weight.data, axes))
        if bias is not None:
            layer.bias.copy_(to_torch(bias.data))
    return layer.requires_grad_(weight.requires_grad)
