"""Frames (section S1 of the paper): the operators, the bounds of a matrix and of a layer."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.gradcheck import check_adjoint
from minicnn.theory import frames
from minicnn.theory.frames import (
    analysis,
    frame_bounds,
    frame_operator,
    layer_bounds,
    norm_bounds,
    project,
    pseudoinverse,
    shift_matrix,
    synthesis,
)
from minicnn.theory.operators import Convolution
from tests import draw
from tests.devices import on_devices
from tests.theory.test_operators import covering_convolutions

MERCEDES = np.array([[0, math.sqrt(0.75), -math.sqrt(0.75)], [1, -0.5, -0.5]])  # three vectors at 120 degrees


@st.composite
def matrices(drawn, most=6):
    """W (D, K) of a known rank, often less than D and K: a product of two well-conditioned factors."""
    D, K = drawn(st.integers(1, most)), drawn(st.integers(1, most))
    rank = drawn(st.integers(1, min(D, K)))
    generator = draw.rng(drawn)
    left, right = (np.linalg.qr(generator.normal(size=(n, rank)))[0] for n in (D, K))
    return (left * generator.uniform(0.5, 2, rank)) @ right.T, rank


# --- a matrix of filters ---


def test_three_vectors_at_120_degrees_are_a_tight_frame():
    bounds = frame_bounds(MERCEDES)
    assert bounds.rank == 2
    np.testing.assert_allclose((bounds.lower, bounds.upper), 1.5)
    np.testing.assert_allclose(frame_operator(MERCEDES, np.array([2.0, -1.0])), [3, -1.5])


@given(matrices(), st.integers(0, 2**32 - 1))
def test_the_frame_operator_is_synthesis_after_analysis(drawn, seed):
    W, _ = drawn
    v, u = np.random.default_rng(seed).normal(size=(2, len(W)))
    check_adjoint(lambda x: analysis(W, x), lambda c: synthesis(W, c), v)
    np.testing.assert_allclose(frame_operator(W, v), synthesis(W, analysis(W, v)))
    np.testing.assert_allclose(u @ frame_operator(W, v), v @ frame_operator(W, u), atol=1e-12)
    np.testing.assert_allclose(analysis(W, v), [W[:, k] @ v for k in range(W.shape[1])], atol=1e-12)


@given(matrices(), st.integers(0, 2**32 - 1))
def test_frame_inequalities_hold_on_the_span_and_cannot_be_improved(drawn, seed):
    W, rank = drawn
    bounds = frame_bounds(W)
    assert bounds.rank == rank
    v = W @ np.random.default_rng(seed).normal(size=W.shape[1])
    square, energy = v @ v, ((W.T @ v) ** 2).sum()
    assert bounds.lower * square <= energy * (1 + 1e-9)
    assert energy <= bounds.upper * square * (1 + 1e-9)
    eigenvalues = np.linalg.eigvalsh(W @ W.T)[::-1]
    np.testing.assert_allclose((bounds.upper, bounds.lower), (eigenvalues[0], eigenvalues[rank - 1]), rtol=1e-9)


@given(matrices(), st.integers(0, 2**32 - 1))
def test_lemma_norms_on_the_span(drawn, seed):
    """Lemma normlowerbound: sigma_min ||x|| <= ||W' x|| <= sigma_max ||x|| for x in the range of W."""
    W, _ = drawn
    lower, norm, upper = norm_bounds(W, W @ np.random.default_rng(seed).normal(size=W.shape[1]))
    assert lower <= norm * (1 + 1e-9)
    assert norm <= upper * (1 + 1e-9)


def test_lemma_without_its_assumption():
    """Beyond the range of W the lower inequality fails, whatever sigma_min > 0."""
    lower, norm, upper = norm_bounds(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 1.0]))
    assert (norm, lower) == pytest.approx((0, math.sqrt(2)))
    assert norm <= upper


@given(matrices(), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_bounds_do_not_depend_on_names_signs_or_axes(drawn, scale, seed):
    W, rank = drawn
    bounds = frame_bounds(W)
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(len(W), len(W))))[0]
    signs = generator.choice([-1, 1], W.shape[1])
    for other in (generator.permutation(W, axis=1), W * signs, rotation @ W):
        np.testing.assert_allclose(frame_bounds(other), bounds, rtol=1e-9)
    np.testing.assert_allclose(frame_bounds(W * scale)[:2], np.multiply(bounds[:2], scale**2), rtol=1e-9)
    np.testing.assert_allclose(frame_bounds(np.hstack([W, W]))[:2], np.multiply(bounds[:2], 2), rtol=1e-9)
    one_more = frame_bounds(np.hstack([W, W[:, :1]]))  # adds w w' to S: no eigenvalue falls, none rises above ||w||^2
    assert one_more.rank == rank
    assert one_more.lower >= bounds.lower * (1 - 1e-9)
    assert one_more.upper <= bounds.upper + (W[:, 0] ** 2).sum() + 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_singular_values_below_the_rule_count_as_zero(dtype):
    eps = float(np.finfo(dtype).eps)
    assert frame_bounds(np.diag(np.array([1, 3 * eps], dtype))).rank == 2
    assert frame_bounds(np.diag(np.array([1, 1.5 * eps], dtype))).rank == 1
    assert frame_bounds(np.diag(np.array([1, 1.5 * eps], dtype))).lower == 1


@pytest.mark.parametrize("shape", [(2, 50), (50, 2)])
def test_the_rule_goes_by_the_longer_side(shape):
    """sigma > max(D, K) eps sigma_max: 50 eps here, not 2 eps."""
    eps = float(np.finfo(float).eps)
    for least, rank in ((60 * eps, 2), (40 * eps, 1)):
        W = np.zeros(shape)
        W[0, 0], W[1, 1] = 1, least
        assert frame_bounds(W).rank == rank


@given(matrices())
def test_moore_penrose_conditions(drawn):
    W, rank = drawn
    P = pseudoinverse(W)
    np.testing.assert_allclose(W @ P @ W, W, atol=1e-12)
    np.testing.assert_allclose(P @ W @ P, P, atol=1e-12)
    np.testing.assert_allclose((W @ P).T, W @ P, atol=1e-12)
    np.testing.assert_allclose((P @ W).T, P @ W, atol=1e-12)
    np.testing.assert_allclose(np.trace(W @ P), rank)


@given(matrices(), st.integers(0, 2**32 - 1))
def test_projection_is_the_nearest_point_of_the_span(drawn, seed):
    W, _ = drawn
    x = np.random.default_rng(seed).normal(size=len(W))
    nearest = W @ np.linalg.lstsq(W, x, rcond=1e-10)[0]
    np.testing.assert_allclose(project(W, x), nearest, atol=1e-12)
    np.testing.assert_allclose(pseudoinverse(W).T @ (W.T @ x), nearest, atol=1e-12)  # (W')+ W' x
    np.testing.assert_allclose(W.T @ (x - project(W, x)), 0, atol=1e-12)  # the rest is in ker W', not in "ker W"


# --- all shifts of 1-D filters ---


def test_shift_matrix_by_hand():
    W = shift_matrix(np.array([[1.0, 3.0], [2.0, 4.0]]), 4, stride=2)
    np.testing.assert_array_equal(W, [[1, 0, 3, 0], [2, 0, 4, 0], [0, 1, 0, 3], [0, 2, 0, 4]])


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_shift_matrix_is_correlation(length, K, stride, steps, seed):
    generator = np.random.default_rng(seed)
    D = length + steps * stride
    filters, x = generator.normal(size=(length, K)), generator.normal(size=D)
    W = shift_matrix(filters, D, stride=stride)
    expected = np.stack([np.correlate(x, filters[:, i], "valid")[::stride] for i in range(K)])  # (K, n)
    np.testing.assert_allclose((W.T @ x).reshape(K, -1), expected, atol=1e-12)
    as_images = Convolution(filters.reshape(1, length, 1, K), (1, D), stride=stride).dense()  # rows (n, K)
    np.testing.assert_array_equal(as_images.reshape(-1, K, D).transpose(2, 1, 0).reshape(D, -1), W)


# --- the bounds of a layer ---


@given(covering_convolutions())
def test_layer_bounds_of_a_small_layer_are_those_of_its_matrix(drawn):
    conv, _ = drawn
    found = layer_bounds(conv)
    assert found[:3] == pytest.approx(frame_bounds(conv.dense().T), rel=1e-9)
    rounding = max(conv.shape) * float(np.finfo(float).eps) * found.upper  # of an SVD; the rank is not changed by it
    assert rounding / max(conv.shape) <= found.lower_error <= rounding * (1 + 1e-9)
    assert rounding / max(conv.shape) <= found.upper_error <= rounding * (1 + 1e-9)


@pytest.mark.parametrize("filters", [30, 4], ids=["tall", "wide"])
@on_devices
def test_iteration_finds_the_bounds(device, filters, monkeypatch):
    generator = np.random.default_rng(0)
    w = generator.normal(size=(3, 3, 2, filters)).astype(np.float32)
    conv = Convolution(device.put(w), (9, 10), stride=2, pad=1)
    exact = layer_bounds(conv)
    assert exact.rank == min(conv.shape)
    monkeypatch.setattr(frames, "DENSE_ENTRIES", 0)
    found = layer_bounds(conv)
    assert found.rank is None
    np.testing.assert_allclose(found[:2], exact[:2], rtol=1e-5)
    assert max(found.lower_error, found.upper_error) < 1e-3 * found.lower
    too_few = layer_bounds(conv, iterations=2)
    assert too_few.lower >= exact.lower  # never below the truth, and it says how far it may be
    assert too_few.lower - exact.lower <= too_few.lower_error


def test_dependent_filters_are_replaced_by_independent_ones(monkeypatch):
    """40 filters of rank 2: many responses, but T is not injective; T T' of two filters is."""
    generator = np.random.default_rng(0)
    w = (generator.normal(size=(27, 2)) @ generator.normal(size=(2, 40))).reshape(3, 3, 3, 40)
    conv = Convolution(w, (8, 8), pad=1)
    exact = layer_bounds(conv)
    eigenvalues = np.linalg.svd(conv.dense(), compute_uv=False) ** 2
    np.testing.assert_allclose(exact[:2], eigenvalues[[exact.rank - 1, 0]])
    assert exact.rank == 2 * 8 * 8 < conv.shape[1] < conv.shape[0]
    monkeypatch.setattr(frames, "DENSE_ENTRIES", 0)
    np.testing.assert_allclose(layer_bounds(conv)[:2], exact[:2], rtol=1e-4)


def test_windows_in_the_padding_leave_no_lower_bound_by_iteration(monkeypatch):
    """12 of 16 windows lie in the padding: as many responses as pixels, but T' T and T T' are singular."""
    conv = Convolution(np.random.default_rng(0).normal(size=(1, 1, 2, 3)), (4, 4), stride=2, pad=2)
    exact = layer_bounds(conv)
    assert exact.rank == 2 * 4
    monkeypatch.setattr(frames, "DENSE_ENTRIES", 0)
    found = layer_bounds(conv)
    assert found.lower == 0.0
    assert found.upper == pytest.approx(exact.upper)


# --- devices and bad input ---


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_device(device, dtype):
    generator = np.random.default_rng(0)
    W = generator.normal(size=(5, 4)).astype(dtype)
    there, x = device.put(W), generator.normal(size=5).astype(dtype)
    rtol = 100 * np.finfo(dtype).eps
    for f in (analysis, frame_operator, project):
        result = f(there, device.put(x))
        assert result.dtype == dtype
        np.testing.assert_allclose(device.get(result), f(W, x), rtol=rtol)
    np.testing.assert_allclose(device.get(pseudoinverse(there)), np.linalg.pinv(W), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(frame_bounds(there), frame_bounds(W), rtol=rtol)
    np.testing.assert_allclose(norm_bounds(there, device.put(x)), norm_bounds(W, x), rtol=rtol)
    np.testing.assert_array_equal(device.get(shift_matrix(there, 9, stride=2)), shift_matrix(W, 9, stride=2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frame_bounds(np.zeros((3, 2))), "frame_bounds: W is zero"),
        (lambda: frame_bounds(np.ones(3)), r"frame_bounds: W must be a matrix \(D, K\)"),
        (lambda: frame_bounds(np.ones((0, 3))), "neither 0"),
        (lambda: frame_bounds(np.array([[1.0, np.nan]])), "NaN or infinite"),
        (lambda: frame_bounds(np.array([[1.0, np.inf]])), "NaN or infinite"),
        (lambda: frame_bounds(np.full((2, 2), 1e-200)), "scale W"),
        (lambda: frame_bounds(np.full((2, 2), 1e200)), "scale W"),
        (lambda: pseudoinverse(np.zeros((2, 2))), "W is zero"),
        (lambda: shift_matrix(np.ones(3), 5), r"shift_matrix: filters must be \(l, K\)"),
        (lambda: shift_matrix(np.ones((3, 1)), 2), "filters of length 3 do not fit D = 2"),
        (lambda: shift_matrix(np.ones((3, 1)), 6, stride=2), "do not fit D = 6 in steps of 2"),
        (lambda: shift_matrix(np.ones((3, 1)), 6, stride=0), "in steps of 0"),
        (lambda: layer_bounds(Convolution(np.ones((1, 1, 1, 1)), 1, stride=2, pad=1)), "W is zero"),  # only padding
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="W has dtype int64"):
        frame_bounds(np.ones((2, 2), int))
