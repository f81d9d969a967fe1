"""A convolution and its activation in a Sequential: one op, where nothing else is asked for."""

import numpy as np
import pytest

from minicnn import Tape, nn, ops
from minicnn.fast.fused import conv2d_activated, conv2d_normalised
from tests.fast.native.ways import needs_compiler

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


def normalised(*following, bias=True):
    """A convolution and a batch normalisation that has seen something, in float64."""
    norm = nn.BatchNorm(6)
    model = nn.Sequential(nn.Conv2d(8, 6, 3, pad=1, bias=bias), norm, *following).initialise(1).to(dtype="float64")
    rng = np.random.default_rng(1)
    for numbers in (norm.gamma, norm.beta, norm.running_mean):
        numbers.data = rng.normal(size=6)
    norm.running_var.data = rng.uniform(0.1, 3, 6)
    return model


@needs_compiler
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("following", [(), (nn.ReLU(),), (nn.CReLU(),), (nn.MaxPool2d(2),), (nn.AVR(),)])
def test_in_evaluation_a_batch_norm_is_done_with_the_convolution(monkeypatch, following, bias):
    model, calls = normalised(*following, bias=bias), []
    *_, (_, alone) = model.trace(X)
    pair = conv2d_normalised._pair
    monkeypatch.setattr(conv2d_normalised, "_pair", lambda *given: calls.append(given) or pair(*given))
    np.testing.assert_allclose(model(X).data, alone, rtol=1e-11, atol=1e-11)
    assert len(calls) == 1


def test_a_tape_sees_all_parameters_of_a_batch_norm():
    model = normalised(nn.ReLU())
    with Tape() as tape:
        loss = model(X).sum()
    tape.backward(loss)
    assert all(p.grad is not None for p in model.parameters())


def test_a_batch_norm_that_does_not_fit_is_refused_as_ever():
    with pytest.raises(ValueError, match="batch_norm: expected"):
        nn.Sequential(conv(), nn.BatchNorm(5).to(dtype="float64"))(X)


def test_where_there_is_no_kernel_in_c_nothing_changes(monkeypatch):
    model = normalised(nn.CReLU())
    *_, (_, alone) = model.trace(X)
    monkeypatch.setenv("MINICNN_NATIVE", "0")
    np.testing.assert_allclose(model(X).data, alone, rtol=1e-11, atol=1e-11)
