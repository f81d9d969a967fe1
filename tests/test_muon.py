"""Muon and the orthogonal matrices that its steps are, and optimisers that work together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.optim
from minicnn import Parameter
from minicnn.backend import CPU
from minicnn.optim import SGD, Adam, Muon, Together, newton_schulz, orthogonal
from minicnn.parallel import use_threads
from tests.devices import on_devices

SHAPES = [(3, 3, 4, 5), (1, 1, 2, 7), (6, 6), (9, 2), (1, 5), (5, 1), (1, 1)]


def stepped(shape, dtype, gradients, device=CPU, **options):
    """A parameter of ones after a step for each of the gradients."""
    p = Parameter(device.put(np.ones(shape, dtype)))
    optimiser = Muon([p], **options)
    for g in gradients:
        p.grad = device.put(g.astype(dtype))
        optimiser.step()
    return p.numpy()


@pytest.mark.parametrize("shape", SHAPES)
@on_devices
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("more", [{}, {"centred": True}, {"keep_norm": True}, {"centred": True, "keep_norm": True}])
def test_equals_the_loops(device, shape, dtype, tolerance, more):
    gradients = list(np.random.default_rng(0).normal(size=(3, *shape)))
    options = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.1, **more}
    expected = reference.optim.muon(np.ones(shape), gradients, iterations=5, **options)
    found = stepped(shape, dtype, gradients, device, **options)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


matrices = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(0, 999)).map(
    lambda drawn: np.random.default_rng(drawn[2]).normal(size=drawn[:2])
)


@given(u=matrices)
def test_singular_values_near_one_and_the_vectors_of_an_svd(u):
    """A' Q B is diagonal, with values near 1, for u = A S B'; those of tiny singular values may stay small."""
    a, s, b = np.linalg.svd(u, full_matrices=False)
    core = a.T @ newton_schulz(u, 5) @ b.T
    np.testing.assert_allclose(core - np.diag(np.diag(core)), 0, atol=1e-9)
    counted = s > 0.002 * np.linalg.norm(u)
    values = np.diag(core)[counted]
    assert (values > 0.68).all()
    assert (values < 1.21).all()


@given(u=matrices, seed=st.integers(0, 99), factor=st.sampled_from([1e-3, 7.0, 1e6]))
def test_turns_with_its_argument_and_ignores_its_size(u, seed, factor):
    """Q(R u T) = R Q(u) T for orthogonal R and T;  Q(c u) = Q(u);  Q(u') = Q(u)'."""
    rng = np.random.default_rng(seed)
    r, t = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in u.shape)
    q = newton_schulz(u, 5)
    np.testing.assert_allclose(newton_schulz(r @ u @ t, 5), r @ q @ t, atol=1e-9)
    np.testing.assert_allclose(newton_schulz(factor * u, 5), q, atol=1e-9)
    np.testing.assert_allclose(newton_schulz(u.T, 5), q.T, atol=1e-12)


def test_a_step_moves_every_response_alike_and_no_further_than_it_says():
    """Whatever the gradient's size: ||x (W - W')|| <= 1.21 lr s ||x||."""
    rng = np.random.default_rng(0)
    for shape, longer in (((3, 3, 4, 6), 1.0), ((4, 16), 2.0)):
        for size in (1e-3, 1e3):
            g = size * rng.normal(size=shape)
            moved = (1 - stepped(shape, "float64", [g], lr=0.1)).reshape(-1, shape[-1])
            values = np.linalg.svd(moved, compute_uv=False)
            assert 0.68 * 0.1 * longer < values.min() <= values.max() < 1.21 * 0.1 * longer


@given(u=matrices)
def test_centred_steps_leave_the_sum_of_each_filter_and_are_orthogonal_all_the_same(u):
    moved = 1 - stepped(u.shape, "float64", [u], lr=0.1, centred=True)
    np.testing.assert_allclose(moved.sum(axis=0), 0, atol=1e-9)
    expected = 1 - stepped(u.shape, "float64", [u - u.mean(axis=0)], lr=0.1)
    np.testing.assert_allclose(moved, expected, atol=1e-9)


@on_devices
def test_norms_are_kept_but_for_those_of_zeros(device):
    rng = np.random.default_rng(0)
    for start in (rng.normal(size=(3, 3, 2, 4)), np.zeros((3, 3, 2, 4))):
        kept, free = (Parameter(device.put(start.astype(np.float32))) for _ in range(2))
        optimisers = Muon([kept], lr=0.3, keep_norm=True), Muon([free], lr=0.3)
        for _ in range(20):
            kept.grad = free.grad = device.put(rng.normal(size=start.shape).astype(np.float32))
            for optimiser in optimisers:
                optimiser.step()
        if start.any():
            assert np.linalg.norm(kept.numpy()) == pytest.approx(np.linalg.norm(start), rel=1e-5)
            assert np.linalg.norm(free.numpy()) > 1.2 * np.linalg.norm(start)
        else:
            assert np.linalg.norm(kept.numpy()) == pytest.approx(2 * 0.3, rel=0.3)  # of its first step: 4 directions


def test_a_step_to_zero_is_taken():
    """W - Q(g) = 0 has no norm that could be scaled back, and stays finite."""
    g = np.eye(2)
    q = 1 - stepped((2, 2), "float64", [g], lr=1.0)
    p = Parameter(q.copy())
    p.grad = g
    Muon([p], lr=1.0, keep_norm=True).step()
    np.testing.assert_array_equal(p.data, 0)


@on_devices
def test_gradients_that_are_zero_tiny_or_not_finite(device):
    for dtype in ("float32", "float64"):
        np.testing.assert_array_equal(stepped((2, 3), dtype, [np.zeros((2, 3))], device, lr=1.0), 1)
        tiny = stepped((2, 3), dtype, [np.full((2, 3), 1e-30)], device, lr=1.0)
        np.testing.assert_allclose(tiny, 1, atol=1e-15)
        small, usual = (stepped((2, 3), dtype, [np.full((2, 3), size)], device, lr=1.0) for size in (1e-9, 1))
        assert (np.abs(small - 1) > 0.5 * np.abs(usual - 1)).all()  # hardly smaller
        for bad in (np.nan, np.inf, {"float32": 1e20, "float64": 1e200}[dtype]):  # the last has no square
            g = np.ones((2, 3))
            g[0, 1] = bad
            with np.errstate(invalid="ignore", over="ignore"):
                for more in ({}, {"keep_norm": True}):
                    assert np.isnan(stepped((2, 3), dtype, [g], device, lr=1.0, **more)).all()


@on_devices
def test_zeros_after_a_gradient_go_on_moving_a_parameter(device):
    """By whole steps: what is left of the velocity has another size, and Q ignores that."""
    g = np.random.default_rng(0).normal(size=(4, 4))
    before, after = (stepped((4, 4), "float64", [g] + n * [np.zeros((4, 4))], device, lr=0.1) for n in (30, 31))
    first = stepped((4, 4), "float64", [g], device, lr=0.1)
    assert np.linalg.norm(after - before) > 0.8 * np.linalg.norm(first - 1)


def test_stacks_of_wide_and_of_tall_matrices():
    u = np.random.default_rng(0).normal(size=(2, 3, 5, 4))
    for stack in (u, u.swapaxes(-2, -1)):
        found = newton_schulz(stack, 5)
        for index in np.ndindex(2, 3):
            np.testing.assert_allclose(found[index], newton_schulz(stack[index], 5), atol=1e-12)


def test_decay_shrinks_weights_by_itself():
    np.testing.assert_allclose(stepped((2, 2), "float64", [np.zeros((2, 2))] * 2, lr=0.5, weight_decay=0.2), 0.81)


def test_the_same_bits_on_any_number_of_threads():
    rng, results = np.random.default_rng(0), []
    us = [rng.normal(size=shape).astype(np.float32) for shape in ((27, 48), (300, 96), (300, 96), (96, 10))]
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(orthogonal(us))
    for others in results[1:]:
        for a, b in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Muon([Parameter(np.ones(3))], lr=0.1),
            r"parameter 0 has shape \(3,\), which is no matrix; leave it to",
        ),
        (lambda: Muon([Parameter(np.ones((2, 2))), Parameter(np.ones(()))], lr=0.1), "parameter 1 has shape"),
        (lambda: Muon([Parameter(np.ones((0, 2)))], lr=0.1), "which is no matrix"),
        (lambda: Muon([Parameter(np.ones((2, 2)))], lr=0.1, momentum=1.0), "momentum must be in"),
        (lambda: Muon([Parameter(np.ones((2, 2)))], lr=0.1, iterations=0), "a whole number above 0, got 0"),
        (lambda: Muon([Parameter(np.ones((2, 2)))], lr=0.1, iterations=2.5), "a whole number above 0, got 2.5"),
        (lambda: Together(), "got no optimisers"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def pair():
    matrix, vector = Parameter(np.ones((2, 3))), Parameter(np.ones(3))
    return Together(Muon([matrix], lr=0.1), Adam([vector], lr=0.2)), matrix, vector


def test_together_each_does_what_it_would_do_alone():
    together, matrix, vector = pair()
    alone = Parameter(np.ones((2, 3))), Parameter(np.ones(3))
    others = Muon([alone[0]], lr=0.1), Adam([alone[1]], lr=0.2)
    rng = np.random.default_rng(0)
    for _ in range(3):
        for p, q in zip((matrix, vector), alone, strict=True):
            p.grad = q.grad = rng.normal(size=p.shape)
        together.step()
        for optimiser in others:
            optimiser.step()
    np.testing.assert_array_equal(matrix.data, alone[0].data)
    np.testing.assert_array_equal(vector.data, alone[1].data)
    assert together.steps == 3
    assert together.lr(0) == 0.1


@pytest.mark.parametrize("name", ["lr", "weight_decay", "clip"])
def test_together_shows_the_rates_of_the_first_and_sets_none(name):
    together, _, _ = pair()
    match = rf"Together: each optimiser has its own {name}; set it there: together\.optimisers\[0\]\.{name} = 0\.5"
    with pytest.raises(AttributeError, match=match):
        setattr(together, name, 0.5)
    setattr(together.optimisers[0], name, 0.5)
    setattr(together.optimisers[1], name, 0.25)
    shown = getattr(together, name)
    assert (shown if name == "clip" else shown(0)) == 0.5


def test_a_parameter_belongs_to_one_of_them():
    p = Parameter(np.ones((2, 3)))
    with pytest.raises(ValueError, match="given twice"):
        Together(Muon([p], lr=0.1), SGD([p], lr=0.1))


def test_a_state_that_does_not_fit_changes_none_of_them():
    together, matrix, vector = pair()
    matrix.grad, vector.grad = np.eye(2, 3), np.ones(3)
    together.step()
    saved = together.state_dict()
    for broken in ({**saved, "2.steps": np.array(1)}, {**saved, "1.mean.0": np.ones(7), "0.steps": np.array(9)}):
        with pytest.raises(ValueError, match="does not fit"):
            together.load_state_dict(broken)
        assert [o.steps for o in together.optimisers] == [1, 1]
    assert sorted(saved) == ["0.steps", "0.updates", "0.velocity.0", "1.mean.0", "1.square.0", "1.steps", "1.updates"]


def test_a_rate_that_is_no_number_changes_nothing():
    matrix, vector = Parameter(np.ones((2, 3))), Parameter(np.ones(3))
    together = Together(Muon([matrix], lr=0.1), SGD([vector], lr=lambda step: np.nan if step else 0.1))
    for fails in (False, True):
        matrix.grad, vector.grad = np.eye(2, 3), np.ones(3)
        before = matrix.data.copy()
        if fails:
            with pytest.raises(ValueError, match="lr must be finite"):
                together.step()
            np.testing.assert_array_equal(matrix.data, before)
        else:
            together.step()
