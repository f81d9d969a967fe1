"""The ops of experiments.bench in PyTorch, and arrays for it; networks are minicnn/exchange/torch_module.py's.

minicnn stores images as NHWC and filters as HWIO; PyTorch uses NCHW (in memory contiguous, or "channels last") and
OIHW.  This file needs torch; minicnn itself never does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from minicnn import ops
from minicnn.exchange.torch_module import crelu

F = torch.nn.functional
OPS: dict[Any, Callable[..., Any]] = {  # with the arguments that benchmarks/layers.py gives to ours
    ops.relu: torch.relu,
    ops.crelu: crelu,
    ops.max_pool2d: lambda x, k, stride=None, ceil=False: F.max_pool2d(x, k, stride, ceil_mode=ceil),
    ops.batch_norm: lambda x, gamma, beta: F.batch_norm(x, None, None, gamma, beta, True),
    ops.conv2d: lambda x, w, b, pad: F.conv2d(x, w, b, padding=pad),
}


def to_torch(array: np.ndarray, axes: tuple[int, ...] | None = None, *, channels_last: bool = False) -> Any:
    """A copy with its axes in this order; images and filters, which have four, may be stored channels last."""
    tensor = torch.from_numpy(np.array(array.transpose(axes), order="C"))
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last and array.ndim == 4 else tensor
