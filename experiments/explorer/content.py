"""What the page holds: the network layer by layer, pictures, pairs of filters.  All arrays are in one block of bytes.

The layers are those that web/network.js knows (LAYERS there); dropout does nothing in evaluation and is left out, and a
batch normalisation is a scale and a shift.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.cli.app import UsageError
from experiments.train.trained import Trained
from minicnn import ops
from minicnn.analysis.layers import convolutions, filter_layers
from minicnn.analysis.pairing import expected_mu, pairing
from minicnn.data.dataset import Dataset
from minicnn.exchange.walk import Pool, Step, is_a, steps
from minicnn.nn import (
    Activation,
    BatchNorm,
    Conv2d,
    Dropout,
    Flatten,
    GlobalAvgPool,
    Linear,
    MaxPool2d,
    Sequential,
)
from minicnn.ops.windows import as_pad, as_pair

LINE = 1000  # characters of a line of base64
PICTURE = (32, 32, 3)  # the shape of every picture in the page
ACTIVATIONS = {ops.relu: "relu", ops.avr: "avr", ops.crelu: "crelu", ops.leaky_relu: "leaky"}
ALIGNED = 4  # bytes: arrays of float32 must begin at a multiple


class Arrays:
    """One block of bytes; `put` gives the place of an array in it, as web/main.js unpacks it."""

    def __init__(self) -> None:
        self._block = bytearray()

    def put(self, array: np.ndarray) -> dict[str, list[int]]:
        kind = "uint8" if array.dtype == np.uint8 else "float32"
        made = np.ascontiguousarray(array, np.dtype(kind).newbyteorder("<"))
        self._block += bytes(-len(self._block) % ALIGNED)
        place = [len(self._block), made.size]
        self._block += made.tobytes()
        return {kind: place}

    def base64(self) -> str:
        return textwrap.fill(base64.b64encode(self._block).decode(), LINE)


def layers_of(model: Sequential, put: Callable[[np.ndarray], Any]) -> list[dict[str, Any]]:
    """The layers of a network, as network.js takes them; UsageError for a layer that it does not know."""
    return [
        {"name": step.name, **_described(step, put)}
        for step in steps(model, PICTURE)
        if not is_a(step.layer, Dropout) and not is_a(step.layer, Flatten)
    ]


def _described(step: Step, put: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    layer: Any = step.layer
    if is_a(layer, Conv2d):
        stride, pad = as_pair(step.name, "stride", layer.stride), as_pad(step.name, layer.pad)
        return {
            "kind": "conv",
            "w": filters(layer.weight.data, put),
            "b": _bias(layer, put),
            "stride": stride,
            "pad": pad,
        }
    if is_a(layer, BatchNorm):
        scale, shift = layer.scale_and_shift()
        return {"kind": "norm", "scale": put(scale), "shift": put(shift)}
    if is_a(layer, Activation) and layer.function in ACTIVATIONS:
        return {"kind": ACTIVATIONS[layer.function], **layer.options}
    if is_a(layer, MaxPool2d):
        pool = Pool.of(step)
        return {"kind": "maxpool", "k": pool.windows.k, "stride": pool.windows.stride, "pad": pool.around}
    if is_a(layer, GlobalAvgPool):
        return {"kind": "mean"}
    if is_a(layer, Linear):
        return {"kind": "linear", "w": put(layer.weight.data), "b": _bias(layer, put)}
    raise UsageError(
        f"the page cannot compute {step.name} ({type(layer).__name__}); it knows the paper's CIFAR networks"
    )


def _bias(layer: Conv2d | Linear, put: Callable[[np.ndarray], Any]) -> Any:
    return None if layer.bias is None else put(layer.bias.data)


def filters(w: np.ndarray, put: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    kh, kw, channels, count = w.shape
    return {"kh": kh, "kw": kw, "channels": channels, "filters": count, "data": put(w)}


def pairs_of(network: Trained, put: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """The pairing filters of the first layer, and for every layer with an activation the cosines beside random ones."""
    model, found = network.classifier.model, []
    for layer in filter_layers(model):
        w = layer.conv.weight.data
        mu = pairing(w).mu
        mu = mu[np.isfinite(mu)]
        random = expected_mu(w.shape[3], w[..., 0].size)
        found.append({"name": layer.name, "mu": put(mu), "mean": float(mu.mean()), "random": random})
    first = next(iter(convolutions(model).values())).weight.data
    own = pairing(first)
    if not np.isfinite(own.mu).all():
        raise UsageError(f"{network.name}: conv1 has filters of zeros, which have no pair")
    return {
        "label": network.label,
        "layers": found,
        "w": filters(first, put),
        "mu": own.mu.tolist(),
        "partner": own.partner.tolist(),
    }


def chosen_images(data: Dataset, count: int) -> list[int]:
    """The first test image of each class, as many as are asked for."""
    first = [int(np.flatnonzero(data.test_labels == label)[0]) for label in range(len(data.classes))]
    return sorted(first[:count])


def content(network: Trained, others: Sequence[Trained], data: Dataset, images: int) -> tuple[dict[str, Any], str]:
    """(the JSON of the page, its arrays in base64): `network` computes, `others` show their filters beside it."""
    arrays = Arrays()
    layers = layers_of(network.classifier.model, arrays.put)
    kinds = [layer["kind"] for layer in layers[:4]]
    if kinds != ["conv", "crelu", "conv", "crelu"] or any(_changes_size(layer) for layer in layers[:4:2]):
        raise UsageError(
            f"{network.name} ({network.label}): the page shows networks that begin with two convolutions, each "
            "followed by CReLU, that keep the size of the picture: --act crelu with the model convpool"
        )
    normalise = network.classifier.normalise
    made = {
        "label": network.label,
        "classes": list(data.classes),
        "mean": [float(v) for v in normalise.mean],
        "std": [float(v) for v in normalise.std],
        "layers": layers,
        "images": [
            {"name": f"test image {i}, {data.classes[data.test_labels[i]]}", "pixels": arrays.put(data.test_images[i])}
            for i in chosen_images(data, images)
        ],
        "pairs": [pairs_of(one, arrays.put) for one in (*others, network)],
    }
    return made, arrays.base64()


def _changes_size(conv: dict[str, Any]) -> bool:
    (top, bottom), (left, right) = conv["pad"]
    return conv["stride"] != (1, 1) or (top + bottom, left + right) != (conv["w"]["kh"] - 1, conv["w"]["kw"] - 1)
