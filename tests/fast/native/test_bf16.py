"""Products in bf16: what is rounded, what is not, and who asks for it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicnn import models, ops
from minicnn.autodiff import Tape
from minicnn.fast.native import library
from minicnn.precision import PRECISION, use_precision
from tests.fast.native.ways import needs_compiler

pytestmark = needs_compiler


def rounded(x):
    """The nearest numbers with 8 bits of precision, to even where two are as near."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2**8), exponent - 8)


def product(a, b, *, transposed=False):
    """a b by the library for bf16, or a' b: the two orders in which a may lie in memory."""
    steps = library._library(library.BF16)
    (k, n), panel = b.shape, 2 * library.lanes(np.float32)
    m = a.shape[1] if transposed else a.shape[0]
    c = np.full((m, n), 7, np.float32)
    if transposed:
        wide = np.full((k, panel * -(-n // panel)), np.nan, np.float32)  # what is beyond must not matter
        wide[:, :n] = b
        steps.columns_filters(k, m, n, a, m, wide, wide.shape[1], False, c)
    else:
        u = np.empty((-(-n // panel), k, panel), np.float32)
        steps.columns_panels(b, k, n, False, u)
        steps.columns_product(m, k, n, a, k, u, c, n)
    return c


sizes = st.tuples(st.integers(1, 70), st.integers(1, 70) | st.integers(250, 600), st.integers(1, 70))


@settings(max_examples=60)
@given(sizes, st.booleans(), st.integers(0, 2**32 - 1))
def test_factors_are_rounded_and_nothing_else(mkn, transposed, seed):
    """Also where the inner dimension is odd, and where it is longer than what is copied at once."""
    (m, k, n), rng = mkn, np.random.default_rng(seed)
    a = rng.normal(size=(k, m) if transposed else (m, k)).astype(np.float32)
    b = rng.normal(size=(k, n)).astype(np.float32)
    left = rounded(a.T if transposed else a)
    scale = np.abs(left) @ np.abs(rounded(b))
    assert (np.abs(product(a, b, transposed=transposed) - left @ rounded(b)) <= 1e-6 * scale).all()


def test_numbers_halfway_go_to_the_even_one():
    x = np.array([[1 + 2**-8], [1 + 3 * 2**-8], [1 + 2**-8 + 2**-20], [-1 - 2**-8], [3e38], [0]], np.float32)
    expected = [1, 1 + 2**-6, 1 + 2**-7, -1, rounded(np.array(3e38)), 0]
    assert product(x, np.ones((1, 1), np.float32))[:, 0].tolist() == [float(np.float32(v)) for v in expected]


@pytest.mark.parametrize("transposed", [False, True])
def test_nan_and_infinity_pass_through_to_their_row_alone(transposed):
    a, b = np.ones((5, 3), np.float32), np.ones((3, 40), np.float32)
    a[1, 2], a[3, 0] = np.nan, -np.inf
    c = product(a.T.copy() if transposed else a, b, transposed=transposed)
    assert np.isnan(c[1]).all()
    assert (c[3] == -np.inf).all()
    assert (c[[0, 2, 4]] == 3).all()


def gradients(precision, model, x, labels):
    with use_precision(precision):
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x), labels)
        tape.backward(loss)
    found = {name: p.grad for name, p in model.named_state() if p.grad is not None}
    for p in model.parameters():
        p.grad = None
    return found


def test_it_is_asked_for_at_every_use():
    """float32, bf16 and float32 again: the first and the last are the same bits, the others are near."""
    model, rng = models.convpool("crelu", "half", scale=0.25).initialise(0), np.random.default_rng(0)
    x, labels = rng.normal(size=(8, 32, 32, 3)).astype(np.float32), rng.integers(0, 10, 8)
    before, between, after = (gradients(p, model, x, labels) for p in ("float32", "bf16", "float32"))
    for name, exact in before.items():
        assert np.array_equal(exact, after[name])
        off = np.linalg.norm(between[name] - exact) / np.linalg.norm(exact)
        assert 1e-4 < off < 0.2, name


def test_numbers_of_float64_are_not_concerned():
    model = models.convpool("crelu", "half", scale=0.25).initialise(0).to(dtype="float64")
    x, labels = np.random.default_rng(0).normal(size=(2, 32, 32, 3)), np.array([1, 2])
    exact, asked = (gradients(p, model, x, labels) for p in ("float32", "bf16"))
    assert all(np.array_equal(exact[name], asked[name]) for name in exact)


def test_where_it_cannot_be_built_products_are_exact(monkeypatch):
    """That the rest could be is enough; who asked for bf16 can ask why."""
    monkeypatch.setenv(PRECISION, "bf16")
    monkeypatch.setattr(library, "_problem", "no room on the disk.")
    monkeypatch.setitem(library._libraries, library.BF16, None)
    assert library.kernels_with_products(np.float32) is library.kernels(np.float32)
    assert library.problem() is None
    assert library.bf16_problem() == "no room on the disk."
    monkeypatch.setenv(library.SWITCH, "0")
    assert library.bf16_problem() == "switched off by MINICNN_NATIVE=0."
