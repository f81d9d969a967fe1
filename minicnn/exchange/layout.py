"""Weights in PyTorch's layout, under PyTorch's names: the one place that knows the differences.

    minicnn                              PyTorch
    Conv2d     weight (kh, kw, in, out)  weight (out, in, kh, kw)
    Linear     weight (in, out)          weight (out, in); behind a Flatten of an image, `in` in the order (C, H, W)
    BatchNorm  gamma, beta               weight, bias
               running_mean, running_var the same (both keep the unbiased variance)

A state is a dict of arrays by path, such as "conv1.weight"; layers have the same names on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from minicnn import nn
from minicnn.exchange.walk import Step, is_a, steps

FILTERS = (3, 2, 0, 1)  # our axes (kh, kw, in, out) in PyTorch's order
COUNTER = "num_batches_tracked"  # PyTorch's, of batch normalisation; nothing depends on it
BATCH_NORM = {"gamma": "weight", "beta": "bias", "running_mean": "running_mean", "running_var": "running_var"}


class Entry(NamedTuple):
    """An array: its names on both sides, and  theirs = ours.transpose(axes)[..., order]."""

    ours: str
    theirs: str
    axes: tuple[int, ...]
    order: np.ndarray | None

    def forth(self, array: np.ndarray) -> np.ndarray:
        turned = array.transpose(self.axes)
        return np.ascontiguousarray(turned if self.order is None else turned[..., self.order])

    def back(self, array: np.ndarray) -> np.ndarray:
        sorted_ = array if self.order is None else array[..., np.argsort(self.order)]
        return np.ascontiguousarray(sorted_.transpose(np.argsort(self.axes)))


def entries(model: nn.Sequential, input_shape: Sequence[int]) -> list[Entry]:
    """All arrays of a network's state, in the order of its layers."""
    return [entry for step in steps(model, input_shape) for entry in _entries(step)]


def _entries(step: Step) -> list[Entry]:
    name, layer, order = step.name, step.layer, step.order
    if is_a(layer, nn.Residual):
        return []  # its layers have steps of their own
    if is_a(layer, nn.BatchNorm):
        return [Entry(f"{name}.{ours}", f"{name}.{theirs}", (0,), order) for ours, theirs in BATCH_NORM.items()]
    axes: dict[str, tuple[int, ...]] = {"weight": (), "bias": (0,)}
    if is_a(layer, nn.Conv2d):
        axes["weight"], order = FILTERS, None
    elif is_a(layer, nn.Linear):
        axes["weight"] = (1, 0)
    elif any(True for _ in layer.named_state()):
        raise TypeError(f"{name}: it is not known how {type(layer).__name__} keeps its weights elsewhere")
    own = [what for what, _ in layer.named_state()]  # there may be no bias
    return [Entry(f"{name}.{what}", f"{name}.{what}", axes[what], order if what == "weight" else None) for what in own]


def pytorch_state(model: nn.Sequential, input_shape: Sequence[int]) -> dict[str, np.ndarray]:
    """The state of a network as PyTorch would keep it, for images of shape (H, W, C)."""
    own = model.state_dict()
    return {entry.theirs: entry.forth(own[entry.ours]) for entry in entries(model, input_shape)}


def load_pytorch_state(
    model: nn.Sequential,
    state: Mapping[str, np.ndarray],
    input_shape: Sequence[int],
    *,
    groups: Mapping[str, int] | None = None,
    by_order: bool = False,
) -> None:
    """Take over a state in PyTorch's layout; if a name or a shape does not fit, ValueError, and nothing changes.

    groups      {"conv2": 2}: their conv2 is a grouped convolution; ours gets zeros between the groups
    by_order    ignore the names of layers and take them in the order of the state; that must be the order in which
                the network computes, which a state cannot show
    """
    arrays = {name: np.asarray(a) for name, a in state.items() if not name.endswith(COUNTER)}
    wanted = entries(model, input_shape)
    if by_order:
        arrays = _renamed(arrays, wanted)
    shapes = {e.theirs: _shape(model, e) for e in wanted}
    for layer, count in (groups or {}).items():
        name = f"{layer}.weight"
        if name not in arrays or name not in shapes or arrays[name].ndim != 4:
            raise ValueError(f"there is no convolution {layer} whose groups could be joined")
        arrays[name] = joined_groups(arrays[name], count)
    problems = [f"missing: {name} {shape}" for name, shape in shapes.items() if name not in arrays]
    problems += [f"unexpected: {name} {a.shape}" for name, a in arrays.items() if name not in shapes]
    problems += [
        f"misshapen: {name} is {arrays[name].shape}, the model needs {shape}"
        for name, shape in shapes.items()
        if name in arrays and arrays[name].shape != shape
    ]
    problems += [f"not finite: {name}" for name, a in arrays.items() if a.dtype.kind != "f" or not np.isfinite(a).all()]
    if problems:
        raise ValueError("the weights from PyTorch do not fit the model:\n  " + "\n  ".join(problems))
    model.load_state_dict({e.ours: e.back(arrays[e.theirs]) for e in wanted})


def joined_groups(filters: np.ndarray, groups: int) -> np.ndarray:
    """The filters (out, in / groups, kh, kw) of a grouped convolution as those (out, in, kh, kw) of a plain one.

    The outputs of group g see the channels of group g; all other weights are 0.
    """
    out, channels, kh, kw = filters.shape
    if groups < 1 or out % groups:
        raise ValueError(f"{out} filters cannot be {groups} groups")
    joined = np.zeros((out, groups * channels, kh, kw), filters.dtype)
    for g in range(groups):
        rows = slice(g * out // groups, (g + 1) * out // groups)
        joined[rows, g * channels : (g + 1) * channels] = filters[rows]
    return joined


def _shape(model: nn.Sequential, entry: Entry) -> tuple[int, ...]:
    own = dict(model.named_state())[entry.ours].data.shape
    return tuple(int(own[axis]) for axis in entry.axes)


def _renamed(arrays: Mapping[str, np.ndarray], wanted: Sequence[Entry]) -> dict[str, np.ndarray]:
    """The arrays under the names of our layers, which are matched in order."""

    def layers(names: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name.rpartition(".")[0] for name in names))

    theirs, ours = layers(list(arrays)), layers([entry.theirs for entry in wanted])
    if len(theirs) != len(ours):
        raise ValueError(
            f"the weights from PyTorch are those of {len(theirs)} layers ({', '.join(theirs)}), the model has "
            f"{len(ours)} ({', '.join(ours)})"
        )
    new = dict(zip(theirs, ours, strict=True))
    return {f"{new[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}": array for name, array in arrays.items()}
