"""Reconstruction with max pooling, on signals: Algorithm 2, both bounds, and what each assumption is for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.theory.frames import frame_bounds, project, shift_matrix
from minicnn.theory.pooling import (
    Pooled,
    box_signal,
    most_of_one_sign,
    noise_gain,
    one_of_each_sign,
    pool_signal,
    ratio_bounds,
    reconstruct_signal,
    selected,
    shared_bound,
    solve,
    theorem_matrices,
    unconditional_bound,
)
from tests import draw

SLACK = 1 + 1e-9


def signal_ratio(filters, x, stride=1):
    """||x - x'|| / ||x||, by Algorithm 2."""
    found = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), len(x), stride=stride)
    return np.linalg.norm(x - found) / np.linalg.norm(x)


@st.composite
def signals(drawn, most=2):
    """Integer filters (l, K), coefficients c (K, n), D and the stride.

    Of each filter no shift is used, or one, or (unless most = 1) one with c > 0 and one with c < 0.
    """
    length, K, stride = drawn(st.integers(1, 3)), drawn(st.integers(1, 5)), drawn(st.integers(1, 2))
    n = drawn(st.integers(1, 4))
    generator = draw.rng(drawn)
    filters = generator.integers(-3, 4, (length, K)).astype(float)
    filters[generator.integers(length), np.arange(K)] = generator.choice([-3, -2, -1, 1, 2, 3], K)  # none is zero
    c = np.zeros((K, n))
    for i in range(K):
        used = generator.permutation(n)[: generator.integers(0 if i else 1, most + 1)]
        sign = generator.choice([-1, 1])
        c[i, used] = (generator.integers(1, 5, 2) * [sign, -sign])[: len(used)]
    return filters, c, length + (n - 1) * stride, stride


# --- Algorithm 2 ---


@given(signals(), st.integers(0, 2**32 - 1))
def test_algorithm_2_projects_on_the_selected_shifts(drawn, seed):
    """Against loops over filters and shifts, and least squares."""
    filters, _, D, stride = drawn
    x = np.random.default_rng(seed).integers(-3, 4, D).astype(float)
    columns, values = [], []
    for phase in (1, -1):
        for w in filters.T:
            r = [phase * (w @ x[j : j + len(w)]) for j in range(0, D - len(w) + 1, stride)]
            if max(r) > 0:
                j = r.index(max(r)) * stride
                columns.append(np.concatenate((np.zeros(j), w, np.zeros(D - len(w) - j))))
                values.append(phase * max(r))
    pooled = pool_signal(filters, x, stride=stride)
    W_hat, z = selected(filters, pooled, D, stride=stride)
    np.testing.assert_array_equal(W_hat.T, np.reshape(columns, (-1, D)))
    np.testing.assert_array_equal(z, values)
    np.testing.assert_allclose(z, W_hat.T @ x)
    nearest = W_hat @ np.linalg.lstsq(W_hat, x, rcond=1e-10)[0]
    np.testing.assert_allclose(reconstruct_signal(filters, pooled, D, stride=stride), nearest, atol=1e-9)


@given(signals(), st.floats(0.1, 10), st.integers(0, 2**32 - 1))
def test_names_scales_signs_and_copies_of_filters_do_not_matter(drawn, scale, seed):
    filters, _, D, stride = drawn
    generator = np.random.default_rng(seed)
    x = generator.normal(size=D)

    def recovered(filters):
        return reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)

    expected = recovered(filters)
    copied = np.hstack([filters, filters[:, :1]])
    for other in (filters * scale, -filters, generator.permutation(filters, axis=1), copied):
        np.testing.assert_allclose(recovered(other), expected, atol=1e-9)


def test_nothing_active_gives_zero():
    filters = np.array([[1.0], [-1.0]])  # a difference does not see a constant
    pooled = pool_signal(filters, np.ones(5))
    assert pooled.plus.tolist() == pooled.minus.tolist() == [-1]
    np.testing.assert_array_equal(reconstruct_signal(filters, pooled, 5), np.zeros(5))


# --- the theorem ---


@given(signals())
def test_theorem_both_bounds(drawn):
    """Of each filter at most one shift of each sign: of c, if the columns of W_x are independent."""
    filters, c, D, stride = drawn
    assert one_of_each_sign(c)
    x, W_x, W_tilde, W_hat = theorem_matrices(filters, c, D, stride=stride)
    if frame_bounds(W_x).rank == W_x.shape[1]:
        check_bounds(filters, x, W_x, W_tilde, W_hat, stride)


@given(st.one_of(signals(), signals(most=1)))
def test_theorem_for_any_rank(drawn):
    """Dependent columns too, with the signs of the responses W_x' x, or of the coefficients of least norm, W_x+ x."""
    filters, c, D, stride = drawn
    x, W_x, W_tilde, W_hat = theorem_matrices(filters, c, D, stride=stride, signs="responses")
    r, least = np.zeros_like(c), np.zeros_like(c)
    r[c != 0], least[c != 0] = W_x.T @ x, np.linalg.pinv(W_x, rcond=1e-10) @ x
    if x.any() and one_of_each_sign(r):
        check_bounds(filters, x, W_x, W_tilde, W_hat, stride)
    if x.any() and one_of_each_sign(least):
        x, _, W_tilde, W_hat = theorem_matrices(filters, least, D, stride=stride)
        check_bounds(filters, x, W_x, W_tilde, W_hat, stride)


def check_bounds(filters, x, W_x, W_tilde, W_hat, stride):
    """ratio <= tight <= paper, and the steps of our proof."""
    lower, upper = frame_bounds(W_x).lower, frame_bounds(W_tilde).upper
    explained = np.linalg.norm(W_tilde.T @ x) ** 2
    assert lower * (x @ x) <= explained * SLACK
    nearest = W_hat @ np.linalg.lstsq(W_hat, x, rcond=1e-10)[0]
    assert explained <= upper * (nearest @ nearest) * SLACK
    tight, paper = ratio_bounds(W_x, W_tilde)
    assert signal_ratio(filters, x, stride) <= tight * SLACK + 1e-7  # false if the bound is NaN
    assert tight <= paper * SLACK
    assert tight < 1


@given(st.floats(1, 100))
def test_the_papers_bound_says_nothing_where_ours_does(quotient):
    """For L / l = q: sqrt(1 - 1/q) < 1 always, sqrt(q - 1) >= 1 from q = 2 on."""
    tight, paper = ratio_bounds(np.full((1, 1), 3.0), np.full((1, 1), 3 * math.sqrt(quotient)))
    assert tight == pytest.approx(math.sqrt(1 - 1 / quotient), abs=1e-6)
    assert paper == pytest.approx(math.sqrt(quotient - 1), abs=1e-6)
    assert tight <= min(1, paper)


def test_one_filter_at_one_shift_is_recovered():
    """Both bounds are 0."""
    filters, c = np.array([[1.0], [2.0], [-1.0]]), np.array([[0, 0, 3.0, 0]])
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, 6)
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert signal_ratio(filters, x) < 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_our_bound_is_attained_at_a_tie(n):
    """A box of n ones, x = e_(n-1) - e_(2n-1): of n equal maxima the first is selected; l = 1, L = n, sqrt(1 - 1/n)."""
    filters, c, D = box_signal(n)
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, D)
    np.testing.assert_array_equal(np.flatnonzero(x), [n - 1, 2 * n - 1])
    halves = np.repeat([1 / n, -1 / n], n)
    np.testing.assert_allclose(reconstruct_signal(filters, pool_signal(filters, x), D), halves, atol=1e-12)
    assert (frame_bounds(W_x).lower, frame_bounds(W_tilde).upper) == pytest.approx((1, n))
    assert signal_ratio(filters, x) == pytest.approx(math.sqrt(1 - 1 / n), abs=1e-7)
    assert ratio_bounds(W_x, W_tilde) == pytest.approx((math.sqrt(1 - 1 / n), math.sqrt(n - 1)), abs=1e-6)


def test_without_ties_our_bound_is_approached_and_not_attained():
    """x = w^1 - (1 + d) w^2 with w = (1, 1): the maximum is at shift 0 alone, and the gap goes to 0 with d."""
    gaps = []
    for d in (1e-1, 1e-2, 1e-3):
        x, W_x, W_tilde, _ = theorem_matrices(np.ones((2, 1)), np.array([[0, 1, -1 - d]]), 4)
        assert pool_signal(np.ones((2, 1)), x).p.item() > (1 - d) * (1 + 1e-9)  # the response of the used shift
        gaps.append(ratio_bounds(W_x, W_tilde).tight - signal_ratio(np.ones((2, 1)), x))
    assert all(0 < gap < d for gap, d in zip(gaps, (1e-1, 1e-2, 1e-3), strict=True))


def test_unused_filters_would_weaken_the_bound():
    """E38: with a column for a filter that x does not use, L grows from 1 to 1.6, and the bound from 0."""
    filters, c = np.array([[1.0, 0.6], [0.0, 0.8]]), np.array([[1.0], [0.0]])
    x, W_x, W_tilde, W_hat = theorem_matrices(filters, c, 2)
    assert W_tilde.shape[1] == 1 < W_hat.shape[1] == 2
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert ratio_bounds(W_x, W_hat).tight == pytest.approx(math.sqrt(1 - 1 / 1.6))
    assert signal_ratio(filters, x) < 1e-7


# --- without its assumption ---


@st.composite
def crowded_signals(drawn):
    """As `signals`, but every shift of a filter may be used, with any sign."""
    filters, c, D, stride = drawn(signals())
    crowd = draw.rng(drawn).integers(-2, 3, c.shape).astype(float)
    return filters, np.where(crowd.any(), crowd, c), D, stride


@given(crowded_signals())
def test_the_bound_with_several_shifts_of_one_sign(drawn):
    """sqrt(1 - l/(mu L)), with the signs of the c of least norm or of the responses; and the unconditional one."""
    filters, c, D, stride = drawn
    x, W_x, _, W_hat = theorem_matrices(filters, c, D, stride=stride)
    if not x.any():
        return
    least, r = np.zeros_like(c), np.zeros_like(c)
    least[c != 0], r[c != 0] = np.linalg.pinv(W_x, rcond=1e-10) @ x, W_x.T @ x
    ratio = signal_ratio(filters, x, stride)
    for sign in (np.where(abs(least) > 1e-9, least, 0), np.where(abs(r) > 1e-9, r, 0)):
        W_tilde = W_hat[:, chosen_phases(filters, x, sign, stride)]
        assert ratio <= shared_bound(W_x, W_tilde, most_of_one_sign(sign)) * SLACK + 1e-7
    W = shift_matrix(filters, D, stride=stride)
    assert ratio <= unconditional_bound(W, W_hat, c.shape[1]) * SLACK + 1e-7


def chosen_phases(filters, x, sign, stride):
    """Which columns of W^ belong to a filter and a phase that occur in `sign` (K, n)."""
    pooled = pool_signal(filters, x, stride=stride)
    occur = [(sign > 0).any(axis=1)[pooled.plus >= 0], (sign < 0).any(axis=1)[pooled.minus >= 0]]
    return np.concatenate(occur)


@pytest.mark.parametrize("D", [2, 5, 100])
def test_the_bound_with_mu_is_attained_where_the_printed_one_fails(D):
    """E10's example, x = -(1, .., 1) and w = (1): mu = D, l = L = 1, and the ratio is sqrt(1 - 1/D) exactly."""
    c = -np.ones((1, D))
    x, W_x, W_tilde, W_hat = theorem_matrices(np.ones((1, 1)), c, D)
    assert most_of_one_sign(c) == D
    assert signal_ratio(np.ones((1, 1)), x) == pytest.approx(math.sqrt(1 - 1 / D))
    assert shared_bound(W_x, W_tilde, D) == pytest.approx(math.sqrt(1 - 1 / D))
    assert unconditional_bound(np.eye(D), W_hat, D) == pytest.approx(math.sqrt(1 - 1 / D))
    assert shared_bound(W_x, W_tilde, D - 1) < math.sqrt(1 - 1 / D) - 1e-6  # no smaller mu would do


def test_mu_by_hand():
    assert most_of_one_sign(np.array([[1.0, 2, -1, 0], [-1, -1, -3, 4]])) == 3
    assert most_of_one_sign(np.array([[1.0, 0, -1]])) == most_of_one_sign(np.zeros((2, 2))) == 1


@given(signals(), st.integers(0, 2**32 - 1))
def test_noise_adds_up_at_right_angles(drawn, seed):
    """||x - x^||^2 = ||x - x'||^2 + ||(W^')+ e||^2, and the last is at most ||e||^2 / sigma+_min^2: attained."""
    filters, _, D, stride = drawn
    generator = np.random.default_rng(seed)
    x = generator.normal(size=D)
    W_hat, z = selected(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    e = generator.normal(size=len(z))
    clean, noisy = (solve(W_hat, v) for v in (z, z + e))
    square = ((x - clean) ** 2).sum() + ((noisy - clean) ** 2).sum()
    assert ((x - noisy) ** 2).sum() == pytest.approx(square, rel=1e-6)
    _, s, vt = np.linalg.svd(W_hat, full_matrices=False)
    rank = int((s > 1e-9 * s[0]).sum())
    assert np.linalg.norm(noisy - clean) <= noise_gain(W_hat) * np.linalg.norm(e) * SLACK
    assert np.linalg.norm(solve(W_hat, vt[rank - 1])) == pytest.approx(noise_gain(W_hat), rel=1e-6)


def test_what_no_filter_sees_enters_the_bounds_as_its_share():
    """x = Q x + the rest: x' is that of Q x, so 1 - ratio^2 is multiplied by ||Q x||^2 / ||x||^2."""
    filters, c, D = box_signal(3)
    inside = theorem_matrices(filters, c, D).x
    outside = np.array([1.0, -1, 0, 0, 1, -1]) - project(shift_matrix(filters, D), np.array([1.0, -1, 0, 0, 1, -1]))
    x = inside + outside
    share = (inside @ inside) / (x @ x)
    assert 0.1 < share < 0.9
    assert 1 - signal_ratio(filters, x) ** 2 == pytest.approx(share * (1 - signal_ratio(filters, inside) ** 2))


# --- its assumptions, each violated ---


@pytest.mark.parametrize("D", [2, 5, 100])
def test_counterexample_the_assumption_as_printed(D):
    """E10.  Only positive coefficients are limited there: x = -(1, ..., 1) uses every shift of w = (1)."""
    filters, c = np.ones((1, 1)), -np.ones((1, D))
    assert not one_of_each_sign(c)
    assert ((c > 0).sum(axis=1) <= 1).all()
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, D)
    np.testing.assert_array_equal(W_x, np.eye(D))
    np.testing.assert_array_equal(W_tilde, np.eye(D)[:, :1])
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert signal_ratio(filters, x) == pytest.approx(math.sqrt((D - 1) / D))


def test_counterexample_two_shifts_of_one_filter():
    """The same with positive coefficients: this one the printed assumption excludes."""
    x, W_x, W_tilde, _ = theorem_matrices(np.ones((1, 1)), np.array([[1.0, 1.0]]), 2)
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert signal_ratio(np.ones((1, 1)), x) == pytest.approx(math.sqrt(0.5))


def test_one_shift_of_each_sign_is_allowed():
    """The paper asks for one shift of a filter; one with c > 0 and one with c < 0 do no harm: W~ has both."""
    x, W_x, W_tilde, _ = theorem_matrices(np.ones((1, 1)), np.array([[1.0, -1.0]]), 2)
    np.testing.assert_array_equal(W_tilde, np.eye(2))
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert signal_ratio(np.ones((1, 1)), x) < 1e-12


def test_counterexample_to_the_step_of_the_papers_proof():
    """E13.  ||W_x' x|| <= ||W~' x|| fails, as sign c_2 is not the sign of <w_2, x>; the theorem holds."""
    filters, c = np.array([[1, -0.6], [0, 0.8]]), np.array([[1.0], [0.2]])
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, 2)
    np.testing.assert_allclose(x, [0.88, 0.16])
    np.testing.assert_allclose(W_x.T @ x, [0.88, -0.4])
    assert ((W_x.T @ x) ** 2).sum() == pytest.approx(0.9344)
    assert ((W_tilde.T @ x) ** 2).sum() == pytest.approx(0.7744)
    np.testing.assert_array_equal(W_tilde[:, 0], [1, 0])
    assert W_tilde.shape[1] == 1
    tight, paper = ratio_bounds(W_x, W_tilde)
    assert signal_ratio(filters, x) <= tight <= paper
    tilde_by_responses = theorem_matrices(filters, c, 2, signs="responses").W_tilde
    assert ((tilde_by_responses.T @ x) ** 2).sum() >= ((W_x.T @ x) ** 2).sum()


def test_counterexample_the_missing_square():
    """E12.  l ||x||^2 <= ||W_x' x|| without the square: w = (3), x = 3 has 81 and 9."""
    x, W_x, _, _ = theorem_matrices(np.full((1, 1), 3.0), np.ones((1, 1)), 1)
    assert frame_bounds(W_x).lower * (x @ x) == pytest.approx(81)
    assert np.linalg.norm(W_x.T @ x) == pytest.approx(9)


def test_counterexample_the_wrong_denominator():
    """E11.  ||x - x~||^2 <= (L - l) / sigma_min(W~)^2 ||x~||^2 fails, and with l in the denominator is attained."""
    x, W_x, W_tilde, _ = theorem_matrices(np.ones((2, 1)), np.array([[0, 1.0, -1.0]]), 4)
    nearest = project(W_tilde, x)
    lower, (least, upper, _) = frame_bounds(W_x).lower, frame_bounds(W_tilde)
    assert (lower, least, upper) == pytest.approx((1, 2, 2))
    left, right = ((x - nearest) ** 2).sum(), (upper - lower) * (nearest @ nearest)
    assert left == pytest.approx(1)
    assert right / least == pytest.approx(0.5)
    assert right / lower == pytest.approx(1)


def test_counterexample_dependent_columns():
    """E34.  With c's signs and the least non-zero sigma: l > L, no bound at all, and x is not recovered."""
    filters = np.array([[-3, 0, 0, 2, -1], [1, 2, 1, -1, -1.0]])
    c = np.zeros((5, 2))
    c[np.arange(5), [0, 1, 0, 1, 0]] = [1, -1, 1, -3, -5]
    assert one_of_each_sign(c)
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, 3)
    np.testing.assert_array_equal(x, [2, 1, 1])
    assert frame_bounds(W_x).rank == 3 < W_x.shape[1]
    assert frame_bounds(W_x).lower == pytest.approx(3.5735, abs=1e-4)
    assert frame_bounds(W_tilde).upper == pytest.approx(2.618, abs=1e-3)
    assert all(math.isnan(bound) for bound in ratio_bounds(W_x, W_tilde))
    actual = signal_ratio(filters, x)
    assert actual == pytest.approx(0.408, abs=1e-3)
    W_tilde = theorem_matrices(filters, c, 3, signs="responses").W_tilde
    assert actual <= ratio_bounds(W_x, W_tilde).tight  # with the signs of the responses it holds


def test_counterexample_a_signal_that_the_filters_do_not_span():
    """x = w + something orthogonal: the bounds of w alone are 0, the ratio is not."""
    filters = np.array([[1.0], [0.0]])
    _, W_x, W_tilde, _ = theorem_matrices(filters, np.array([[1.0]]), 2)
    assert ratio_bounds(W_x, W_tilde) == (0, 0)
    assert signal_ratio(filters, np.array([1.0, 1.0])) == pytest.approx(math.sqrt(0.5))


def test_counterexample_two_responses_of_one_sign():
    """Dependent columns, and c with one shift of each sign: but both *responses* of w = (-2) are positive and share one
    pooled value.  The signs that choose W~ must themselves be one of each a filter."""
    filters, c = np.array([[-2.0, 1.0]]), np.array([[0, 4.0, -1.0], [0, 4.0, -4.0]])
    assert one_of_each_sign(c)
    x, W_x, W_tilde, _ = theorem_matrices(filters, c, 3, signs="responses")
    np.testing.assert_array_equal(x, [0, -4, -2])
    assert ratio_bounds(W_x, W_tilde).tight < 1e-7
    assert signal_ratio(filters, x) == pytest.approx(math.sqrt(0.2))


def test_opposed_filters_at_one_shift_make_the_columns_dependent():
    """The paper's own premise, w and -w, both used: sigma_min = 0 unless zeros are left out."""
    filters, c = np.array([[1.0, -1.0], [2.0, -2.0]]), np.array([[1.0, 0], [1.0, 0]])
    c[1, 0] = -2.0
    W_x = theorem_matrices(filters, c, 3).W_x
    assert np.linalg.svd(W_x, compute_uv=False)[-1] < 1e-15
    assert frame_bounds(W_x).rank == 1


def test_without_switches_signals_cannot_be_told_apart():
    """E14: f_cnn(e_1) = f_cnn(e_2)."""
    first, second = (pool_signal(np.ones((1, 1)), e) for e in np.eye(2))
    assert first[:2] == second[:2]
    assert first.plus != second.plus


def test_both_phases_of_a_filter_survive():
    """E15: after pooling p and q may both be positive, so z is (p, -q), and p - q is not a response."""
    x = np.array([2.0, -3.0])
    pooled = pool_signal(np.ones((1, 1)), x)
    assert (pooled.p.item(), pooled.q.item()) == (2, 3)
    np.testing.assert_allclose(reconstruct_signal(np.ones((1, 1)), pooled, 2), x)
    np.testing.assert_array_equal(selected(np.ones((1, 1)), pooled, 2)[1], [2, -3])
    assert (pooled.p - pooled.q).item() not in shift_matrix(np.ones((1, 1)), 2).T @ x


# --- bad input ---

SIGNAL = np.ones((2, 2))
POOLED = Pooled(np.ones(2), np.zeros(2), np.array([0, 1]), np.array([-1, -1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selected(SIGNAL, POOLED._replace(plus=np.array([0, 3])), 4), r"shifts in 0 \.\. 2 or -1"),
        (lambda: selected(SIGNAL, POOLED._replace(minus=np.array([-2, 0])), 4), r"shifts in 0 \.\. 2 or -1"),
        (lambda: selected(SIGNAL, POOLED._replace(plus=np.array([0])), 4), "switches must be 2 integers a phase"),
        (lambda: selected(SIGNAL, POOLED._replace(plus=np.array([0.0, 1.0])), 4), "switches must be 2 integers"),
        (lambda: theorem_matrices(SIGNAL, np.zeros((2, 3)), 4), r"c must be \(2, 3\), not all 0"),
        (lambda: theorem_matrices(SIGNAL, np.ones((3, 2)), 4), r"c must be \(2, 3\), not all 0, got shape \(3, 2\)"),
        (lambda: theorem_matrices(SIGNAL, np.ones((2, 3)), 4, signs="c"), "signs must be 'coefficients' or"),
        (lambda: pool_signal(np.ones(2), np.ones(4)), r"filters must be \(l, K\)"),
        (lambda: selected(np.ones(2), POOLED, 4), r"filters must be \(l, K\)"),
        (lambda: theorem_matrices(np.ones(2), np.ones((2, 3)), 4), r"filters must be \(l, K\)"),
        (lambda: pool_signal(SIGNAL, np.ones((4, 1))), r"x must be a signal \(D,\), got shape \(4, 1\)"),
        (lambda: pool_signal(SIGNAL, np.array([1, np.nan, 0, 0])), "x or the filters hold NaN or infinite"),
        (lambda: ratio_bounds(np.zeros((2, 1)), np.ones((2, 1))), "W is zero"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_filters_that_are_nan_are_refused():
    with pytest.raises(ValueError, match="x or the filters hold NaN"):
        pool_signal(np.array([[1.0, np.nan]]), np.array([1.0, 2.0]))


def test_a_factor_that_is_too_small_gives_no_bound():
    """l = 1 and L = 1/4: with mu = 4 the bound is 0, with less there is none."""
    W_x, W_tilde = np.eye(2), np.array([[0.5], [0.0]])
    assert shared_bound(W_x, W_tilde, 4) == 0
    assert np.isnan(shared_bound(W_x, W_tilde, 3))
