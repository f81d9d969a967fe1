"""Weights from PyTorch: refused as they are where nothing shows that they were turned, right when they are."""

import numpy as np
import pytest

from minicnn import nn
from tests.torch_parity.convert import torch


class Square(nn.Module):
    """Shapes that are the same in PyTorch."""

    def __init__(self):
        self.linear, self.conv = nn.Linear(3, 3), nn.Conv2d(3, 3, 3)


@pytest.fixture
def theirs():
    layers = {"linear": torch.nn.Linear(3, 3), "conv": torch.nn.Conv2d(3, 3, 3)}
    return torch.nn.ModuleDict(layers).requires_grad_(False)


def test_as_they_are_they_are_refused(theirs):
    tensors = theirs.state_dict()
    for state in (tensors, {name: value.numpy() for name, value in tensors.items()}):
        with pytest.raises(
            TypeError, match=r"linear.weight \(3, 3\), conv.weight \(3, 3, 3, 3\) fits either way round"
        ):
            Square().load_state_dict(state)


def test_turned_as_the_message_says_they_compute_the_same(theirs):
    model, state = Square(), {name: value.numpy() for name, value in theirs.state_dict().items()}
    state["linear.weight"] = state["linear.weight"].T
    state["conv.weight"] = state["conv.weight"].transpose(2, 3, 1, 0)
    model.load_state_dict(state)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(model.linear(x).numpy(), theirs["linear"](torch.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    x = rng.normal(size=(2, 4, 4, 3)).astype(np.float32)
    expected = theirs["conv"](torch.tensor(x.transpose(0, 3, 1, 2))).numpy().transpose(0, 2, 3, 1)
    np.testing.assert_allclose(model.conv(x).numpy(), expected, rtol=1e-5, atol=1e-6)
