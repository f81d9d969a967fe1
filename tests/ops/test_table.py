"""The five checks of every op, driven by tests/cases.py."""

import os
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.autodiff import OPS
from minicnn.backend import device_of
from minicnn.gradcheck import check_gradient
from minicnn.tensor import scalar_as_array
from tests import standin
from tests.cases import CASES
from tests.devices import OTHERS, STANDIN, cast, on_devices, put
from tests.draw import TINY_STEP

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.name)


def versions(op):
    """The textbook, and where there are faster versions, whatever the dispatch table chooses."""
    yield "0"
    if op.faster:
        yield "1"


def test_every_op_has_a_row():
    ours = set(OPS)
    assert {case.op.name for case in CASES} == ours
    assert {name for name in ours if not hasattr(ops, name)} == {"conv2d_activated", "conv2d_normalised"}  # of fast


@every_case
@on_devices
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_example_worked_out_by_hand(case, device, dtype):
    arrays, static, expected = case.example
    y = case.op(*put(device, cast(dtype, arrays)), **static)
    assert y.dtype == dtype
    expected = np.asarray(expected)
    assert y.shape == expected.shape
    np.testing.assert_allclose(device.get(y), expected, rtol=1e-6, atol=1e-6)


@every_case
@given(data=st.data())
def test_equals_the_loops(case, data):
    arrays, static = data.draw(st.composite(case.draw)())
    expected = case.reference(*arrays, **static)
    for fast in versions(case.op):
        with mock.patch.dict(os.environ, MINICNN_FAST=fast):
            y = case.op(*arrays, **static)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


@every_case
@given(data=st.data())
def test_derivative_agrees_with_finite_differences(case, data):
    arrays, static = data.draw(st.composite(case.draw)())
    floats = [a for a in arrays if a.dtype == np.float64]
    integers = arrays[len(floats) :]
    for fast in versions(case.op):
        with mock.patch.dict(os.environ, MINICNN_FAST=fast):
            check_gradient(lambda *xs: case.op(*xs, *integers, **static), *floats, step=TINY_STEP)


@every_case
@given(data=st.data())
def test_law(case, data):
    arrays, static = data.draw(st.composite(case.draw)())
    case.law(case.op, *arrays, **static)


@every_case
@given(data=st.data())
def test_precision_and_device_change_nothing_but_rounding(case, data):
    arrays, static = data.draw(st.composite(case.draw)())
    y, grads = evaluate(case.op, arrays, static)
    for dtype, device_of_copy in [("float32", None), *((t, d) for t in ("float32", "float64") for d in OTHERS)]:
        copies = cast(dtype, arrays), {name: cast(dtype, value) for name, value in static.items()}
        if device_of_copy is not None:
            copies = put(device_of_copy, copies[0]), {n: put(device_of_copy, v) for n, v in copies[1].items()}
        other_y, other_grads = evaluate(case.op, *copies)
        tolerance = 2e-4 if dtype == "float32" else 1e-12
        for ours, other in zip((y, *grads), (other_y, *other_grads), strict=True):
            assert (ours is None) == (other is None)
            if ours is not None:
                assert other.dtype == dtype
                assert type(other) is (np.ndarray if device_of_copy is None else device_of_copy.xp.ndarray)
                host = other if device_of_copy is None else device_of_copy.get(other)
                np.testing.assert_allclose(
                    host, ours, rtol=tolerance, atol=tolerance * (1 + np.abs(ours).max(initial=0))
                )


@every_case
def test_nothing_waits_for_the_device(case):
    """A GPU runs ahead of the program until a value is fetched; no op may fetch one."""
    arrays, static, _ = case.example
    arrays = put(STANDIN, cast("float32", arrays))
    standin.reset_sync_count()
    y, vjp = case.op.pair(*arrays, **static)
    vjp(y)
    assert standin.sync_count() == 0


def evaluate(op, arrays, static):
    """y, and the gradients of a fixed combination of its entries."""
    y, vjp = op.pair(*arrays, **static)
    g = device_of(y).put(np.linspace(-1, 1, y.size).reshape(y.shape).astype(y.dtype))
    return y, [scalar_as_array(grad) for grad in vjp(g)]


@every_case
@on_devices
def test_arguments_are_not_written_to(case, device):
    arrays, static, _ = case.example
    arrays = put(device, cast("float64", arrays))
    before = [device.get(a).copy() for a in arrays]
    y, vjp = case.op.pair(*arrays, **static)
    g = device.put(np.ones(y.shape))
    vjp(g)
    assert (device.get(g) == 1).all()
    for array, old in zip(arrays, before, strict=True):
        assert (device.get(array) == old).all()
