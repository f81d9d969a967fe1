"""Batch normalisation: the op against torch.nn.functional.batch_norm, the layer against torch.nn.BatchNorm{1,2}d."""

import numpy as np
import pytest

from minicnn import Tape, Tensor, nn, ops
from tests.torch_parity.convert import F, assert_close_to_largest, compare, leaf, nchw, nhwc, normal, torch

SHAPES = {
    "images": (4, 5, 3, 6),
    "one-image": (1, 3, 5, 2),
    "pixels": (7, 1, 1, 3),
    "one-channel": (3, 4, 4, 1),
    "vectors": (8, 5),
    "vectors-one-channel": (6, 1),
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
epsilons = pytest.mark.parametrize("eps", [1e-5, 1e-2])


def channels_second(function, x):
    """function(x) for a PyTorch function of (N, C) or (N, C, H, W)."""
    return nhwc(function(nchw(x))) if x.ndim == 4 else function(x)


def inputs(shape, dtype):
    """x with a mean and a scale of its own in each channel, gamma and beta."""
    c = shape[-1]
    x, mean, log_scale, gamma, beta = normal(dtype, shape, (c,), (c,), (c,), (c,))
    return x * np.exp(log_scale) + 3 * mean, gamma, beta


@shapes
@epsilons
@pytest.mark.parametrize("given", [False, True], ids=["moments-computed", "moments-given"])
def test_training(shape, eps, given, dtype):
    x, gamma, beta = inputs(shape, dtype)
    moments = ops.batch_moments(x) if given else None
    compare(
        lambda x, gamma, beta: ops.batch_norm(x, gamma, beta, moments=moments, eps=eps),
        lambda x, gamma, beta: channels_second(
            lambda x: F.batch_norm(x, None, None, gamma, beta, training=True, eps=eps), x
        ),
        x,
        gamma,
        beta,
    )


@shapes
@epsilons
def test_evaluation(shape, eps, dtype):
    mean, log_var = normal(dtype, shape[-1:], shape[-1:], seed=2)
    var = np.exp(log_var)
    running = torch.tensor(mean), torch.tensor(var)
    compare(
        lambda x, gamma, beta: ops.batch_norm(x, gamma, beta, moments=(mean, var), fixed=True, eps=eps),
        lambda x, gamma, beta: channels_second(lambda x: F.batch_norm(x, *running, gamma, beta, eps=eps), x),
        *inputs(shape, dtype),
    )


def test_variance_below_eps(dtype):
    """Two samples, as close together as sqrt(eps): eps dominates."""
    x, gamma, beta = inputs((2, 4), dtype)
    compare(
        lambda x, gamma, beta: ops.batch_norm(x, gamma, beta),
        lambda x, gamma, beta: F.batch_norm(x, None, None, gamma, beta, training=True),
        np.asarray(1e-3 * x, dtype),
        gamma,
        beta,
    )


@pytest.mark.parametrize("shape", [(4, 5, 3, 6), (9, 6)], ids=["images", "vectors"])
@pytest.mark.parametrize("momentum", [0.1, 0.5])
def test_layer(shape, momentum, dtype):
    """Five batches in training, then one in evaluation: outputs, gradients and running statistics."""
    ours = nn.BatchNorm(shape[-1], momentum=momentum).to(dtype=dtype)
    kind = torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d
    theirs = kind(shape[-1], momentum=momentum, dtype=getattr(torch, dtype.name))
    for seed in range(5):
        x, mean, weights = normal(dtype, shape, shape[-1:], shape, seed=seed)
        tensor, other = Tensor(x + mean, requires_grad=True), leaf(x + mean)
        ours.zero_grad()
        with Tape() as tape:
            y = ours(tensor, train=True)
            loss = ops.reduce_sum(ops.multiply(y, weights))
        tape.backward(loss)
        theirs.zero_grad()
        expected = channels_second(theirs, other)
        expected.backward(torch.tensor(weights))
        assert_close_to_largest(y, expected, dtype)
        assert_close_to_largest(tensor.grad, other.grad, dtype, "gx")
        assert_close_to_largest(ours.gamma.grad, theirs.weight.grad, dtype, "ggamma")
        assert_close_to_largest(ours.beta.grad, theirs.bias.grad, dtype, "gbeta")
        assert_close_to_largest(ours.running_mean.data, theirs.running_mean, dtype, "running mean")
        assert_close_to_largest(ours.running_var.data, theirs.running_var, dtype, "running variance")
    (x,) = normal(dtype, shape, seed=9)
    assert_close_to_largest(ours(x), channels_second(theirs.eval(), torch.tensor(x)), dtype, "evaluation")
