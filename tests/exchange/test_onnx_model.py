"""ONNX models give our outputs in ONNX Runtime, and say the names of our tables."""

import numpy as np
import onnx
import onnxruntime
import pytest

from minicnn import nn, ops
from minicnn.exchange import onnx_model
from minicnn.models import vgg
from tests.exchange.networks import LAYERS, assert_same, channels_last, every_network, images, with_random_state

EVERY = [pytest.param(model, shape, id=name) for name, model, shape in every_network()]


def run(content, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (y,) = session.run(["logits"], {"images": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    return channels_last(y)


@pytest.mark.parametrize(("model", "shape"), EVERY)
def test_onnx_runtime_computes_the_same(model, shape):
    content = onnx_model(model, shape)
    for count in (3, 1):  # any batch
        x = images(shape, count)
        assert_same(model(x).numpy(), run(content, x))


def test_every_layer_is_translated():
    """A new layer needs a row in tests/exchange/networks.py."""
    kinds = {kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, nn.Module)}
    used = {type(layer) for model in LAYERS.values() for _, layer in model.modules()}
    assert kinds - {nn.Module} <= used


def test_names_are_those_of_our_tables():
    model = with_random_state(vgg("crelu", (1,), scale=0.05))
    made = onnx.load_from_string(onnx_model(model, (32, 32, 3), about={"classes": "a, b"}))
    rows = [row.name for row in nn.describe(model, (32, 32, 3)).rows if row.layer != "Dropout"]
    assert [node.name for node in made.graph.node if "/" not in node.name] == rows
    weights = {w.name: tuple(w.dims) for w in made.graph.initializer}
    assert weights["conv1.weight"] == (2, 3, 3, 3)  # 64 filters, halved for CReLU, times 0.05
    assert weights["conv2_bn.running_var"] == (3,)
    assert {p.key: p.value for p in made.metadata_props} == {"classes": "a, b"}
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_a_skip_connection_is_a_sum_of_its_name():
    skip = nn.Residual(nn.Sequential(conv=nn.Conv2d(3, 2, 1), act=nn.CReLU()), nn.Conv2d(3, 4, 1))
    made = onnx.load_from_string(onnx_model(nn.Sequential(skip=skip), (5, 5, 3)))
    assert [node.name for node in made.graph.node if "/" not in node.name] == [
        "skip.body.conv", "skip.body.act", "skip.shortcut", "skip",
    ]  # fmt: skip
    assert {w.name for w in made.graph.initializer} >= {"skip.body.conv.weight", "skip.shortcut.bias"}


def test_a_batch_may_be_fixed():
    made = onnx.load_from_string(onnx_model(LAYERS["ReLU"], (9, 8, 3), batch=4))
    assert [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim] == [4, 3, 9, 8]


def test_both_precisions():
    model = with_random_state(nn.Sequential(nn.Conv2d(3, 2, 3), nn.CReLU(), nn.GlobalAvgPool())).to(dtype=np.float64)
    made = onnx.load_from_string(onnx_model(model, (5, 5, 3)))
    assert made.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE


class Doubled(nn.Conv2d):
    """Derived from a layer that is known, but not the same."""

    def forward(self, x, train, stream):
        return super().forward(x, train, stream) * 2


class DoubledSequential(nn.Sequential):
    def forward(self, x, train, stream):
        return super().forward(x, train, stream) * 2


class Own(nn.Module):
    def __init__(self):
        self.conv = nn.Conv2d(3, 2, 1)

    def forward(self, x, train, stream):
        return self.conv(x)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (DoubledSequential(nn.ReLU()), "first (DoubledSequential) has no translation to ONNX"),
        (Own(), "first: it is not known how Own keeps its weights"),
        (nn.Residual(nn.Conv2d(3, 2, 1)), "Residual: the body makes (1, 8, 8, 2) of x (1, 8, 8, 3)"),
        (Doubled(3, 2, 3), "first: it is not known how Doubled keeps its weights"),
        (nn.Activation(ops.crelu, axis=1), "first (Activation of crelu axis 1)"),
        (nn.Lambda(lambda x: x), "first (Lambda of"),
        (nn.CReLU(ops.antirectifier), "not elementwise"),
    ],
)
def test_what_is_unknown_is_refused(layer, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        onnx_model(nn.Sequential(first=layer, second=nn.GlobalAvgPool()), (8, 8, 3))
    assert words in str(caught.value)


@pytest.mark.parametrize("model", [DoubledSequential(nn.ReLU()), Own(), nn.ReLU(), nn.Residual(nn.ReLU())])
def test_what_is_no_sequence_of_layers_is_refused(model):
    with pytest.raises(TypeError, match=f"are nn.Sequential, of the layers of minicnn.nn; got {type(model).__name__}"):
        onnx_model(model, (8, 8, 3))


def test_sums_of_features_in_two_orders_are_refused():
    """Elsewhere the features behind a Flatten have another order; those of a Linear have ours."""
    model = nn.Sequential(nn.Flatten(), skip=nn.Residual(nn.Linear(12, 12)), last=nn.Linear(12, 2))
    with pytest.raises(ValueError, match="skip: what the Residual adds would be in two orders elsewhere"):
        onnx_model(model, (2, 2, 3))


def test_a_network_that_ends_in_another_order_is_refused():
    with pytest.raises(ValueError, match="there must be a Linear"):
        onnx_model(nn.Sequential(nn.Flatten()), (2, 2, 3))
