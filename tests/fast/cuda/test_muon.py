"""Muon on a GPU: all parameters at once, with the results of the textbook."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Parameter
from minicnn.fast.cuda import kernels, muon
from minicnn.optim import Muon
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.standin import launches, no_synchronisation

pytestmark = needs_compiler

shapes = st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=4), min_size=1, max_size=5)
options = st.fixed_dictionaries(
    {
        "momentum": st.sampled_from([0.0, 0.9]),
        "weight_decay": st.sampled_from([0.0, 0.1]),
        "clip": st.sampled_from([None, 0.5]),
        "centred": st.booleans(),
        "keep_norm": st.booleans(),
        "iterations": st.sampled_from([1, 5]),
    }
)


def trained(put, shapes, dtype, late, options):
    """The parameters after three steps; number `late` has no gradient in the first."""
    rng = np.random.default_rng(0)
    parameters = [Parameter(put(rng.normal(size=shape).astype(dtype))) for shape in shapes]
    optimiser = Muon(parameters, 0.1, **options)
    for step in range(3):
        for i, p in enumerate(parameters):
            gradient = rng.normal(size=p.shape).astype(dtype)
            p.grad = None if (step, i) == (0, late) else put(gradient)
        with no_synchronisation():
            optimiser.step()
    return [p.data for p in parameters]


@given(shapes=shapes, options=options, data=st.data())
def test_equals_the_textbook(shapes, options, data):
    if options["centred"]:
        shapes = [[2, *shape] for shape in shapes]  # of a single row only rounding is left, and made large
    late = data.draw(st.integers(-1, len(shapes) - 1))
    dtype, tolerance = data.draw(st.sampled_from([("float64", 1e-10), ("float32", 1e-3)]))
    expected = trained(lambda x: x, shapes, "float64", late, options)
    with pytest.MonkeyPatch.context() as patch, standin_with_kernels() as device:
        patch.setattr(kernels, "MOST_BLOCKS", data.draw(st.sampled_from([1, 65_535])))
        patch.setattr(kernels, "WIDE", data.draw(st.sampled_from([0, 1 << 30])))
        for name in ("COLUMN_SHARES", "NORM_SHARES"):
            patch.setattr(muon, name, data.draw(st.sampled_from([1, 3, 64])))
        for ours, theirs in zip(trained(device.put, shapes, dtype, late, options), expected, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours.get(), theirs, rtol=tolerance, atol=tolerance)


def test_as_many_launches_for_many_parameters_as_for_one():
    counts = []
    with standin_with_kernels() as device:
        for number in (1, 7):
            parameters = [Parameter(device.put(np.eye(3, 4 + i))) for i in range(number)]
            optimiser = Muon(parameters, 0.1, centred=True, keep_norm=True)
            for p in parameters:
                p.grad = device.xp.ones_like(p.data)
            launches.clear()
            optimiser.step()
            counts.append(len(launches) - number)  # a velocity of zeros for each parameter, in its first step
    assert counts[0] == counts[1] <= 50
