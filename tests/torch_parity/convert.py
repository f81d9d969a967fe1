"""Between minicnn and PyTorch: data, layouts and the one comparison that all tests here use.

minicnn has NHWC images and HWIO filters, PyTorch has NCHW and OIHW.  The leaves on both sides are in minicnn's
layout, and the PyTorch function permutes inside its own graph: its gradients then come out in minicnn's layout, too.
"""

import numpy as np
import pytest

from minicnn import Tape, Tensor, ops

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make parity` installs it and runs these tests")
torch.set_num_threads(1)
F = torch.nn.functional

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}  # of the largest expected value


def normal(dtype, *shapes, seed=0):
    """One array of standard normal values for each shape."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


def integers(dtype, *shapes, least=-2, most=2, seed=0):
    """One array of whole numbers for each shape: full of ties, and of zeros, where activations have their kink."""
    rng = np.random.default_rng(seed)
    return [rng.integers(least, most, shape, endpoint=True).astype(dtype) for shape in shapes]


def leaf(array):
    """A copy of an array as a PyTorch tensor that wants a gradient."""
    return torch.tensor(array, requires_grad=True)


def nchw(images):
    return images.permute(0, 3, 1, 2).contiguous()


def nhwc(images):
    return images.permute(0, 2, 3, 1)


def oihw(filters):
    return filters.permute(3, 2, 0, 1).contiguous()


def compare(ours, theirs, *arrays):
    """The value of ours(*arrays) and the gradient of each argument are those of theirs(*arrays).

    Both get leaves that hold `arrays` and give an array of the same layout.  What is differentiated is the sum of
    its entries, each weighted by a random number.
    """
    dtype = arrays[0].dtype
    tensors, leaves = [Tensor(a, requires_grad=True) for a in arrays], [leaf(a) for a in arrays]
    expected = theirs(*leaves)
    (weights,) = normal(dtype, tuple(expected.shape), seed=1)
    expected.backward(torch.tensor(weights))
    with Tape() as tape:
        y = ours(*tensors)
        assert_close_to_largest(y, expected, dtype)
        loss = ops.reduce_sum(ops.multiply(y, weights))
    tape.backward(loss)
    for i, (tensor, other) in enumerate(zip(tensors, leaves, strict=True)):
        assert_close_to_largest(tensor.grad, other.grad, dtype, f"gradient of argument {i}")


def assert_close_to_largest(ours, theirs, dtype, what="value"):
    """The same shape and dtype, the same NaNs and infinities, and elsewhere equal up to TOLERANCE * largest value.

    ours is a Tensor or an array, theirs a PyTorch tensor (None: no gradient, and ours must be None as well).
    """
    if theirs is None or ours is None:
        assert ours is theirs, f"{what}: {type(ours).__name__} here, {type(theirs).__name__} in PyTorch"
        return
    ours = ours.numpy() if isinstance(ours, Tensor) else np.asarray(ours)
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, in PyTorch {theirs.shape}"
    assert ours.dtype == theirs.dtype == dtype, f"{what}: {ours.dtype}, in PyTorch {theirs.dtype}, expected {dtype}"
    finite = np.isfinite(theirs)
    assert np.array_equal(ours[~finite], theirs[~finite], equal_nan=True), f"{what}: other NaNs or infinities"
    error = np.abs(ours[finite] - theirs[finite]).max(initial=0)  # NaN or infinite if ours is
    largest = np.abs(theirs[finite]).max(initial=0)
    assert error <= TOLERANCE[dtype.name] * largest, f"{what}: off by {error:.3g}, the largest value is {largest:.3g}"
