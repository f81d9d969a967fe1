"""A convolution and its activation in a Sequential: one op, where nothing else is asked for."""

import numpy as np
import pytest

from minicnn import Tape, nn, ops
from minicnn.fast.fused import conv2d_activated

X = np.random.default_rng(0).normal(size=(2, 9, 9, 8))


class Doubled(nn.Conv2d):
    """A layer of somebody else's, derived from ours."""

    def forward(self, x, train, stream):
        return 2 * super().forward(x, train, stream)


def steps(model):
    """The names of the ops that a forward pass records."""
    with Tape() as tape:
        model(X, train=True)
    return [step.op.name for step in tape._steps]


def conv():
    return nn.Conv2d(8, 6, 3, pad=1).to(dtype="float64")


@pytest.mark.parametrize("activation", [nn.ReLU, nn.CReLU])
def test_two_layers_are_one_op(activation):
    model = nn.Sequential(conv(), activation(), nn.GlobalAvgPool())
    assert steps(model) == [conv2d_activated.name, "global_avg_pool"]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (lambda: (conv(), nn.AVR()), ["conv2d", "avr"]),
        (lambda: (conv(), nn.CReLU(ops.leaky_relu)), ["conv2d", "concatenated"]),
        (lambda: (conv(), nn.CReLU(axis=1)), ["conv2d", "crelu"]),
        (lambda: (conv(), nn.Dropout(0), nn.ReLU()), ["conv2d", "relu"]),
        (lambda: (conv(), nn.Sequential(nn.ReLU())), ["conv2d", "relu"]),
        (lambda: (Doubled(8, 6, 3).to(dtype="float64"), nn.ReLU()), ["conv2d", "multiply", "relu"]),
    ],
)
def test_others_stay_two(layers, expected):
    assert steps(nn.Sequential(*layers())) == expected


@pytest.mark.parametrize("activation", [nn.ReLU, nn.CReLU])
def test_together_they_give_what_each_gives_alone(activation):
    """Outputs and gradients; `trace` calls layer by layer."""
    model = nn.Sequential(conv(), activation()).initialise(1)
    *_, (_, alone) = model.trace(X)
    np.testing.assert_allclose(model(X).data, alone, rtol=1e-12, atol=1e-12)

    def gradients(forward):
        model.zero_grad()
        with Tape() as tape:
            loss = (forward() * forward()).sum()
        tape.backward(loss)
        return [p.grad for p in model.parameters()]

    apart = gradients(lambda: model[1](model[0](X)))
    for ours, theirs in zip(gradients(lambda: model(X)), apart, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
