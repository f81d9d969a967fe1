"""Where in a network the paper's measurements are taken.

A *filter layer* is a convolution that an activation follows, perhaps after batch normalisation.  Its *responses* are
what enters the activation: linear in the image patch, signed, the same thing for ReLU and CReLU networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minicnn import ops
from minicnn.backend import Array
from minicnn.nn import Activation, BatchNorm, Conv2d, CReLU, Dropout, Flatten, Linear, Module, Sequential

POOLS = (ops.max_pool2d, ops.avg_pool2d, ops.global_avg_pool)


@dataclass(frozen=True)
class FilterLayer:
    """conv -> (batch normalisation) -> act; `source` is the path of the layer whose output enters `act`."""

    name: str
    conv: Conv2d
    source: str
    act: Activation

    @property
    def is_crelu(self) -> bool:
        """[max(x, 0), max(-x, 0)] itself, not a relative of it."""
        return isinstance(self.act, CReLU) and self.act.function is ops.crelu

    @property
    def two_sided(self) -> bool:
        """Whether large negative responses pass: the paper then lets a filter fire by |response|."""
        return self.act.two_sided


def leaves(model: Sequential, prefix: str = "") -> Iterator[tuple[str, Module]]:
    """The layers in the order in which they compute, with the paths that `Sequential.trace` gives them."""
    for name, layer in model.layers.items():
        if isinstance(layer, Sequential):
            yield from leaves(layer, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", layer


def convolutions(model: Sequential) -> dict[str, Conv2d]:
    """Every convolution by its path, with an activation or without."""
    return {name: layer for name, layer in leaves(model) if isinstance(layer, Conv2d)}


def filter_layers(model: Sequential) -> list[FilterLayer]:
    """Every convolution that an activation follows; the last one of a network, which gives logits, has none."""
    found, layers = [], list(leaves(model))
    for i, (source, conv) in enumerate(layers):
        name, after = source, layers[i + 1 :]
        if not isinstance(conv, Conv2d):
            continue
        if after and isinstance(after[0][1], BatchNorm):
            (source, _), *after = after
        path, act = after[0] if after else ("", None)
        if isinstance(act, Activation):
            found.append(FilterLayer(name, conv, source, act))
        elif act is not None and not isinstance(act, (Conv2d, Linear, BatchNorm)) and not _keeps_channels(act):
            raise ValueError(
                f"filter_layers: {path} ({type(act).__name__}) follows {name}; if it is an activation, make it an "
                "nn.Activation, so that its inputs are measured"
            )
    return found


def responses(model: Sequential, x: Array) -> Iterator[tuple[str, Array]]:
    """(name, responses (N, H, W, F)) of the filter layers, in one forward pass that ends at the last of them."""
    wanted = {layer.source: layer.name for layer in filter_layers(model)}
    left = len(wanted)
    for path, y in model.trace(x):
        if path in wanted:
            yield wanted[path], y
            left -= 1
            if not left:
                return


def outgoing_weights(model: Sequential) -> dict[str, tuple[Array, int]]:
    """For every filter layer with CReLU: the weights of the layer that reads it, and how many channels it reads.

    Pooling, dropout and flattening in between keep the channels apart; anything else ends the search.
    """
    found, layers = {}, list(leaves(model))
    paths = [path for path, _ in layers]
    for layer in filter_layers(model):
        after = layers[paths.index(layer.source) + 2 :] if layer.is_crelu else []  # past the source and the CReLU
        reader = next((module for _, module in after if not _keeps_channels(module)), None)
        if isinstance(reader, (Conv2d, Linear)):
            found[layer.name] = (reader.weight.data, 2 * layer.conv.weight.shape[3])
    return found


def _keeps_channels(module: Module) -> bool:
    """Whether each channel of its output belongs to one of its input, in the same order."""
    return isinstance(module, (Dropout, Flatten)) or getattr(module, "function", None) in POOLS
