"""The checks find wrong derivatives, and say which."""

import doctest

import numpy as np
import pytest

from minicnn import Parameter, Tensor, gradcheck, nn, ops
from minicnn.autodiff import op
from minicnn.gradcheck import GradientError, check_adjoint, check_gradient
from tests.devices import on_devices


def product_with(ga, gb):
    def product(a, b):
        return a * b, lambda g: (ga(g, a, b), gb(g, a, b))

    return op(product)


X, Y = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, -1.0])


@on_devices
def test_a_right_derivative_passes(device):
    right = product_with(lambda g, a, b: g * b, lambda g, a, b: g * a)
    assert check_gradient(right, device.put(X), device.put(Y)) < 1e-8


@pytest.mark.parametrize(
    ("ga", "gb", "culprit"),
    [
        (lambda g, a, b: g * b * 1.0001, lambda g, a, b: g * a, "argument 0"),
        (lambda g, a, b: g * b, lambda g, a, b: -g * a, "argument 1"),
        (lambda g, a, b: g * b, lambda g, a, b: g * a[::-1], "argument 1"),
        (lambda g, a, b: None, lambda g, a, b: g * a, "argument 0"),
        (lambda g, a, b: g * b * np.nan, lambda g, a, b: g * a, "argument 0"),
    ],
    ids=["scaled", "sign", "order", "missing", "nan"],
)
def test_a_wrong_derivative_fails(ga, gb, culprit):
    with pytest.raises(GradientError, match=rf"{culprit}: backpropagation gives .*, expected"):
        check_gradient(product_with(ga, gb), X, Y)


def test_a_layer_with_its_parameters():
    layer = nn.Conv2d(2, 3, 3, pad=1).to(dtype=np.float64)
    before = layer.weight.data.copy()
    layer.weight.grad = np.zeros_like(before)
    x = np.random.default_rng(0).normal(size=(2, 4, 4, 2))
    check_gradient(layer, x, parameters=layer.parameters())
    np.testing.assert_array_equal(layer.weight.data, before)
    np.testing.assert_array_equal(layer.weight.grad, 0)


def test_a_parameter_with_a_wrong_gradient_is_named():
    p = Parameter(np.ones(3))
    wrong = product_with(lambda g, a, b: g * b, lambda g, a, b: g * 0)
    with pytest.raises(GradientError, match="parameter 0"):
        check_gradient(lambda x: wrong(x, p), X, parameters=[p])


def test_single_precision_is_refused():
    with pytest.raises(TypeError, match="argument 0 has dtype float32; finite differences need float64"):
        check_gradient(ops.relu, X.astype(np.float32))


def test_small_derivatives_are_checked_too():
    def tiny(x):
        return 1e-7 * x * x, lambda g: (0 * g,)

    with pytest.raises(GradientError):
        check_gradient(op(tiny), X)


def test_gradients_come_back_when_a_check_fails():
    p = Parameter(np.ones(3))
    p.grad = np.full(3, 7.0)
    wrong = product_with(lambda g, a, b: g * b, lambda g, a, b: g * 0)
    with pytest.raises(GradientError):
        check_gradient(lambda x: wrong(x, p), X, parameters=[p])
    np.testing.assert_array_equal(p.grad, 7)
    np.testing.assert_array_equal(p.data, 1)


def test_a_kink_is_noticed():
    """At 0 the two sides of |x| differ, and no gradient agrees with a central difference of relu."""
    with pytest.raises(GradientError):
        check_gradient(ops.relu, np.zeros(3))


@on_devices
def test_adjoint(device):
    matrix = device.put(np.arange(6.0).reshape(2, 3))
    x = device.put(np.zeros(3))
    check_adjoint(lambda v: matrix @ v, lambda r: matrix.T @ r, x)
    with pytest.raises(GradientError, match="the adjoint"):
        check_adjoint(lambda v: matrix @ v, lambda r: 2 * (matrix.T @ r), x)


def test_the_example_in_the_docstring():
    assert doctest.testmod(gradcheck).failed == 0


def test_a_function_of_tensors():
    check_gradient(lambda a, b: ops.softmax((a * b).reshape(1, 3)) @ Tensor(np.ones((3, 2))) + a.mean(), X, Y)


def test_a_parameter_that_is_not_used_has_no_gradient_whatever_it_had():
    unused = Parameter(np.ones(2))
    unused.grad = before = np.ones(2)
    check_gradient(ops.crelu, X, parameters=[unused])
    assert unused.grad is before


def test_a_layer_keeps_the_gradients_that_it_had():
    """Also if its parameters are not checked: the next step of a training would add to them."""
    layer = nn.Linear(3, 2).initialise(seed=0)
    layer.to(dtype=np.float64)
    layer.bias.grad = before = np.ones(2)
    check_gradient(layer, X[None])
    assert layer.weight.grad is None
    assert layer.bias.grad is before
