"""The same networks as ONNX models, with the same weights: what ONNX Runtime and OpenVINO read.

This file needs onnx; minicnn itself never does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.benchmarks.layers import FILTERS
from minicnn import nn, ops
from minicnn.ops.windows import as_pad, as_pair

OPSET, IR_VERSION = 17, 8  # of 2022: every runtime of today reads them
Add = Callable[..., str]  # adds a node with these inputs and attributes, and returns the name of its output


def onnx_twin(model: nn.Sequential, shape: Sequence[int]) -> bytes:
    """A file with a model that computes what `model` does in evaluation, for images of this shape (N, C, H, W)."""
    nodes: list[Any] = []
    weights: list[Any] = []

    def add(op: str, *inputs: str | np.ndarray, **attributes: Any) -> str:
        names = []
        for given in inputs:
            if isinstance(given, np.ndarray):
                weights.append(numpy_helper.from_array(np.ascontiguousarray(given), f"weight{len(weights)}"))
                names.append(weights[-1].name)
            else:
                names.append(given)
        nodes.append(helper.make_node(op, names, [f"value{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    value = "images"
    for _, layer in model.children():
        value = _layer(add, layer, value)
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)
    logits = helper.make_tensor_value_info(value, TensorProto.FLOAT, (shape[0], None))
    graph = helper.make_graph(nodes, "minicnn", [images], [logits], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(made, full_check=True)
    return made.SerializeToString()


def _layer(add: Add, layer: nn.Module, x: str) -> str:
    if isinstance(layer, nn.Conv2d):
        weights = [layer.weight.data.transpose(FILTERS), *_bias(layer)]
        return add("Conv", x, *weights, strides=as_pair("Conv", "stride", layer.stride), pads=_pads(layer.pad))
    if isinstance(layer, nn.Linear):
        return add("Gemm", x, layer.weight.data, *_bias(layer))
    if isinstance(layer, nn.BatchNorm):
        state = (layer.gamma, layer.beta, layer.running_mean, layer.running_var)
        return add("BatchNormalization", x, *(s.data for s in state), epsilon=layer.eps)
    if isinstance(layer, nn.Dropout):
        return x
    if isinstance(layer, nn.Flatten):  # of single pixels: with more of them, their order would differ from ours
        return add("Flatten", x)
    if isinstance(layer, nn.Lambda) and layer.function in OPS:
        return OPS[layer.function](add, x, **layer.options)
    raise TypeError(f"onnx_twin: no twin of {layer} is known; add its op to OPS in {__name__}")


def _bias(layer: nn.Conv2d | nn.Linear) -> list[np.ndarray]:
    return [] if layer.bias is None else [layer.bias.data]


def _pads(pad: Any) -> list[int]:
    (top, bottom), (left, right) = as_pad("onnx_twin", pad)
    return [top, left, bottom, right]


def _max_pool(add: Add, x: str, k: Any, stride: Any = None, pad: Any = 0, ceil: bool = False) -> str:
    size = as_pair("MaxPool", "k", k)
    strides = size if stride is None else as_pair("MaxPool", "stride", stride)
    return add("MaxPool", x, kernel_shape=size, strides=strides, pads=_pads(pad), ceil_mode=int(ceil))


OPS: dict[Any, Callable[..., str]] = {
    ops.relu: lambda add, x: add("Relu", x),
    ops.crelu: lambda add, x: add("Concat", add("Relu", x), add("Relu", add("Neg", x)), axis=1),
    ops.avr: lambda add, x: add("Abs", x),
    ops.global_avg_pool: lambda add, x: add("Flatten", add("GlobalAveragePool", x)),
    ops.max_pool2d: _max_pool,
}
