"""Steps of all parameters in one launch equal the steps one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Parameter, optim
from minicnn.fast.cuda import kernels, update
from minicnn.fast.dispatch import OPTIMISERS
from minicnn.optim import SGD, Adam, Muon, Optimiser, grad_norm
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.standin import launches, no_synchronisation

pytestmark = needs_compiler

RULES = {
    "sgd": lambda p, clip: SGD(p, 0.1, clip=clip),
    "momentum": lambda p, clip: SGD(p, 0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, clip=clip),
    "nesterov": lambda p, clip: SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01, clip=clip),
    "adam": lambda p, clip: Adam(p, 0.1, weight_decay=0.01, clip=clip),
    "adam, other numbers": lambda p, clip: Adam(p, 0.1, betas=(0, np.float64(0.9)), eps=np.float64(1e-3), clip=clip),
}


def trained(rule, clip, shapes, dtype, put, late):
    """The parameters after three steps; number `late` has no gradient in the first."""
    rng = np.random.default_rng(0)
    parameters = [Parameter(put(rng.normal(size=shape).astype(dtype))) for shape in shapes]
    optimiser = RULES[rule](parameters, clip)
    for step in range(3):
        for i, p in enumerate(parameters):
            gradient = rng.normal(size=p.shape).astype(dtype)
            p.grad = None if (step, i) == (0, late) else put(gradient)
        with no_synchronisation():
            optimiser.step()
    return [p.data for p in parameters]


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_equals_the_steps_one_by_one(rule, data):
    shapes = data.draw(st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6))
    clip = data.draw(st.sampled_from([None, 0.5, 1e6]))
    late = data.draw(st.integers(-1, len(shapes) - 1))
    dtype, tolerance = data.draw(st.sampled_from([("float64", 1e-12), ("float32", 1e-4)]))
    expected = trained(rule, clip, shapes, "float64", lambda x: x, late)
    with pytest.MonkeyPatch.context() as patch, standin_with_kernels() as device:
        patch.setattr(kernels, "MOST_BLOCKS", data.draw(st.sampled_from([1, 65_535])))
        patch.setattr(kernels, "WIDE", data.draw(st.sampled_from([0, 1 << 30])))
        patch.setattr(update, "SHARES", data.draw(st.sampled_from([1, 3, 1 << 14])))
        for ours, theirs in zip(trained(rule, clip, shapes, dtype, device.put, late), expected, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours.get(), theirs, rtol=tolerance, atol=tolerance)


def test_a_table_is_uploaded_when_an_address_has_changed():
    with standin_with_kernels() as device:
        first, second, other = (device.put(np.ones(3)) for _ in range(3))
        there = update.table([[first, second]], [7, 8])
        addresses = [array.data.ptr for array in (first, second, other)]
        np.testing.assert_array_equal(there.get(), [[3, 6], addresses[:2], [7, 8]])
        assert update.table([[first, second]], [7, 8]) is there
        for rows, numbers in (([[first, other]], [7, 8]), ([[first, second]], [7, 9]), ([[second, first]], [7, 8])):
            assert update.table(rows, numbers) is not there
        for i in range(update.TABLES):  # and then the first is forgotten
            update.table([[first]], [i])
        assert len(update._tables) <= update.TABLES


def test_switched_off_there_are_no_kernels_for_the_norm_either(monkeypatch):
    monkeypatch.setenv("MINICNN_FAST", "0")
    with standin_with_kernels() as device:
        launches.clear()
        trained("momentum", 0.5, [(3,), (2, 2)], "float64", device.put, late=-1)
        assert launches
        assert not [name for name in launches if name.startswith("kernel")]


def test_one_launch_for_all_and_six_more_for_clipping():
    with standin_with_kernels() as device:
        parameters = [Parameter(device.put(np.ones(n))) for n in (3, 4, 5)]
        for clip, most in ((None, 1), (1.0, 7)):
            optimiser = SGD(parameters, 0.1, clip=clip)
            for p in parameters:
                p.grad = p.data * 1
            launches.clear()
            optimiser.step()
            assert len(launches) <= most, launches
            assert launches[-1] == "kernel sgd"


def test_what_cannot_be_reached_by_address_is_stepped_one_by_one():
    """Parameters that are views out of order; and an optimiser that changes the rule."""

    class Half(SGD):
        def update(self, p, g, state, lr, t):
            p -= lr * g / 2

    with standin_with_kernels() as device:
        turned = Parameter(device.put(np.ones((2, 3))).T)
        plain = Parameter(device.put(np.ones(2)))
        for optimiser, after in ((SGD([turned, plain], 1.0), 0), (Half([plain], 1.0), -0.5)):
            for p in (turned, plain):
                p.grad = device.xp.ones_like(p.data)
            launches.clear()
            optimiser.step()
            assert "kernel sgd" not in launches
            assert (plain.data.get() == after).all()


def test_a_version_belongs_to_a_rule_and_is_registered_by_one_row(monkeypatch):
    """A class that inherits `update` has its version; one that writes its own has none until that is registered."""

    class Renamed(SGD):
        pass

    class Signs(Optimiser):
        def update(self, p, g, state, lr, t):
            p -= lr * (g > 0)

    def by_kernel(rule, rows, scale, decay, lr, t):
        update._step("sgd", rows, scale, lr, decay, 0.0, 1.0, False, t == 1)

    def step(make):
        p = Parameter(device.put(np.ones(2)))
        p.grad = device.xp.ones_like(p.data)
        launches.clear()
        make([p], 1.0).step()
        return [name for name in launches if name.startswith("kernel")]

    with standin_with_kernels() as device:
        assert step(Renamed) == ["kernel sgd"]
        assert step(Signs) == []
        monkeypatch.setitem(optim.FASTER, Signs.update, [(update.fits, by_kernel)])
        assert step(Signs) == ["kernel sgd"]
        monkeypatch.setenv("MINICNN_FAST", "0")
        assert step(Signs) == step(SGD) == []


def test_every_rule_of_the_table_is_tried_here():
    kinds = {type(make([Parameter(np.ones(1))], None)) for make in RULES.values()}
    rules = {kind.update for kind in kinds} | {Muon.update_all}  # Muon: test_muon.py
    assert {function for function, *_ in OPTIMISERS} == {optim.norm, *rules}


def test_the_norm_of_gradients():
    with standin_with_kernels() as device:
        parameters = [Parameter(device.put(np.zeros(2))), Parameter(device.put(np.zeros(1)))]
        parameters[0].grad, parameters[1].grad = device.put(np.array([2.0, 3])), device.put(np.array([6.0]))
        assert float(grad_norm(parameters)) == 7
