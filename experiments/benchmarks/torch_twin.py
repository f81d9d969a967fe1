"""The same network in PyTorch, with the same weights: for comparisons of speed and of results.

minicnn has images NHWC and filters HWIO; PyTorch has NCHW (in memory contiguous, or "channels last") and OIHW.
torch is imported when it is needed, and is never needed by minicnn itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicnn import Parameter, nn, ops


def torch_twin(model: nn.Sequential) -> Any:
    """A torch.nn.Sequential that computes what `model` does; its input is NCHW."""
    import torch

    return torch.nn.Sequential(*(_layer(layer) for _, layer in model.children()))


def _layer(layer: nn.Module) -> Any:
    import torch
    from torch import nn as theirs

    if isinstance(layer, nn.Conv2d):
        kh, kw, c, f = layer.weight.shape
        conv = theirs.Conv2d(c, f, (kh, kw), layer.stride, layer.pad)
        _copy(conv.weight, layer.weight, (3, 2, 0, 1))
        _copy(conv.bias, layer.bias)
        return conv
    if isinstance(layer, nn.Linear):
        linear = theirs.Linear(*layer.weight.shape)
        _copy(linear.weight, layer.weight, (1, 0))
        _copy(linear.bias, layer.bias)
        return linear
    if isinstance(layer, nn.BatchNorm):
        norm = _batch_norm(layer)
        _copy(norm.weight, layer.gamma)
        _copy(norm.bias, layer.beta)
        return norm
    if isinstance(layer, nn.Dropout):
        return theirs.Dropout(layer.rate)
    if isinstance(layer, nn.MaxPool2d):
        return theirs.MaxPool2d(layer.options["k"], layer.options["stride"], ceil_mode=layer.options["ceil"])
    if isinstance(layer, nn.GlobalAvgPool):
        return _module(lambda x: x.mean((2, 3)))
    if isinstance(layer, nn.Flatten):
        return theirs.Flatten()
    if isinstance(layer, nn.Lambda) and layer.function is ops.relu:
        return theirs.ReLU()
    if isinstance(layer, nn.Lambda) and layer.function is ops.crelu:
        return _module(lambda x: torch.cat((torch.relu(x), torch.relu(-x)), 1))
    if isinstance(layer, nn.Lambda) and layer.function is ops.avr:
        return _module(torch.abs)
    raise TypeError(f"torch_twin: no twin of {layer} is known")


def _module(function: Any) -> Any:
    import torch

    class Function(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(self, x: Any) -> Any:
            return function(x)

    return Function()


def _batch_norm(layer: nn.BatchNorm) -> Any:
    """For (N, C, H, W) or (N, C)."""
    import torch

    class Norm(torch.nn.BatchNorm2d):  # type: ignore[misc, unused-ignore]
        def _check_input_dim(self, input: Any) -> None:
            pass

    return Norm(layer.gamma.data.size, eps=layer.eps, momentum=layer.momentum)


def _copy(theirs: Any, ours: Parameter | None, axes: tuple[int, ...] | None = None) -> None:
    import torch

    if ours is None:
        raise TypeError("torch_twin: a layer without a bias has no twin")
    with torch.no_grad():
        theirs.copy_(torch.from_numpy(np.ascontiguousarray(ours.data.transpose(axes))))
