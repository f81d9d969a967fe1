"""Images from the features of a trained CReLU network (Figure 5), and what pooling leaves of them (Table S1).

The features of a layer are inverted step by step, the last layer first, with nothing learned:

    conv + CReLU            Algorithm 1: per region, or by global least squares      (theory/reconstruction.py)
    conv + CReLU + pool     Algorithm 2 for every pooling region; where regions overlap, their values are averaged

The paper's Figure 5 is of a network without pooling.  Algorithm 2 needs the switches of the pool (which cell was the
largest, and which phases were active at all); the features alone do not determine them, so they are kept from the
forward pass.  An image behind a pool is therefore reconstructed from the features *and* these switches.

All layers at once, for CReLU, ReLU and AVR, with switches or without: theory/joint.py, with `joint_stages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from minicnn.analysis.layers import filter_layers, leaves
from minicnn.backend import Array, array_module, device_of, to_device, to_host, where_its_arrays_are
from minicnn.nn import AVR, Dropout, MaxPool2d, ReLU, Sequential
from minicnn.ops.windows import Pad, Size
from minicnn.theory.piecewise import Stage
from minicnn.theory.pooled_maps import PooledConvolution, PooledMaps
from minicnn.theory.reconstruction import ITERATIONS, METHODS, Layer, features, invert_layer


@dataclass(frozen=True)
class Step:
    """conv + CReLU, then a max pool if `pool` holds its options."""

    name: str
    layer: Layer
    pool: dict[str, Any] | None = None

    def pooled(self, w: Array | None = None) -> PooledConvolution:
        """The step with its pool as a map that Algorithm 2 can invert; with other filters (and no bias) if given."""
        assert self.pool is not None
        kernel, b, stride, pad = self.layer
        filters, bias = (kernel, b) if w is None else (w, None)
        return PooledConvolution(filters, bias, stride=stride, pad=pad, **self.pool)


def crelu_steps(model: Sequential) -> list[Step]:
    """The steps from the image on that can be inverted: up to the first layer that is not conv + CReLU (+ max pool)."""
    stages = takewhile(lambda stage: stage[1].activation == "crelu", joint_stages(model).items())
    return [Step(name, one.layer, None if one.pool is None else _pool_options(**one.pool)) for name, one in stages]


def joint_stages(model: Sequential) -> dict[str, Stage]:
    """The stages from the image on that can be inverted jointly, by name: conv + CReLU, ReLU or AVR (+ max pool)."""
    plain = {layer.name: layer for layer in filter_layers(model) if layer.source == layer.name}
    layers = [(path, module) for path, module in leaves(model) if not isinstance(module, Dropout)]
    found: dict[str, Stage] = {}
    i = 0
    while i < len(layers) and layers[i][0] in plain:
        layer = plain[layers[i][0]]
        activation = "crelu" if layer.is_crelu else {ReLU: "relu", AVR: "avr"}.get(type(layer.act))
        if activation is None:
            break
        conv, i = layer.conv, i + 2
        pool = None
        after = layers[i][1] if i < len(layers) else None
        if isinstance(after, MaxPool2d):
            pool, i = dict(after.options), i + 1
        bias = None if conv.bias is None else conv.bias.data
        found[layer.name] = Stage(Layer(conv.weight.data, bias, conv.stride, conv.pad), activation, pool)
    return found


def _pool_options(k: Size, stride: Size | None, pad: Pad, ceil: bool) -> dict[str, Any]:
    """Those of MaxPool2d as PooledConvolution calls them."""
    return {"k": k, "pool_stride": k if stride is None else stride, "pool_pad": pad, "ceil": ceil}


@where_its_arrays_are
def inputs(x: Array, steps: Sequence[Step]) -> tuple[list[Array], list[PooledMaps | None]]:
    """What enters each step for images x (N, H, W, C), and what its pool keeps; the pool of the last is not needed."""
    entering: list[Array] = [x]
    kept: list[PooledMaps | None] = []
    for step in steps[:-1]:
        if step.pool is None:
            kept.append(None)
            entering.append(features(entering[-1], [step.layer]))
        else:
            maps = step.pooled().pool(entering[-1])
            kept.append(maps)
            entering.append(array_module(x).abs(maps.values))  # p and q, as CReLU and the pool give them
    return entering, [*kept, None]


@where_its_arrays_are
def reconstruct(x: Array, steps: Sequence[Step], *, method: str, iterations: int = ITERATIONS) -> Array:
    """x' (N, H, W, C) from the CReLU features of the last step, for images x; `method` is one of METHODS.

    iterations   the most steps of least squares in each layer ("global")
    """
    if method not in METHODS:
        raise ValueError(f"reconstruct: method must be one of {', '.join(METHODS)}, got {method!r}")
    if not steps:
        raise ValueError("reconstruct: no steps: the network does not begin with a convolution and CReLU")
    entering, kept = inputs(x, steps)
    options = {"iterations": iterations} if method == "global" else {}
    y = features(entering[-1], [steps[-1].layer])
    for step, before, maps in reversed(list(zip(steps, entering, kept, strict=True))):
        if maps is None:
            y = invert_layer(y, step.layer, before.shape[1:3], method=method, **options)
        else:
            y = _through_pool(step.pooled(), before, y, maps)
    return y


def _through_pool(pooled: PooledConvolution, before: Array, y: Array, maps: PooledMaps) -> Array:
    """What entered the convolution (the shape of `before`), from pooled features y and the switches of `maps`."""
    xp, (n, height, width, channels) = array_module(y), before.shape
    f = y.shape[3] // 2
    estimate = xp.where(maps.values != 0, xp.concatenate((y[..., :f], -y[..., f:]), -1), 0)  # (p, -q)
    regions = list(np.ndindex(estimate.shape[:3]))
    cells = pooled.reconstruct(PooledMaps(estimate, maps.switches), regions).reshape(-1, channels)  # (R ph pw, C)
    size = n * height * width + 1
    numbers = xp.arange(1, size).reshape(n, height, width, 1).astype(np.float64)
    places = to_host(pooled.patches(numbers)).reshape(-1).astype(np.int64)  # the pixel of every cell; 0 means none
    # On the host: a GPU would add the cells of a pixel in another order each time.
    values = to_host(cells)
    count = np.maximum(np.bincount(places, minlength=size)[1:], 1)
    total = np.stack([np.bincount(places, weights=values[:, c], minlength=size)[1:] for c in range(channels)], -1)
    mean = (total / count[:, None]).reshape(before.shape).astype(before.dtype)
    return to_device(mean, device_of(before))


@where_its_arrays_are
def pooling_ratios(x: Array, steps: Sequence[Step], w: Array | None = None) -> Array:
    """||x - x'|| / ||x|| after the pool of the last step, the mean over the regions of every image: (N,).

    x are images; what is reconstructed is the input of the last step, the features of the layers before it.
    w    other filters instead of those of the last step, without bias: random ones
    """
    entering, _ = inputs(x, steps)
    return steps[-1].pooled(w).ratios(entering[-1]).mean(axis=(1, 2))
