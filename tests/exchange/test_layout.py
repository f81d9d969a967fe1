"""Weights in PyTorch's layout and back, with examples worked out by hand."""

import numpy as np
import pytest

from minicnn import nn
from minicnn.backend import device_of
from minicnn.exchange import load_pytorch_state, pytorch_state
from minicnn.exchange.layout import joined_groups
from tests.devices import on_devices
from tests.exchange.networks import every_network, images, with_random_state


def test_filters_are_turned():
    model = nn.Sequential(conv=nn.Conv2d(2, 3, (1, 4)))
    w = model["conv"].weight.data
    state = pytorch_state(model, (4, 4, 2))
    assert list(state) == ["conv.weight", "conv.bias"]
    assert state["conv.weight"].shape == (3, 2, 1, 4)
    assert state["conv.weight"][2, 1, 0, 3] == w[0, 3, 1, 2]


def test_a_layer_behind_flatten_is_reordered():
    """Two pixels of two channels: ours are listed as p0c0 p0c1 p1c0 p1c1, theirs as p0c0 p1c0 p0c1 p1c1."""
    model = nn.Sequential(
        flatten=nn.Flatten(), norm=nn.BatchNorm(4), act=nn.CReLU(), fc=nn.Linear(8, 1), last=nn.Linear(1, 2)
    )
    model["norm"].gamma.data[:] = [10, 11, 12, 13]
    model["norm"].running_mean.data[:] = [20, 21, 22, 23]
    model["fc"].weight.data[:, 0] = [0, 1, 2, 3, 4, 5, 6, 7]
    model["last"].weight.data[:] = [[1, 2]]
    state = pytorch_state(model, (1, 2, 2))
    assert state["norm.weight"].tolist() == [10, 12, 11, 13]
    assert state["norm.running_mean"].tolist() == [20, 22, 21, 23]
    assert state["fc.weight"].tolist() == [[0, 2, 1, 3, 4, 6, 5, 7]]
    assert state["last.weight"].tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("model", "shape"), [pytest.param(model, shape, id=name) for name, model, shape in every_network()]
)
def test_there_and_back(model, shape):
    before, y = model.state_dict(), model(images(shape)).numpy()
    state = pytorch_state(model, shape)
    with_random_state(model, seed=5)
    load_pytorch_state(model, {**state, "bn.num_batches_tracked": np.array(3)}, shape)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    np.testing.assert_array_equal(model(images(shape)).numpy(), y)


@on_devices
def test_weights_on_every_device(device):
    """Of a network on a GPU the arrays come to the host, and go back to where they were."""
    model = with_random_state(
        nn.Sequential(conv=nn.Conv2d(3, 2, 3), pool=nn.MaxPool2d(2), flat=nn.Flatten(), fc=nn.Linear(8, 2))
    )
    expected = pytorch_state(model, (6, 6, 3))
    state = pytorch_state(model.to(device), (6, 6, 3))
    assert all(isinstance(a, np.ndarray) and np.array_equal(a, expected[name]) for name, a in state.items())
    load_pytorch_state(model, {name: a + 1 for name, a in state.items()}, (6, 6, 3))
    assert device_of(model["fc"].weight.data) is device
    np.testing.assert_array_equal(pytorch_state(model, (6, 6, 3))["fc.weight"], expected["fc.weight"] + 1)


def test_a_square_matrix_is_turned():
    """Whoever forgets it gets no error, and a wrong network."""
    model = nn.Sequential(fc=nn.Linear(2, 2, bias=False))
    load_pytorch_state(model, {"fc.weight": np.array([[1.0, 2.0], [3.0, 4.0]])}, (2,))
    assert model(np.array([[1, 0]], np.float32)).numpy().tolist() == [[1, 3]]


def test_groups_are_joined():
    """Four filters in two groups over four channels: the first two filters see channels 0 and 1."""
    grouped = np.arange(1, 9, dtype=np.float32).reshape(4, 2, 1, 1)
    model = nn.Sequential(conv=nn.Conv2d(4, 4, 1, bias=False))
    load_pytorch_state(model, {"conv.weight": grouped}, (1, 1, 4), groups={"conv": 2})
    assert model["conv"].weight.data[0, 0].T.tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]
    with pytest.raises(ValueError, match="4 filters cannot be 3 groups"):
        joined_groups(grouped, 3)
    with pytest.raises(ValueError, match="there is no convolution fc"):
        load_pytorch_state(model, {"conv.weight": grouped}, (1, 1, 4), groups={"fc": 2})


def test_layers_are_matched_by_order_only_when_asked():
    model = nn.Sequential(conv=nn.Conv2d(3, 2, 1), pool=nn.GlobalAvgPool(), fc=nn.Linear(2, 4))
    theirs = {name.replace("conv", "features.0").replace("fc", "classifier.1"): array
              for name, array in pytorch_state(with_random_state(model), (2, 2, 3)).items()}  # fmt: skip
    before, other = model.state_dict(), with_random_state(nn.Sequential(**model.layers), seed=7)
    with pytest.raises(ValueError, match=r"missing: conv.weight \(2, 3, 1, 1\)"):
        load_pytorch_state(other, theirs, (2, 2, 3))
    load_pytorch_state(other, theirs, (2, 2, 3), by_order=True)
    assert all(np.array_equal(before[name], a) for name, a in other.state_dict().items())
    del theirs["classifier.1.weight"], theirs["classifier.1.bias"]
    with pytest.raises(ValueError, match=r"those of 1 layers \(features.0\), the model has 2 \(conv, fc\)"):
        load_pytorch_state(other, theirs, (2, 2, 3), by_order=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fc.bias": None}, "missing: fc.bias (4,)"),
        ({"more.weight": np.zeros(3)}, "unexpected: more.weight (3,)"),
        ({"fc.weight": np.zeros((3, 4))}, "misshapen: fc.weight is (3, 4), the model needs (4, 3)"),
        ({"fc.bias": np.array([0, np.nan, 0, 0])}, "not finite: fc.bias"),
        ({"fc.bias": np.array(["a", "b", "c", "d"])}, "not finite: fc.bias"),
    ],
)
def test_what_does_not_fit_changes_nothing(change, words):
    model = nn.Sequential(fc=nn.Linear(3, 4))
    before = model.state_dict()
    state = {"fc.weight": np.ones((4, 3)), "fc.bias": np.ones(4)} | change
    with pytest.raises(ValueError, match="do not fit") as caught:
        load_pytorch_state(model, {name: a for name, a in state.items() if a is not None}, (3,))
    assert words in str(caught.value)
    assert all(np.array_equal(before[name], a) for name, a in model.state_dict().items())
