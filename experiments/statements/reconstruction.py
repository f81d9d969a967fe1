"""CReLU loses nothing, and what the filters span can be recovered: sections 2.2 and S1.1."""

from __future__ import annotations

from math import sqrt

import numpy as np

from experiments.statements.base import HOLDS, MISPRINT, SLACK, WITH_CONDITIONS, Evidence, statement
from minicnn.ops.activation import crelu, crelu_inverse
from minicnn.theory.frames import norm_bounds, project
from minicnn.theory.injectivity import crelu_constants, modulus_constant, relu_is_injective
from minicnn.theory.reconstruction import Layer, features, invert

CASES = 1000


def random_filters(rng: np.random.Generator) -> np.ndarray:
    """W (D, K) of any rank, D and K up to 6, with singular values in [1/2, 2]."""
    D, K = rng.integers(1, 7, 2)
    rank = rng.integers(1, min(D, K) + 1)
    left, right = (np.linalg.qr(rng.normal(size=(n, rank)))[0] for n in (D, K))
    return (left * rng.uniform(0.5, 2, rank)) @ right.T


def algorithm_1(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x' from CReLU(W' x): x (D,) as an image of one pixel and D channels."""
    layer = Layer(W.reshape(1, 1, *W.shape))
    return invert(features(x.reshape(1, 1, 1, -1), [layer]), [layer], 1).ravel()


@statement(
    "crelu-inverse",
    where="Definition 2.1; Algorithm 1, step 3",
    says="CReLU, rho_c(x) = ([x]+, [-x]+), keeps both phases and can be reverted: x = rho_c^-1(rho_c(x)).",
    expected=HOLDS,
    corrected="x = p - n to the last bit (but -0 comes back as +0); ||rho_c(x)|| = ||x||; distances shrink by at most "
    "sqrt 2.",
)
def crelu_is_invertible(seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate((bits[np.isfinite(bits)], np.array([np.inf, -np.inf, 0, 1e-45, -3], np.float32)))
    y = crelu(x)
    wrong = int((crelu_inverse(y) != x).sum())
    u, v = rng.normal(size=(2, CASES, 3))
    shrink = np.linalg.norm(crelu(u) - crelu(v), axis=1) / np.linalg.norm(u - v, axis=1)
    kept = np.linalg.norm(crelu(u), axis=1) / np.linalg.norm(u, axis=1)
    one = np.array([1.0])
    opposite = float(np.linalg.norm(crelu(one) - crelu(-one))) / 2
    return Evidence(
        f"{len(x):,} float32 numbers of random bits: {wrong} differ after p - n.  Distances times {shrink.min():.3f} "
        f"to {shrink.max():.3f} in {CASES} random pairs; exactly {opposite:.4f} for 1 and -1.",
        printed=wrong == 0,
        repaired=bool(shrink.min() * SLACK >= sqrt(0.5) and shrink.max() <= SLACK and abs(kept - 1).max() < 1e-12),
        by_hand={"rho_c(-3), second half": (float(y[-1]), 3), "distance of 1 and -1, shrunk by": (opposite, sqrt(0.5))},
    )


@statement(
    "span-recovered",
    where="Proposition 2.1 = S1.1; Algorithm 1",
    says="With x = x' + (x - x'), x' in range(W), x - x' in ker(W): x' is reconstructed from CReLU(W' x).",
    expected=WITH_CONDITIONS,
    severity=MISPRINT,
    corrected="x - x' in ker(W'), not ker(W), which is a space of coefficients: x' = (W')+ z is the projection of x on "
    "range(W), all of x if rank W = D.",
    errata="E8",
)
def span_is_recovered(seed: int) -> Evidence:
    # Square, so that ker(W) makes sense: range(W) = span e1, ker(W) = span (1, -1), (1, 1) = (2, 0) + (-1, 1).
    W, x = np.array([[1.0, 1.0], [0.0, 0.0]]), np.ones(2)
    found, literal = algorithm_1(W, x), np.array([2.0, 0.0])
    rng, error, orthogonal, full = np.random.default_rng(seed), 0.0, 0.0, 0
    for _ in range(CASES):
        F = random_filters(rng)
        v = rng.normal(size=len(F))
        got = algorithm_1(F, v)
        nearest = F @ np.linalg.lstsq(F, v, rcond=1e-10)[0]
        error = max(error, abs(got - nearest).max(), abs(got - project(F, v)).max())
        orthogonal = max(orthogonal, abs(F.T @ (v - got)).max())
        full += np.linalg.matrix_rank(F) == len(F) and np.allclose(got, v)
    good = error < 1e-10 and orthogonal < 1e-10
    return Evidence(
        f"W = [[1, 1], [0, 0]], x = (1, 1): with ker(W) x' would be (2, 0), Algorithm 1 gives ({found[0]:.0f}, "
        f"{found[1]:.0f}), and W'(x - x') = 0.  {CASES} random W of any rank: x' is the nearest point of range(W) to "
        f"{error:.0e}; {full} of them had rank D and gave x back.",
        printed=bool(np.allclose(found, literal)),
        repaired=good,
        conditions=good,
        by_hand={"x'_1": (found[0], 1), "x'_2": (found[1], 0)},
    )


@statement(
    "norm-lemma",
    where="Lemma S1.4",
    says="For x in range(W): sigma_min ||x|| <= ||W' x|| <= sigma_max ||x||, the sigmas singular values of V.",
    expected=WITH_CONDITIONS,
    severity=MISPRINT,
    corrected="They are those of W (V is a space, and its orthonormal basis U has only ones), and sigma_min is the "
    "least that is not 0.  Outside range(W) the lower inequality fails.",
    errata="E9",
)
def norms_on_the_span(seed: int) -> Evidence:
    of_basis = float(np.linalg.norm(np.array([[2.0]]).T @ np.ones(1)))  # W = (2), U = (1): is ||W' x|| <= 1?
    low, outside, _ = norm_bounds(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 1.0]))
    rng, violations = np.random.default_rng(seed), 0
    for _ in range(CASES):
        W = random_filters(rng)
        lower, norm, upper = norm_bounds(W, W @ rng.normal(size=W.shape[1]))
        violations += not (lower <= norm * SLACK and norm <= upper * SLACK)
    return Evidence(
        f"W = (2), x = 1: ||W' x|| = {of_basis:.0f}, not 1.  With the singular values of W: {violations} violations in "
        f"{CASES} random cases of any rank.  x = e2 outside range [[1, 1], [0, 0]]: {outside:.0f} < {low:.4f}.",
        printed=of_basis <= 1,
        repaired=violations == 0 and outside < low,
        conditions=violations == 0,
        by_hand={"sigma_min of [[1, 1], [0, 0]]": (low, sqrt(2)), "||W' x|| outside": (outside, 0)},
    )


@statement(
    "crelu-stability",
    where="ours, section 2.2 in numbers",
    says="||CReLU(W' x) - CReLU(W' y)|| >= sigma_min(W)/sqrt 2 ||x - y||, and no larger constant will do; D filters "
    "are enough, where ReLU needs 2 D and the modulus 2 D - 1 (up to a sign).",
    expected=HOLDS,
    corrected="Proof in docs/proofs.md.  The paper calls bounds that need many filters 'not realistic' (E45); full "
    "recovery with CReLU needs D filters per window as well.",
    errata="E45",
)
def crelu_is_stable(seed: int) -> Evidence:
    rng, least, most, wrong = np.random.default_rng(seed), np.inf, 0.0, 0
    for _ in range(CASES // 5):
        W = random_filters(rng)
        kappa = crelu_constants(W).lower
        x, y = rng.normal(size=(2, 20, len(W)))
        if kappa:
            shrink = np.linalg.norm(crelu(x @ W) - crelu(y @ W), axis=1) / np.linalg.norm(x - y, axis=1)
            v = np.linalg.svd(W)[0][:, -1]
            least = min(least, float(shrink.min()) / kappa)
            most = max(most, abs(float(np.linalg.norm(crelu(v @ W) - crelu(-v @ W))) / 2 / kappa - 1))
        else:
            wrong += np.linalg.matrix_rank(W) == len(W)
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    paired, generic = np.hstack((basis, -basis)), rng.normal(size=(3, 6))
    counts = {
        "CReLU": crelu_constants(basis).lower > 0 == crelu_constants(basis[:, :2]).lower,
        "ReLU": relu_is_injective(paired) and not relu_is_injective(paired[:, :5]),
        "modulus": modulus_constant(generic[:, :5]) > 0 == modulus_constant(generic[:, :4]),
    }
    good = least * SLACK >= 1 and most < 1e-9 and not wrong and all(counts.values())
    return Evidence(
        f"{CASES // 5} random W: of a distance at least {least:.4f} times the constant is left, and exactly it between "
        f"plus and minus the least singular vector (to {most:.0e}).  In R^3, 3, 6 and 5 filters are enough for "
        f"{', '.join(counts)}, and one fewer is not: {all(counts.values())}.",
        printed=good,
        repaired=good,
        by_hand={"W = (2)": (crelu_constants(np.full((1, 1), 2.0)).lower, sqrt(2))},
    )


RECONSTRUCTION = (crelu_is_invertible, span_is_recovered, norms_on_the_span, crelu_is_stable)
