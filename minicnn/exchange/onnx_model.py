"""A network as an ONNX model, which ONNX Runtime, OpenVINO, Netron and others read.

Nodes have the names of our layers ("conv1", "conv1_act"), the sum of a skip connection that of its Residual; weights
have those of our state ("conv1.weight"), in PyTorch's layout.  The input is `images` (N, C, H, W), the output `logits`
(N, classes); N is free unless a batch size is given, the size of the images is fixed.  Dropout is left out: this is the
network of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicnn import nn, ops
from minicnn.exchange.layout import pytorch_state
from minicnn.exchange.walk import Pool, Step, channels_first, is_a, steps, untranslatable
from minicnn.ops.windows import as_pad, as_pair

OPSET, IR_VERSION = 17, 8  # of 2022: every runtime of today reads them
INPUT, OUTPUT = "images", "logits"


def onnx_model(
    model: nn.Sequential,
    input_shape: Sequence[int],
    *,
    batch: int | None = None,
    about: Mapping[str, str] | None = None,
) -> bytes:
    """The content of a file: what `model` computes in evaluation, for images of shape (H, W, C).

    batch    of the images, if it is fixed
    about    more that the file says about itself, such as the names of the classes
    """
    import onnx
    from onnx import helper

    graph = Graph(pytorch_state(model, input_shape))
    values, last = {"": INPUT}, ""
    for step in steps(model, input_shape):
        values[step.name] = graph.layer(step, *(values[name] for name in step.inputs))
        last = step.name
    graph.nodes.append(helper.make_node("Identity", [values[last]], [OUTPUT], name=f"{OUTPUT}/identity"))
    kind, count = helper.np_dtype_to_tensor_dtype(graph.dtype), "N" if batch is None else batch
    output = nn.describe(model, tuple(input_shape)).rows[-1].output
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "minicnn",
            [helper.make_tensor_value_info(INPUT, kind, (count, *channels_first(input_shape)))],
            [helper.make_tensor_value_info(OUTPUT, kind, (count, *channels_first(output)))],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="minicnn",
    )
    helper.set_model_props(made, dict(about or {}))
    onnx.checker.check_model(made, full_check=True)
    return made.SerializeToString()


class Graph:
    """Nodes and weights so far; every method adds nodes and returns the name of their output.

    The output of the node "conv1" is called "conv1/output": a layer may have the name of the model's input or output.
    """

    def __init__(self, state: Mapping[str, np.ndarray]):
        self.state = state
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.dtype = next(iter(state.values())).dtype if state else np.dtype(np.float32)

    def layer(self, step: Step, x: str, *past: str) -> str:
        """The nodes of a layer; the last of them has its name, those before it are called name/what."""
        layer, name = step.layer, step.name
        if is_a(layer, nn.Dropout):
            return x
        if is_a(layer, nn.Residual):
            return self.add("Add", name, x, *past)
        if is_a(layer, nn.Flatten):
            return self.add("Flatten", name, x)
        if is_a(layer, nn.Conv2d):
            assert isinstance(layer, nn.Conv2d)
            strides = as_pair(name, "stride", layer.stride)
            return self.add("Conv", name, x, *self.stored(step), strides=strides, pads=_pads(as_pad(name, layer.pad)))
        if is_a(layer, nn.Linear):
            return self.add("Gemm", name, x, *self.stored(step), transB=1)
        if is_a(layer, nn.BatchNorm):
            assert isinstance(layer, nn.BatchNorm)
            return self.add("BatchNormalization", name, x, *self.stored(step), epsilon=layer.eps)
        if is_a(layer, nn.Lambda):
            assert isinstance(layer, nn.Lambda)
            if layer.function in OPS and _along_channels(layer):
                return OPS[layer.function](self, step, x)
        raise untranslatable(step, "ONNX")

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        output = f"{name}/output"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attributes))
        return output

    def stored(self, step: Step) -> list[str]:
        """The names of a layer's weights, which become part of the model."""
        wanted = [f"{step.name}.{what}" for what in ("weight", "bias", "running_mean", "running_var")]
        return [self.constant(name, self.state[name]) for name in wanted if name in self.state]

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def number(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, self.dtype))


def _pads(pad: tuple[tuple[int, int], tuple[int, int]]) -> list[int]:
    (top, bottom), (left, right) = pad
    return [top, left, bottom, right]


def _along_channels(layer: nn.Lambda) -> bool:
    """Whether it works along the channels, which are the last axis here and axis 1 there."""
    return layer.options.get("axis", -1) == -1


# Activations: elementwise ones as functions of (graph, name of the node, x, options), the others of (graph, step, x).


def _relu(graph: Graph, name: str, x: str) -> str:
    return graph.add("Relu", name, x)


def _leaky(graph: Graph, name: str, x: str, slope: float = 0.01) -> str:
    return graph.add("LeakyRelu", name, x, alpha=float(slope))


def _avr(graph: Graph, name: str, x: str) -> str:
    return graph.add("Abs", name, x)


ELEMENTWISE: dict[Any, Callable[..., str]] = {ops.relu: _relu, ops.leaky_relu: _leaky, ops.avr: _avr}


def _elementwise(graph: Graph, step: Step, x: str) -> str:
    layer = step.layer
    assert isinstance(layer, nn.Lambda)
    return ELEMENTWISE[layer.function](graph, step.name, x, **layer.options)


def _concatenated(graph: Graph, step: Step, x: str) -> str:
    """[phi(x), phi(-x)]."""
    options = {name: value for name, value in step.options.items() if name != "axis"}
    activation = options.pop("activation", ops.relu)
    if activation not in ELEMENTWISE:
        raise untranslatable(step, "ONNX")
    return _both_phases(graph, step.name, x, lambda name, y: ELEMENTWISE[activation](graph, name, y, **options))


def _both_phases(graph: Graph, name: str, x: str, phi: Callable[[str, str], str]) -> str:
    positive, negative = phi(f"{name}/positive", x), phi(f"{name}/negative", graph.add("Neg", f"{name}/opposite", x))
    return graph.add("Concat", name, positive, negative, axis=1)


def _soft_threshold(graph: Graph, step: Step, x: str) -> str:
    threshold = graph.number(f"{step.name}.threshold", step.options.get("threshold", 0.25))
    return _both_phases(
        graph, step.name, x, lambda name, y: graph.add("Relu", name, graph.add("Sub", f"{name}/above", y, threshold))
    )


def _antirectifier(graph: Graph, step: Step, x: str) -> str:
    """[relu(u), relu(-u)], u = d / sqrt(max(||d||^2, eps)), d = x - mean(x), over the channels."""
    name, eps = step.name, step.options.get("eps", 1e-12)
    d = graph.add("Sub", f"{name}/centred", x, graph.add("ReduceMean", f"{name}/mean", x, axes=[1]))
    channels = graph.constant(f"{name}.axis", np.array([1], np.int64))
    square = graph.add("ReduceSum", f"{name}/square", graph.add("Mul", f"{name}/squares", d, d), channels)
    norm = graph.add(
        "Sqrt", f"{name}/norm", graph.add("Max", f"{name}/floor", square, graph.number(f"{name}.eps", eps))
    )
    u = graph.add("Div", f"{name}/unit", d, norm)
    return _both_phases(graph, name, u, lambda part, y: graph.add("Relu", part, y))


# Pools.


def _max_pool(graph: Graph, step: Step, x: str) -> str:
    pool = Pool.of(step)
    sizes = {"kernel_shape": pool.windows.k, "strides": pool.windows.stride}
    return graph.add("MaxPool", step.name, x, **sizes, pads=_pads(pool.around))


def _avg_pool(graph: Graph, step: Step, x: str) -> str:
    """Cells outside the image do not count; with count_include_pad, cells outside the padded one do not."""
    pool = Pool.of(step)
    sizes = {"kernel_shape": pool.windows.k, "strides": pool.windows.stride}
    if not step.options.get("count_include_pad"):
        return graph.add("AveragePool", step.name, x, **sizes, pads=_pads(pool.around))
    (top, bottom), (left, right) = pool.given
    (_, below), (_, beside) = pool.around
    amounts = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    padded = graph.add("Pad", f"{step.name}/padded", x, graph.constant(f"{step.name}.pads", amounts))
    rest = ((0, max(0, below - bottom)), (0, max(0, beside - right)))
    return graph.add("AveragePool", step.name, padded, **sizes, pads=_pads(rest))


def _global_average(graph: Graph, step: Step, x: str) -> str:
    return graph.add("Flatten", step.name, graph.add("GlobalAveragePool", f"{step.name}/mean", x))


OPS: dict[Any, Callable[[Graph, Step, str], str]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    ops.crelu: _concatenated,
    ops.concatenated: _concatenated,
    ops.soft_threshold: _soft_threshold,
    ops.antirectifier: _antirectifier,
    ops.max_pool2d: _max_pool,
    ops.avg_pool2d: _avg_pool,
    ops.global_avg_pool: _global_average,
    ops.softmax: lambda graph, step, x: graph.add("Softmax", step.name, x, axis=1),
    ops.log_softmax: lambda graph, step, x: graph.add("LogSoftmax", step.name, x, axis=1),
}
