"""Reconstruction with max pooling: Algorithm 2, both bounds, what each assumption is for, and the fast version."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.theory.frames import frame_bounds, shift_matrix
from minicnn.theory.pooling import (
    Pooled,
    PooledConvolution,
    PooledMaps,
    one_of_each_sign,
    pool_signal,
    ratio_bounds,
    reconstruct_signal,
    selected,
    theorem_matrices,
)
from tests import draw
from tests.devices import on_devices

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


# --- its assumptions, each violated ---


@pytest.mark.parametrize("D", [2, 5, 100])
def test_counterexample_the_assumption_as_printed(D):
    """PAPER 4.3 (a).  Only positive coefficients are limited there: x = -(1, ..., 1) uses every shift of w = (1)."""
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
    """PAPER 4.3 (b).  ||W_x' x|| <= ||W~' x|| fails, as sign c_2 is not the sign of <w_2, x>; the theorem holds."""
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


def test_counterexample_dependent_columns():
    """PAPER 4.3 (c).  With c's signs and least non-zero sigma: l > L, no bound at all, and x is not recovered."""
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
    """PAPER 4.3 (d): f_cnn(e_1) = f_cnn(e_2)."""
    first, second = (pool_signal(np.ones((1, 1)), e) for e in np.eye(2))
    assert first[:2] == second[:2]
    assert first.plus != second.plus


def test_both_phases_of_a_filter_survive():
    """PAPER 4.3 (d): after pooling p and q may both be positive, so z is (p, -q), and p - q is not a response."""
    x = np.array([2.0, -3.0])
    pooled = pool_signal(np.ones((1, 1)), x)
    assert (pooled.p.item(), pooled.q.item()) == (2, 3)
    np.testing.assert_allclose(reconstruct_signal(np.ones((1, 1)), pooled, 2), x)
    np.testing.assert_array_equal(selected(np.ones((1, 1)), pooled, 2)[1], [2, -3])
    assert (pooled.p - pooled.q).item() not in shift_matrix(np.ones((1, 1)), 2).T @ x


# --- feature maps ---


@st.composite
def pooled_convolutions(drawn):
    """Any geometry, small integers (ties, dependent and zero filters, dead regions), with and without bias."""
    kh, kw, c, f = (drawn(st.integers(1, n)) for n in (3, 3, 2, 4))
    k = draw.sizes(drawn, 1, 3)
    most_pad = (min(k) if isinstance(k, tuple) else k) - 1
    generator = draw.rng(drawn)
    w = generator.integers(-2, 3, (kh, kw, c, f)).astype(float)
    w[0, 0, 0, 0] = 1
    b = generator.integers(-3, 4, f).astype(float) if drawn(st.booleans()) else None
    conv = {"stride": draw.sizes(drawn, 1, 2), "pad": draw.padding(drawn, 2)}
    pool = {"k": k, "pool_stride": draw.sizes(drawn, 1, 3), "pool_pad": draw.padding(drawn, most_pad)}
    (sh, sw), (ph, pw) = ((v if isinstance(v, tuple) else (v, v)) for v in (conv["stride"], k))
    size = (kh + sh * (ph - 1) + drawn(st.integers(0, 4)), kw + sw * (pw - 1) + drawn(st.integers(0, 4)))
    x = generator.integers(-2, 3, (2, *size, c)).astype(float)
    return PooledConvolution(w, b, **conv, **pool, ceil=drawn(st.booleans())), x, conv, pool


def naive_regions(layer, x, conv, pool):
    """Yields region, patch, W^, z: loops over regions, filters and cells, from the responses of conv2d."""
    linear = ops.conv2d(x, layer.w, **conv)  # without the bias
    y = linear if layer.b is None else linear + layer.b
    (kh, kw, c, f), (ph, pw) = layer.w.shape, layer.k
    (sh, sw), (psh, psw) = ((v if isinstance(v, tuple) else (v, v)) for v in (conv["stride"], pool["pool_stride"]))
    pads = [v if isinstance(v, tuple) else (v, v) for v in (conv["pad"], pool["pool_pad"])]
    (top, left), (ptop, pleft) = ((a[0] if isinstance(a, tuple) else a for a in pad) for pad in pads)
    n, oh, ow, _ = y.shape
    far = 40  # a large canvas: pixels around, then only those that some response looks at
    canvas = np.zeros((n, x.shape[1] + 2 * far, x.shape[2] + 2 * far, c))
    canvas[:, far : far + x.shape[1], far : far + x.shape[2]] = x
    canvas[:, far - top + (oh - 1) * sh + kh :] = 0
    canvas[:, :, far - left + (ow - 1) * sw + kw :] = 0
    for image, P, Q in np.ndindex(layer.pool(x).values.shape[:3]):
        p0, q0 = P * psh - ptop, Q * psw - pleft  # the first response of the window
        i0, j0 = far - top + p0 * sh, far - left + q0 * sw
        height, width = (ph - 1) * sh + kh, (pw - 1) * sw + kw
        patch = canvas[image, i0 : i0 + height, j0 : j0 + width]
        columns, z = [], []
        for phase in (1, -1):
            for filter_ in range(f):
                cells = [(i, j) for i, j in np.ndindex(ph, pw) if 0 <= p0 + i < oh and 0 <= q0 + j < ow]
                values = [phase * y[image, p0 + i, q0 + j, filter_] for i, j in cells]
                if max(values) > 0:
                    i, j = cells[values.index(max(values))]
                    column = np.zeros((height, width, c))
                    column[i * sh : i * sh + kh, j * sw : j * sw + kw] = layer.w[..., filter_]
                    columns.append(column.ravel())
                    z.append(linear[image, p0 + i, q0 + j, filter_])
        yield (image, P, Q), patch, np.reshape(columns, (-1, patch.size)).T, np.array(z)


@given(pooled_convolutions())
def test_every_region_at_once_is_least_squares_in_each(drawn):
    layer, x, conv, pool = drawn
    ratios, patches, pooled = layer.ratios(x), layer.patches(x), layer.pool(x)
    for region, patch, W_hat, z in naive_regions(layer, x, conv, pool):
        np.testing.assert_array_equal(patches[region], patch)
        np.testing.assert_allclose(W_hat.T @ patch.ravel(), z, atol=1e-12)
        nearest = (W_hat @ np.linalg.lstsq(W_hat, patch.ravel(), rcond=1e-10)[0]).reshape(patch.shape)
        np.testing.assert_allclose(layer.reconstruct(pooled, [region])[0], nearest, atol=1e-8)
        square = (patch**2).sum()
        expected = ((patch - nearest) ** 2).sum() / square if square else 0
        assert ratios[region] ** 2 == pytest.approx(expected, abs=1e-7)


@given(signals(), st.integers(0, 2**32 - 1))
def test_a_signal_is_a_map_of_one_region(drawn, seed):
    filters, c, D, stride = drawn
    x = np.random.default_rng(seed).normal(size=D)
    layer = PooledConvolution(
        filters.reshape(1, -1, 1, filters.shape[1]), stride=(1, stride), k=(1, c.shape[1]), pool_stride=1
    )
    image = x.reshape(1, 1, D, 1)
    assert layer.ratios(image).item() ** 2 == pytest.approx(signal_ratio(filters, x, stride) ** 2, abs=1e-9)
    signal = reconstruct_signal(filters, pool_signal(filters, x, stride=stride), D, stride=stride)
    np.testing.assert_allclose(layer.reconstruct(layer.pool(image), [(0, 0, 0)]).ravel(), signal, atol=1e-9)


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_on_every_device(device, dtype):
    generator = np.random.default_rng(0)
    w, b = generator.normal(size=(3, 3, 4, 6)).astype(dtype), generator.normal(size=6).astype(dtype)
    x = generator.normal(size=(3, 9, 8, 4)).astype(dtype)
    x[0, :6] = 0
    here, there = (PooledConvolution(put(w), put(b), pad=1) for put in (np.asarray, device.put))
    ratios = device.get(there.ratios(device.put(x)))
    assert ratios.dtype == np.float64
    assert ratios.shape == (3, 4, 4)
    assert (ratios[0, 0] == 0).all()  # nothing there, nothing lost
    np.testing.assert_allclose(ratios, here.ratios(x), atol=1e-9)
    pooled = there.pool(device.put(x))
    assert pooled.values.dtype == dtype
    found = device.get(there.reconstruct(pooled, [(1, 2, 3), (2, 0, 0)]))
    for patch, x_prime, region in zip(
        here.patches(x)[[1, 2], [2, 0], [3, 0]], found, [(1, 2, 3), (2, 0, 0)], strict=True
    ):
        expected = np.linalg.norm(patch - x_prime) / np.linalg.norm(patch)
        assert ratios[region] == pytest.approx(expected, abs=1e-5 if dtype is np.float32 else 1e-9)


def test_maps_of_signals_signals_of_maps():
    """Scale, order, sign and copies of filters do not matter; more filters never hurt; an empty batch is empty."""
    generator = np.random.default_rng(0)
    w, x = generator.normal(size=(3, 3, 5, 8)), generator.normal(size=(2, 8, 8, 5))
    ratios = PooledConvolution(w, pad=1).ratios(x)
    for other in (w * 3, -w, w[..., ::-1], np.concatenate((w, w), axis=3), np.concatenate((w, 0 * w), axis=3)):
        np.testing.assert_allclose(PooledConvolution(other, pad=1).ratios(x), ratios, atol=1e-9)
    np.testing.assert_allclose(PooledConvolution(w, pad=1).ratios(7 * x), ratios, atol=1e-9)
    assert (PooledConvolution(w[..., :4], pad=1).ratios(x) >= ratios - 1e-12).all()
    assert PooledConvolution(w, pad=1).ratios(x[:0]).shape == (0, 4, 4)


def test_the_border_counts_as_zeros():
    """A 1x1 image, a 3x3 filter with pad 1: the patch is the image and a ring of zeros, the filter is not clipped."""
    layer = PooledConvolution(np.ones((3, 3, 1, 1)), pad=1, k=1, pool_stride=1)
    x = np.full((1, 1, 1, 1), 2.0)
    np.testing.assert_array_equal(layer.patches(x)[0, 0, 0, :, :, 0], [[0, 0, 0], [0, 2, 0], [0, 0, 0]])
    assert layer.ratios(x).item() == pytest.approx(math.sqrt(8 / 9))
    np.testing.assert_allclose(layer.reconstruct(layer.pool(x), [(0, 0, 0)]), np.full((1, 3, 3, 1), 2 / 9))


# --- bad input ---

SIGNAL = np.ones((2, 2))
POOLED = Pooled(np.ones(2), np.zeros(2), np.array([0, 1]), np.array([-1, -1]))
LAYER = PooledConvolution(np.ones((2, 2, 1, 2)), k=2)
MAPS = PooledMaps(np.ones((1, 1, 1, 4)), np.zeros((1, 1, 1, 4), np.uint8))


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
        (lambda: ratio_bounds(np.zeros((2, 1)), np.ones((2, 1))), "W is zero"),
        (lambda: PooledConvolution(np.zeros((2, 2, 1, 2))), "PooledConvolution: all filters are zero"),
        (lambda: PooledConvolution(np.full((2, 2, 1, 2), np.inf)), "NaN or infinite"),
        (lambda: PooledConvolution(np.ones((2, 2, 1)), k=2), "w must be filters"),
        (lambda: PooledConvolution(np.ones((2, 2, 1, 2)), k=0), "k must be an integer >= 1"),
        (lambda: LAYER.ratios(np.ones((1, 4, 4, 2))), "has 2 channels"),
        (lambda: LAYER.ratios(np.ones((1, 1, 4, 1))), "the kernel"),
        (lambda: LAYER.ratios(np.full((1, 4, 4, 1), np.nan)), "x holds NaN or infinite"),
        (lambda: LAYER.ratios(np.ones((4, 4, 1))), "must be images"),
        (lambda: LAYER.reconstruct(MAPS._replace(values=np.ones((1, 1, 1, 2))), [(0, 0, 0)]), r"\(N, PH, PW, 4\)"),
        (lambda: LAYER.reconstruct(MAPS._replace(switches=MAPS.switches + 4), [(0, 0, 0)]), r"integers in 0 \.\. 3"),
        (lambda: LAYER.reconstruct(MAPS._replace(switches=MAPS.switches * 1.0), [(0, 0, 0)]), "switches must be int"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
