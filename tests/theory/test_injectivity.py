"""Injective layers: exact tests against brute force, constants that are attained, verdicts with what they rest on."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.theory.injectivity import (
    NO,
    OPEN,
    YES,
    Constants,
    affine_modulus_is_injective,
    crelu_constants,
    has_opposites,
    least_filters,
    local_constants,
    modulus_constant,
    modulus_verdict,
    quiet_point,
    rank,
    relu_is_injective,
    relu_verdict,
    spectrum,
    through_layers,
    torus_constants,
    verdict,
)
from tests import draw
from tests.theory.test_frames import MERCEDES, matrices

SLACK = 1 + 1e-9
RHO = {"relu": ops.relu, "crelu": ops.crelu, "avr": ops.avr}


def shrink(activation, W, b, x, y):
    """||rho(W' x + b) - rho(W' y + b)|| / ||x - y|| of rows x, y (N, D)."""
    rho = RHO[activation]
    return np.linalg.norm(rho(x @ W + b) - rho(y @ W + b), axis=1) / np.linalg.norm(x - y, axis=1)


# --- CReLU ---


@given(matrices(), st.integers(0, 2**32 - 1))
def test_crelu_constants_hold_and_are_attained(drawn, seed):
    """sigma_min / sqrt 2 at plus and minus the least singular vector; sigma_max by a small step along the largest."""
    W, full = drawn
    D, K = W.shape
    generator = np.random.default_rng(seed)
    lower, upper = crelu_constants(W)
    b = generator.normal(size=K)
    x, y = generator.normal(size=(2, 20, D))
    for bias in (np.zeros(K), b):
        found = shrink("crelu", W, bias, x, y)
        assert found.min() * SLACK >= lower
        assert found.max() <= upper * SLACK
    u, s, _ = np.linalg.svd(W)
    least = u[:, -1:].T
    at_ends = shrink("crelu", W, 0, least, -least).item()
    if full == D:
        assert lower == pytest.approx(s[-1] / math.sqrt(2))
        assert at_ends == pytest.approx(lower)
        assert shrink("crelu", W, b, 1e5 * least, -1e5 * least).item() == pytest.approx(lower, rel=1e-3)
    else:
        assert lower == 0
        assert at_ends == pytest.approx(0, abs=1e-12)  # what no filter sees
    largest = u[:, :1].T
    start = 10 * x[:1]
    assert shrink("crelu", W, 0, start, start + 1e-7 * largest).item() == pytest.approx(upper, rel=1e-5)


def test_spectrum_and_rank():
    W = np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    np.testing.assert_allclose(spectrum(W), [3, 2, 0])
    assert rank(W) == 2
    assert rank(np.diag([1.0, 1e-9]).astype(np.float32)) == 1  # the rounding of its own precision
    assert rank(np.diag([1.0, 1e-9])) == 2


def test_several_layers():
    """The product of the constants holds for two layers."""
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(3, 5)), generator.normal(size=(10, 14))
    bound = through_layers([crelu_constants(first), crelu_constants(second)])
    x, y = generator.normal(size=(2, 500, 3))
    features = [ops.crelu(ops.crelu(v @ first) @ second) for v in (x, y)]
    found = np.linalg.norm(features[0] - features[1], axis=1) / np.linalg.norm(x - y, axis=1)
    assert bound.lower <= found.min()
    assert found.max() <= bound.upper
    assert through_layers([Constants(0.5, 2), Constants(0.25, 3)]) == (0.125, 6)


@pytest.mark.parametrize("filters", [2, 3, 5])
def test_a_torus_is_a_circulant_matrix(filters):
    """All singular values of the matrix of a 4 x 5 torus, built with loops."""
    generator = np.random.default_rng(filters)
    w = generator.normal(size=(3, 2, 3, filters))
    matrix = np.zeros((4, 5, 3, 4, 5, filters))  # what pixel (i, j, c) gives to response (p, q, f)
    for p, q, i, j, c, f in itertools.product(range(4), range(5), range(3), range(2), range(3), range(filters)):
        matrix[(p + i) % 4, (q + j) % 5, c, p, q, f] += w[i, j, c, f]
    s = np.linalg.svd(matrix.reshape(60, -1), compute_uv=False)
    lower, upper = torus_constants(w, (4, 5))
    assert upper == pytest.approx(s[0])
    assert lower == pytest.approx(s[-1] / math.sqrt(2) if filters >= 3 else 0)


# --- ReLU ---


def spans_everywhere_in_the_plane(W):
    """Whether S(x) spans for all x in R^2: between the angles where a response is 0, and at them."""
    angles = np.arctan2(W[1], W[0])
    critical = np.sort(np.concatenate((angles + np.pi / 2, angles - np.pi / 2)) % (2 * np.pi))
    between = (critical + np.append(critical[1:], critical[0] + 2 * np.pi)) / 2
    widths = np.append(critical[1:], critical[0] + 2 * np.pi) - critical
    for a in between[widths > 1e-9]:  # opposite filters have their critical angles in common
        on = W[:, np.array([np.cos(a), np.sin(a)]) @ W > 1e-9]
        if on.shape[1] < 2 or np.linalg.matrix_rank(on, tol=1e-9) < 2:
            return False
    return True


@given(K=st.integers(1, 7), data=st.data())
def test_relu_in_the_plane_against_all_directions(K, data):
    W = draw.rng(data.draw).integers(-3, 4, (2, K)).astype(float)
    W[0] += W[0] == 0  # no filter is zero
    assert relu_is_injective(W) == spans_everywhere_in_the_plane(W)


@given(D=st.integers(1, 3), data=st.data())
def test_relu_of_filters_and_their_negatives_is_injective_and_needs_them_all(D, data):
    """[B, -B Lambda]: 2 D filters are enough, one fewer is not (Puthawala et al.)."""
    generator = draw.rng(data.draw)
    B = np.linalg.qr(generator.normal(size=(D, D)))[0] * generator.uniform(0.5, 2, D)
    W = np.hstack((B, -B * generator.uniform(0.5, 2, D)))
    assert relu_is_injective(W)
    assert has_opposites(W)
    assert relu_verdict(W).injective == YES
    fewer = np.delete(W, generator.integers(2 * D), axis=1)
    assert not relu_is_injective(fewer)
    assert not has_opposites(fewer)


@given(D=st.integers(2, 3), extra=st.integers(0, 8), seed=st.integers(0, 2**32 - 1))
def test_a_refutation_names_two_inputs_that_look_alike(D, extra, seed):
    """From the quiet point, a step orthogonal to the filters that fire there."""
    W = np.random.default_rng(seed).normal(size=(D, D + extra))
    x, count = quiet_point(W, None, radius=1.0, starts=16, seed=0)
    assert count == (x @ W >= 0).sum()
    assert np.linalg.norm(x) == pytest.approx(1)
    found = relu_verdict(W, starts=16)
    if found.injective == YES:
        assert relu_is_injective(W)
    if local_constants(W, None, x[None])[0] == 0:
        assert found.injective == NO
        assert not relu_is_injective(W)
        on = W[:, x @ W >= 0]
        v = np.linalg.svd(on)[0][:, -1]
        np.testing.assert_allclose(ops.relu((x + 1e-6 * v) @ W), ops.relu(x @ W), atol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_relu_constant_is_between_half_and_all_of_its_local_one(seed):
    """sqrt(A)/2 <= kappa <= sqrt(A), A over all cells in the plane, kappa over many pairs."""
    generator = np.random.default_rng(seed)
    B = generator.normal(size=(2, 3))
    W = np.hstack((B, -B * generator.uniform(0.5, 2, 3)))
    a = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    local = local_constants(W, None, np.stack((np.cos(a), np.sin(a)), axis=1)).min()
    x, y = generator.normal(size=(2, 2000, 2))
    assert shrink("relu", W, 0, x, y).min() * SLACK >= local / 2
    directions = generator.normal(size=(50, 2))
    steps = shrink(
        "relu", W, 0, np.repeat(x[:50], 50, 0), np.repeat(x[:50], 50, 0) + 1e-6 * np.tile(directions, (50, 1))
    )
    assert steps.min() >= local * (1 - 1e-3)  # near x the layer is linear


def test_relu_constants_by_hand():
    """W = (1, -1): A = 1; x = 1 and y = -1 give (1, 0) and (0, 1), sqrt 2 apart: between 1/2 and 1."""
    W = np.array([[1.0, -1.0]])
    np.testing.assert_allclose(local_constants(W, None, np.array([[2.0], [-0.1]])), 1)
    assert shrink("relu", W, 0, np.array([[1.0]]), np.array([[-1.0]])).item() == pytest.approx(math.sqrt(0.5))
    np.testing.assert_allclose(local_constants(W, np.array([0.0, -1.0]), np.array([[-0.5], [-2.0]])), [0, 1])


def test_a_bias_makes_a_ball_injective_or_not():
    """b = 2 on the unit ball: all filters fire, and three directions are enough; b = -2: none does."""
    W = np.eye(3)
    assert relu_verdict(W).injective == NO
    assert relu_verdict(W, np.full(3, 2.0)).injective == OPEN  # nothing against it was found
    assert relu_verdict(W, np.full(3, 2.0), radius=3.0).injective == NO
    assert relu_verdict(W, np.full(3, -2.0)).injective == NO


# --- modulus ---


def test_three_vectors_at_120_degrees():
    """One of them alone has lambda_min 0, the other two 1/2: kappa = sqrt(1/2), and it is attained."""
    assert modulus_constant(MERCEDES) == pytest.approx(math.sqrt(0.5))
    assert modulus_verdict(MERCEDES).injective == YES
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 40_000, 2))
    apart = np.minimum(np.linalg.norm(x - y, axis=1), np.linalg.norm(x + y, axis=1))
    found = np.linalg.norm(abs(x @ MERCEDES) - abs(y @ MERCEDES), axis=1) / apart
    assert math.sqrt(0.5) <= found.min() * SLACK
    assert found.min() < math.sqrt(0.5) * 1.02


@given(K=st.integers(2, 5), data=st.data())
def test_the_complement_property_in_the_plane(K, data):
    """Two sets cover the filters; in the plane a set does not span iff its filters are parallel."""
    W = draw.rng(data.draw).integers(-2, 3, (2, K)).astype(float)
    W[0] += ~W.any(axis=0)
    parallel = lambda S: all(abs(np.linalg.det(W[:, pair])) < 1e-9 for pair in itertools.combinations(S, 2))
    sets = [[i for i in range(K) if bits >> i & 1] for bits in range(2**K)]
    fails = any(parallel(S) and parallel(sorted(set(range(K)) - set(S))) for S in sets)
    assert (modulus_constant(W) == 0) == fails
    assert (modulus_verdict(W).injective == NO) == fails


def test_the_modulus_with_a_bias():
    """|x| and |x + 1| determine x; |x| twice does not, nor |x + 1| twice; five filters in the plane do."""
    W = np.ones((1, 2))
    assert affine_modulus_is_injective(W, np.array([0.0, 1.0]))
    assert not affine_modulus_is_injective(W, np.zeros(2))
    assert not affine_modulus_is_injective(W, np.array([1.0, 1.0]))
    generator = np.random.default_rng(0)
    W, b = generator.normal(size=(2, 5)), generator.normal(size=5)
    assert affine_modulus_is_injective(W, b)
    assert not affine_modulus_is_injective(W, W.T @ [0.3, -2.0])  # as without bias, seen from another point
    assert not affine_modulus_is_injective(W[:, :2], b[:2])


# --- how many filters, and large layers ---


@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_least_number_of_filters(D):
    """With as many in general position, and with one fewer: E45."""
    W = np.random.default_rng(D).normal(size=(D, 2 * D))
    paired = np.hstack((W[:, :D], -W[:, :D]))
    needed = least_filters(D)
    assert crelu_constants(W[:, : needed["crelu"]]).lower > 0
    assert relu_is_injective(paired[:, : needed["relu"]])
    assert modulus_constant(W[:, : needed["avr"]]) > 0
    if D > 1:
        assert crelu_constants(W[:, : needed["crelu"] - 1]).lower == 0
        assert modulus_constant(W[:, : needed["avr"] - 1]) == 0
    assert not relu_is_injective(paired[:, : needed["relu"] - 1])


def test_verdicts_of_large_layers():
    generator = np.random.default_rng(0)
    W = generator.normal(size=(27, 96))
    assert verdict(W, "crelu").injective == YES
    assert verdict(W, "relu").injective == NO  # 96 Gaussian filters are too few for 27 dimensions
    assert verdict(W, "avr").injective == OPEN
    assert verdict(np.hstack((W, -W)), "relu").injective == YES
    few = generator.normal(size=(27, 26))
    assert {verdict(few, name).injective for name in RHO} == {NO}
    assert modulus_verdict(W[:, :40]).why.startswith("40 filters, fewer than 2 D - 1 = 53")


def test_many_more_filters_than_dimensions_leave_relu_undecided():
    W = np.random.default_rng(0).normal(size=(8, 400))
    found = relu_verdict(W)
    assert found.injective == OPEN
    assert int(found.why.split()[2]) > 100


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relu_is_injective(np.ones((9, 60))), "too many to try; use relu_verdict"),
        (lambda: modulus_constant(np.ones((2, 60))), "too many to try"),
        (lambda: crelu_constants(np.ones(3)), "W must be a matrix"),
        (lambda: torus_constants(np.ones((3, 3, 1, 1)), (2, 5)), "do not fit a torus of 2x5"),
        (lambda: verdict(np.ones((2, 2)), "tanh"), "crelu, relu or avr, got 'tanh'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nearly_opposite_filters_are_no_certificate():
    """1e-7 away from opposite: where the second filter does not fire, nor the fourth, the first alone does not span."""
    W = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1e-7, 1.0, -1.0]])
    assert not has_opposites(W)
    assert not relu_is_injective(W)
    assert relu_verdict(W).injective != YES
    x, y = np.array([-1e-8, -1.0]), np.array([-1.5e-8, -1.0])
    np.testing.assert_array_equal(np.maximum(W.T @ x, 0), np.maximum(W.T @ y, 0))
    assert has_opposites(np.array([[0.1, -0.3, 0.0, 0.0], [0.7, -2.1, 1.0, -1.0]]))  # but for rounding they are


@pytest.mark.parametrize("t", [1.0, 1e-6, 1e-12])
def test_the_lengths_of_filters_do_not_matter(t):
    """(e1, -e1, e2, t e3, -t e3): at -e2 only four filters fire, none of which sees e2."""
    e = np.eye(3)
    assert not relu_is_injective(np.stack([e[0], -e[0], e[1], t * e[2], -t * e[2]], axis=1))
    assert relu_is_injective(np.stack([e[0], -e[0], e[1], -e[1], t * e[2], -t * e[2]], axis=1))
    assert affine_modulus_is_injective(t * np.array([[1.0, 1.0]]), t * np.array([0.0, 1.0]))
    assert not affine_modulus_is_injective(t * np.array([[1.0]]), t * np.array([1.0]))


def test_a_small_bias_is_a_bias():
    """|x| and |x + b| determine x for every b != 0."""
    assert affine_modulus_is_injective(np.array([[1.0, 1.0]]), np.array([0.0, 1e-10]))
    assert not affine_modulus_is_injective(np.array([[1.0, 1.0]]), np.array([1e-10, 1e-10]))
