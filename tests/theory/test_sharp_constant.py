"""The constant of the complexity theorem: the reduction to (K1), the cases that are proved, step by step."""

import itertools
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.theory.rademacher import differences
from minicnn.theory.sharp_constant import cube, flips, one_sided, ratios, smaller_side, suprema
from tests import draw
from tests.theory.test_rademacher import by_definition, draw_class

SLACK = 1e-9
classes = st.composite(draw_class)()
two_functions = st.composite(draw_class)(functions=2, points=7)
three_points = st.composite(draw_class)(functions=6, points=3)


# --- what is computed ---


@given(points=st.integers(1, 6))
def test_the_cube(points):
    signs = cube(points)
    assert [tuple(row) for row in signs] == list(itertools.product((1, -1), repeat=points))
    np.testing.assert_array_equal(signs[::-1], -signs)


@given(values=classes)
def test_suprema_by_loops(values):
    M, P, X, N = suprema(values)
    for i, signs in enumerate(itertools.product((1, -1), repeat=values.shape[1])):
        s = [sum(sign * v for sign, v in zip(signs, f, strict=True)) for f in values]
        t = [sum(sign * abs(v) for sign, v in zip(signs, f, strict=True)) for f in values]
        norms = [np.hypot(*((abs(u + v) / 2, abs(u - v) / 2))) for u, v in zip(s, t, strict=True)]  # of the two phases
        expected = max(map(abs, s)), max(0, *t), max(map(abs, t)), max(norms)
        np.testing.assert_allclose([M[i], P[i], X[i], N[i]], expected, atol=1e-12)


@given(values=classes)
def test_ratios_by_definition(values):
    if not values.any():
        with pytest.raises(ValueError, match="nothing but zeros"):
            ratios(values)
        return
    found, plain = ratios(values), by_definition(values)
    assert found.theorem == pytest.approx(by_definition(values, "crelu") / plain)
    assert found.modulus == pytest.approx(by_definition(values, "avr") / plain)


def test_ratios_by_hand():
    """{(1, -1)}: M = (0, 2, 2, 0), P = (2, 0, 0, 0), N = sqrt 2."""
    assert ratios(np.array([[1.0, -1.0]])) == pytest.approx((sqrt(2), 1, 1, 2))
    assert ratios(differences(3)).modulus == pytest.approx(4 / 3)


@given(points=st.integers(1, 5), data=st.data())
def test_flips_multiply_a_walsh_function_by_its_degree(points, data):
    chosen = data.draw(st.lists(st.integers(0, points - 1), unique=True))
    walsh = cube(points)[:, chosen].prod(axis=1)
    np.testing.assert_array_equal(flips(walsh), len(chosen) * walsh)


# --- the reduction ---


@given(values=classes)
def test_the_reduction_to_k1(values):
    """(E N)^2 <= E (M^2 + X^2)/2 <= (E M^2 + 2 E P^2)/2: with (K1) at most 2 (E M)^2."""
    M, P, X, N = suprema(values)
    assert N.mean() ** 2 <= ((M**2).mean() + (X**2).mean()) / 2 + SLACK
    assert (X**2).mean() <= 2 * (P**2).mean() + SLACK
    if values.any():
        assert N.mean() ** 2 <= (1 + ratios(values).k1) * M.mean() ** 2 + SLACK  # Kahane, E M^2 <= 2 (E M)^2


@given(values=classes, data=st.data())
def test_the_tool_holds_for_every_choice_of_one_from_each_pair(values, data):
    """E P^2 <= E G^2 = E [M^2 + m^2]/2, whatever the signs of the functions of F0."""
    chosen = values * draw.rng(data.draw).choice([-1.0, 1.0], (len(values), 1))
    M, P, _, _ = suprema(values)
    G, m = one_sided(chosen), smaller_side(chosen)
    np.testing.assert_array_equal(np.maximum(G, G[::-1]), M)
    assert (G**2).mean() == pytest.approx((M**2 + m**2).mean() / 2)
    assert (P**2).mean() <= (G**2).mean() + SLACK


# --- two functions ---


@given(values=two_functions)
def test_two_functions(values):
    """Every step of the proof of (K1) for {f, g}, <f, g> >= 0."""
    f, g = values[0], values[-1]
    g = -g if f @ g < 0 else g
    pair = np.stack((f, g))
    S, c = f @ f + g @ g, f @ g
    root = sqrt(max(S**2 - 4 * c**2, 0))
    M, P, _, _ = suprema(pair)
    u, v = (cube(len(f)) @ pair.T).T
    np.testing.assert_allclose(M, (abs(u + v) + abs(u - v)) / 2, atol=1e-12)
    for h in (f + g, f - g):
        assert abs(cube(len(f)) @ h).mean() >= np.linalg.norm(h) / sqrt(2) - SLACK  # Szarek
    assert M.mean() ** 2 >= (S + root) / 4 - SLACK
    same = u * v > 0
    mu = np.where(same, np.minimum(u**2, v**2), 0).mean()
    large = np.where(same, np.maximum(u**2, v**2), 0).mean()
    assert (one_sided(pair) ** 2).mean() == pytest.approx((S - mu) / 2, abs=1e-9)
    assert c <= np.where(same, abs(u * v), 0).mean() + SLACK
    assert np.where(same, abs(u * v), 0).mean() <= sqrt(mu * large) + SLACK
    assert large <= S - mu + SLACK
    assert mu >= (S - root) / 2 - SLACK * max(1, S)
    assert (P**2).mean() <= M.mean() ** 2 + SLACK * max(1, S)


# --- three points ---


@given(values=three_points)
def test_three_points(values):
    """(K1), E X <= 4/3 E M, and the bounds on P behind them."""
    if values.shape[1] < 3:
        return
    M, P, X, _ = suprema(values)
    by_signs = {tuple(row): value for row, value in zip(cube(3), P, strict=True)}
    classes_of_signs = sorted(M[:4], reverse=True)  # those that begin with +
    a, b, c, d = classes_of_signs
    assert a <= b + c + d + SLACK
    assert by_signs[1, 1, 1] == pytest.approx(a)
    two_plus = sorted(value for signs, value in by_signs.items() if sum(signs) == 1)[::-1]
    assert two_plus[0] <= b + SLACK
    assert two_plus[1] <= c + SLACK
    assert all(value <= d + SLACK for signs, value in by_signs.items() if sum(signs) == -1)
    assert by_signs[-1, -1, -1] == 0
    assert (P**2).sum() <= a**2 + b**2 + 2 * c**2 + 3 * d**2 + SLACK
    assert (P**2).mean() <= M.mean() ** 2 + SLACK
    assert X.mean() <= 4 / 3 * M.mean() + SLACK


def test_the_bounds_of_three_points_are_too_weak_on_four():
    """Those of steps 1 and 2: P(v) is at most the largest of min(M(t), M(t v)), and with one plus at most min M."""
    M, P, _, _ = suprema(np.array([[1.0, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]]))
    of = {tuple(signs): value for signs, value in zip(cube(4), M, strict=True)}
    allowed = 0.0
    for v, p in zip(cube(4), P, strict=True):
        pairs = max(min(value, of[tuple(np.array(t) * v)]) for t, value in of.items())
        bound = {-4: 0.0, -2: M.min()}.get(v.sum(), pairs)
        assert p <= bound
        allowed += bound**2
    assert (allowed, M.sum() ** 2 / 16, (P**2).sum()) == (128, 100, 32)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_polynomial_of_three_points(numbers):
    """(a+b+c+d)^2/2 - (a^2 + b^2 + 2 c^2 + 3 d^2) >= 0 for a >= b >= c >= d >= 0, a <= b + c + d."""
    share, b, c, d = numbers
    b, c, d = sorted((b, c, d), reverse=True)

    def slack(a):
        return (a + b + c + d) ** 2 / 2 - (a**2 + b**2 + 2 * c**2 + 3 * d**2)

    assert slack(b) >= c**2 / 2 + 3 * c * d - 2.5 * d**2 - 1e-12 >= -1e-11
    assert slack(b + c + d) >= c**2 + 4 * c * d - 2 * d**2 - 1e-12 >= -1e-11
    assert slack(b + share * (c + d)) >= -1e-12  # concave in a: between its ends


def test_the_constants_of_three_points_are_attained():
    """4/3 and 7/6: no smaller constants would do; and (K1) holds with equality for {(1, -1)}."""
    assert ratios(differences(3)).modulus == pytest.approx(4 / 3)
    assert ratios(np.array([[1.0, -1.0, 0.0]])).k1 == pytest.approx(1)


# --- Gaussian variables in place of signs ---


def radius(points):
    """r(0) of the hull of planar points (n, 2) and their negatives: where it meets the positive half of the axis."""
    both = np.concatenate((points, -points))
    best = 0.0
    for (x, y), (u, v) in itertools.product(both, both):
        if y >= 0 >= v:
            best = max(best, x if y == v else (x * -v + u * y) / (y - v))
    return best


@pytest.mark.parametrize("values", [[[1.0, -1.0]], [[1.0, 0.5], [-0.5, 1.0]], [[1.0, -1, 0], [1, 0, -1], [0, 1, -1]]])
def test_gaussian_variables(values):
    """m <= r(0), E r(0)^2 = E M^2 - E |grad M|^2 (rotation and the area of the hull), and (K1), over 3000 draws."""
    values, rng = np.array(values), np.random.default_rng(0)
    x, z = rng.normal(size=(2, 3000, values.shape[1]))
    sums, heights = x @ values.T, z @ values.T  # (draws, functions)
    M = abs(sums).max(axis=1)
    gradient = (values**2).sum(axis=1)[abs(sums).argmax(axis=1)]  # |grad M|^2
    turned = sums * np.sign(heights)  # F0: those with <z, f> > 0
    m = np.maximum(np.minimum(turned.max(axis=1), -turned.min(axis=1)), 0)
    r = np.array([radius(np.stack(pair, axis=1)) for pair in zip(sums, heights, strict=True)])
    assert np.all(m <= r + 1e-9)
    difference = r**2 - (M**2 - gradient)
    assert abs(difference.mean()) <= 4 * difference.std() / sqrt(len(x))
    P = np.maximum((x @ abs(values).T).max(axis=1), 0)
    assert (P**2).mean() <= M.mean() ** 2 * 1.05
    assert (M**2).var() > 0  # the draws are not all alike


def test_the_gaussian_constant():
    """With E M^2 <= (pi/2)(E M)^2: sqrt((pi/2 + 2)/2) = 1.336; one function {(1, -1)} has pi/(2 sqrt 2) = 1.111."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200_000, 2))
    found = np.hypot(*x.T).mean() / abs(x[:, 0] - x[:, 1]).mean()
    assert found == pytest.approx(pi / (2 * sqrt(2)), rel=0.01)
    assert found < sqrt(1 + pi / 4) == pytest.approx(1.3362, abs=1e-4)


@pytest.mark.parametrize("points", [0, 15])
def test_bad_input(points):
    with pytest.raises(ValueError, match=r"points must be in 1 \.\. 14"):
        cube(points)
