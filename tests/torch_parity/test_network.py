"""A small whole network: loss, the gradients of all parameters and of the images, state, evaluation."""

import numpy as np
import pytest

from minicnn import Tape, Tensor, nn, ops
from tests.torch_parity.convert import (
    F,
    assert_close_to_largest,
    integers,
    leaf,
    nchw,
    nhwc,
    normal,
    oihw,
    torch,
)

CLASSES = 5


def network(dtype):
    """The second convolution has no bias: before a batch normalisation its gradient would be rounding errors alone."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 5, pad=2),
        nn.CReLU(),
        nn.MaxPool2d(3, stride=2, ceil=True),
        nn.Conv2d(8, 6, 3, stride=2, pad=1, bias=False),
        nn.BatchNorm(6),
        nn.ReLU(),
        nn.GlobalAvgPool(),
        nn.Linear(6, CLASSES),
    ).to(dtype=dtype)
    state = model.state_dict()
    shifts = normal(dtype, *(array.shape for array in state.values()), seed=3)
    model.load_state_dict({name: a + 0.1 * s**2 for (name, a), s in zip(state.items(), shifts, strict=True)})
    return model


def torch_network(x, state, train):
    """The logits of the same network, written with PyTorch's functions; in training it updates the running state."""
    x = F.conv2d(nchw(x), oihw(state["0.weight"]), state["0.bias"], padding=2)
    x = torch.cat((F.relu(x), F.relu(-x)), 1)
    x = F.max_pool2d(x, 3, 2, ceil_mode=True)
    x = F.conv2d(x, oihw(state["3.weight"]), stride=2, padding=1)
    running = state["4.running_mean"], state["4.running_var"]
    x = F.relu(F.batch_norm(x, *running, state["4.gamma"], state["4.beta"], training=train))
    return F.linear(nhwc(x).mean((1, 2)), state["7.weight"].T, state["7.bias"])


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("train", [True, False], ids=["training", "evaluation"])
def test_network(train, dtype):
    model = network(dtype)
    own = dict(model.named_state())
    state = {
        name: torch.tensor(array, requires_grad="running" not in name) for name, array in model.state_dict().items()
    }
    (images,) = normal(dtype, (7, 12, 13, 3))
    (labels,) = integers(np.int64, (7,), least=0, most=CLASSES - 1)

    x, other_x = Tensor(images, requires_grad=True), leaf(images)
    with Tape() as tape:
        logits = model(x, train=train)
        loss = ops.softmax_cross_entropy(logits, labels)
    tape.backward(loss)
    other_logits = torch_network(other_x, state, train)
    other_loss = F.cross_entropy(other_logits, torch.tensor(labels))
    other_loss.backward()

    assert_close_to_largest(logits, other_logits, dtype, "logits")
    assert_close_to_largest(loss, other_loss, dtype, "loss")
    assert_close_to_largest(x.grad, other_x.grad, dtype, "gradient of the images")
    for name, tensor in state.items():
        assert_close_to_largest(own[name].data, tensor, dtype, name)
        if tensor.requires_grad:
            assert_close_to_largest(own[name].grad, tensor.grad, dtype, f"gradient of {name}")
