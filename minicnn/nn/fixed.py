"""What a model computes apart from its arrays: the same in every step?

A CUDA graph repeats what was captured (minicnn/fast/graph.py), so whoever captures a model must know that its Python
code would do the same again.  Of the layers in this folder that is known; their options can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy
from typing import Any

from minicnn import autodiff
from minicnn.autodiff import OPS, Buffer, Parameter
from minicnn.nn import module
from minicnn.nn.module import Module
from minicnn.precision import PRECISION

LAYERS = {"minicnn.nn.module", "minicnn.nn.layers"}  # where the layers are that are known
SWITCHES = ("MINICNN_FAST", "MINICNN_CONV", PRECISION)  # of the environment, which choose how ops are computed


def problem(model: Module) -> str | None:
    """Why this model may compute something else in another step; None if it does not."""
    if autodiff.watcher.get() is not None or module.watcher.get() is not None:
        return "somebody watches what is computed"
    for path, layer in model.modules():
        name = path or type(layer).__name__
        if type(layer).__module__ not in LAYERS:
            return f"the layer {name} is not one of minicnn.nn"
        for option in _options(layer):
            if callable(option) and option not in OPS.values():
                return f"the layer {name} calls {option!r}, which is not an op of minicnn"
    return None


def _options(layer: Module) -> Iterator[Any]:
    """The values of its attributes, and those in its dicts; but not layers, nor how parameters are drawn."""
    for name, value in vars(layer).items():
        if name != "schemes":
            found = value.values() if isinstance(value, dict) else [value]
            yield from (option for option in found if not isinstance(option, Module))


def snapshot(model: Module) -> Any:
    """What to compare: if two snapshots of a model are equal, it has the same layers, options and arrays that learn."""
    layers = [
        (path, type(layer), {name: _value(value) for name, value in vars(layer).items()})
        for path, layer in model.modules()
    ]
    return layers, [os.environ.get(name) for name in SWITCHES]


def _value(value: Any) -> Any:
    if isinstance(value, Parameter):
        return value.requires_grad
    if isinstance(value, Buffer):
        return None
    return copy(value) if isinstance(value, dict | list) else value
