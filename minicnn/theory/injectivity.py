"""Which layers lose nothing, and how stable is their inverse?  ReLU, modulus (AVR) and CReLU of W' x + b.

W (D, K) holds one filter per column; x is what one window sees.  The paper's section 2.2 says that CReLU "preserves all
the information"; here is what that means beside the others.  kappa is the lower Lipschitz constant, the largest number
with ||rho(W' x + b) - rho(W' y + b)|| >= kappa ||x - y||; an inverse makes errors at most 1 / kappa times longer.

**CReLU** is injective iff rank W = D: the responses are known (b does not matter).  Needs K >= D filters. kappa =
sigma_min(W) / sqrt 2 exactly.  *Proof.*  For one response, |rho_c(u) - rho_c(v)| >= |u - v| / sqrt 2, with equality
iff u = -v.  So kappa >= sigma_min / sqrt 2; x = t v, y = -t v with v the least singular vector attains it if b = 0,
and approaches it as t grows if not.  The upper constant is sigma_max: rho_c is 1-Lipschitz, and an isometry near a
generic x.

**ReLU** is injective iff at every x the filters that fire, S(x) = {i: <w_i, x> + b_i >= 0}, span R^D ("directed
spanning set", Puthawala et al. 2022).  *Proof.*  If x and y look alike, let m be their midpoint.  For i in S(m) the
two responses add up to at least 0: either one of them is positive, then both are and they are equal, or both are 0.
So x - y is orthogonal to the span of S(m).  Conversely, if S(x) does not span, move x a little along a vector
orthogonal to it: the responses of S(x) do not change, and the others stay negative.   QED
Let A be the least eigenvalue of W_S W_S' over all S = S(x).  Then sqrt(A) / 2 <= kappa <= sqrt(A) (Freeman and
Haider). *Proof.*  Near a generic x the layer is linear, W_S': the right side.  For i in S(m), |ReLU(u) - ReLU(v)| >=
|u - v| / 2 as u + v >= 0: the left side.   QED        On a convex set with inner points (a ball) both hold with S(x)
for x in that set. Without bias K >= 2 D filters are needed: for a generic x, S(x) and S(-x) have no filter in common,
and both must span. D filters and their negatives, which is what CReLU computes, are enough.

**Modulus** is never injective without bias, as x and -x look alike.  Up to that sign it is iff every set of filters or
its complement spans ("complement property"; Balan, Casazza and Edidin): K >= 2 D - 1.  With d(x, y) = min(||x - y||,
||x + y||) its constant is exactly kappa^2 = min over sets S of lambda_min(W_S W_S') + lambda_min(W_T W_T'), T the
complement of S. *Proof.*  With u = x + y, v = x - y, ||<w, x>| - |<w, y>|| = min(|<w, u>|, |<w, v>|): for the best S
the left side is sum_S <w, v>^2 + sum_T <w, u>^2, and shortening the longer of u and v makes it smaller without
changing d.   QED
With a bias, x itself can be determined: iff for every S, W_S spans or <w_i, u> = -b_i has no solution u for i in T (u
is the midpoint of two points that look alike, <w_i, x - y> = 0 for i in S).

**Whole layers.**  A convolution with stride 1 on a torus is block diagonal in the Fourier basis: `torus_constants`.
Several layers: lower constants multiply to a lower bound, upper ones to an upper bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minicnn.backend import Array, to_host
from minicnn.theory.frames import check_matrix, numerical_rank

MOST_CASES = 100_000  # sets of filters that an exact test enumerates

YES, NO, OPEN = "yes", "no", "not decided"


class Constants(NamedTuple):
    """lower ||x - y|| <= ||rho(W' x + b) - rho(W' y + b)|| <= upper ||x - y||; lower 0: not injective."""

    lower: float
    upper: float


class Verdict(NamedTuple):
    """Whether a layer is injective on all of R^D, and how that is known."""

    injective: str  # YES, NO or OPEN
    why: str


def least_filters(D: int) -> dict[str, int]:
    """How many filters an injective layer without bias needs for D numbers; the modulus up to the sign of x."""
    return {"crelu": D, "relu": 2 * D, "avr": 2 * D - 1}


# --- CReLU ---


def spectrum(W: Array) -> np.ndarray:
    """The D singular values of W (D, K) on the host, in descending order; zeros where K < D."""
    check_matrix("injectivity", W)
    found = np.linalg.svd(to_host(W).astype(np.float64), compute_uv=False)
    return np.pad(found, (0, max(0, W.shape[0] - len(found))))


def rank(W: Array) -> int:
    """By the rule of frames.py, with the rounding of W's own dtype."""
    check_matrix("injectivity", W)
    s = np.linalg.svd(to_host(W).astype(np.float64), compute_uv=False)
    return numerical_rank(s, W.shape, float(np.finfo(W.dtype).eps))


def crelu_constants(W: Array) -> Constants:
    """sigma_min / sqrt 2 and sigma_max: both exact, without bias; lower 0 if rank W < D."""
    s = spectrum(W)
    return Constants(float(s[-1]) / math.sqrt(2) if rank(W) == len(s) else 0.0, float(s[0]))


def through_layers(layers: Sequence[Constants]) -> Constants:
    """Bounds of the constants of layers one after the other: the products."""
    return Constants(math.prod(c.lower for c in layers), math.prod(c.upper for c in layers))


def torus_constants(w: Array, size: tuple[int, int]) -> Constants:
    """CReLU's constants for all windows of a convolution with stride 1 on a torus of `size` pixels: w (kh, kw, C, F).

    In the Fourier basis the layer is one C x F matrix per frequency, the transform of w; the singular values of the
    whole layer are theirs.  Zero padding instead of a torus changes little on large maps.
    """
    (height, width), (kh, kw, c, f) = size, w.shape
    if kh > height or kw > width:
        raise ValueError(f"torus_constants: filters of {kh}x{kw} do not fit a torus of {height}x{width}")
    transformed = np.fft.fft2(to_host(w).astype(np.float64), s=size, axes=(0, 1)).reshape(-1, c, f)
    s = np.linalg.svd(transformed, compute_uv=False)  # (frequencies, min(C, F))
    least = float(s[:, -1].min()) if f >= c else 0.0
    if least <= max(c, f) * float(np.finfo(w.dtype).eps) * float(s.max()):
        least = 0.0
    return Constants(least / math.sqrt(2), float(s.max()))


# --- ReLU ---


def relu_is_injective(W: Array) -> bool:
    """Without bias, exactly, for small W (D, K): does S(x) span for every x?

    If it does not for some x, and v is orthogonal to S(x), then all filters with <w, v> != 0 have <w, x> < 0.  Turning
    v until its hyperplane holds D - 1 independent filters only shortens the list.  So: for every hyperplane through
    D - 1 independent filters, do the filters outside lie in an open half space?  (A linear program.)  If so, it is not.
    """
    host = _small("relu_is_injective", W, math.comb(W.shape[1], W.shape[0] - 1))
    D, K = host.shape
    if rank(W) < D:
        return False
    host = host / np.maximum(np.linalg.norm(host, axis=0), 1e-300)  # lengths do not matter, but for rounding
    for chosen in itertools.combinations(range(K), D - 1):
        _, s, vt = np.linalg.svd(host[:, chosen].T, full_matrices=True)
        if D > 1 and s[-1] <= 1e-9 * s[0]:
            continue  # dependent: no hyperplane of their own
        outside = host[:, abs(vt[-1] @ host) > 1e-9]
        if _in_a_half_space(outside):
            return False
    return True


def _in_a_half_space(W: np.ndarray) -> bool:
    """Whether some x has <w, x> < 0 for every column w."""
    from scipy.optimize import linprog

    columns = W / np.linalg.norm(W, axis=0)
    found = linprog(np.zeros(len(W)), A_ub=columns.T, b_ub=-np.ones(W.shape[1]), bounds=(None, None))
    return found.status == 0


def firing(W: np.ndarray, b: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """S(x): which filters have <w, x> + b >= 0, for points x (N, D): (N, K)."""
    return x @ W + (0 if b is None else b) >= 0


def local_constants(W: np.ndarray, b: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """sigma_min of the filters that fire at points x (N, D), 0 where they do not span: (N,).

    A ReLU layer's kappa is at most the least of them; over all x of a convex set it is at least half of that.
    """
    found = np.zeros(len(x))
    for i, on in enumerate(firing(W, b, x)):
        if on.sum() >= len(W):
            s = np.linalg.svd(W[:, on], compute_uv=False)
            found[i] = s[-1] if numerical_rank(s, W[:, on].shape) == len(W) else 0.0
    return found


def quiet_point(
    W: np.ndarray, b: np.ndarray | None, *, radius: float, starts: int, seed: int
) -> tuple[np.ndarray, int]:
    """A point of the ball at which few filters fire, and how many: a search, from `starts` random points.

    Each step walks away from the mean of the filters that fire, and back to the sphere.
    """
    rng = np.random.default_rng(seed)
    unit = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
    x = rng.normal(size=(starts, len(W)))
    best, fewest = np.zeros(len(W)), W.shape[1] + 1
    for step in range(200):
        x *= radius / np.linalg.norm(x, axis=1, keepdims=True)
        on = firing(W, b, x)
        count = on.sum(axis=1)
        if count.min() < fewest:
            best, fewest = x[count.argmin()].copy(), int(count.min())
        x -= radius * 0.5 / (1 + step) ** 0.5 * (on @ unit.T) / np.maximum(count, 1)[:, None]
    return best, fewest


def has_opposites(W: np.ndarray) -> bool:
    """Whether the filters whose negative multiple is a filter too (up to rounding) span R^D: then ReLU is injective.

    Their distance is looked at, not their cosine, which is -1 to all digits 1e-8 away from the opposite.
    """
    unit = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
    apart = np.linalg.norm(unit[:, :, None] + unit[:, None, :], axis=0)  # (K, K)
    paired = (apart <= 8 * np.finfo(np.float64).eps).any(axis=1)
    return bool(paired.any()) and rank(W[:, paired]) == len(W)


def relu_verdict(W: Array, b: Array | None = None, *, radius: float = 1.0, starts: int = 64, seed: int = 0) -> Verdict:
    """On R^D (b None) or on the ball of this radius: by counting, a certificate, an exact test or a refutation."""
    host, bias = to_host(W).astype(np.float64), None if b is None else to_host(b).astype(np.float64)
    D, K = host.shape
    if rank(W) < D:
        return Verdict(NO, f"the {K} filters have rank {rank(W)} of {D}")
    if b is None and has_opposites(host):
        return Verdict(YES, "filters and their negatives span")
    x, count = quiet_point(host, bias, radius=radius, starts=starts, seed=seed)
    if local_constants(host, bias, x[None])[0] == 0:
        return Verdict(NO, f"a point where {count} filters fire, which do not span {D} dimensions")
    if b is None and math.comb(K, D - 1) <= MOST_CASES:
        return Verdict(YES, "all hyperplanes") if relu_is_injective(W) else Verdict(NO, "a hyperplane")
    return Verdict(OPEN, f"at least {count} filters fire wherever we looked")


# --- modulus ---


def modulus_constant(W: Array) -> float:
    """kappa up to the sign of x, exactly, for few filters; 0 where the complement property fails."""
    host = _small("modulus_constant", W, 2 ** (W.shape[1] - 1))
    D, K = host.shape
    best = math.inf
    for bits in range(2 ** (K - 1)):
        S = np.array([bool(bits >> i & 1) for i in range(K)])
        best = min(best, sum(np.linalg.eigvalsh(host[:, T] @ host[:, T].T)[0] for T in (S, ~S)))
    largest = np.linalg.norm(host, 2) ** 2
    return math.sqrt(best) if best > max(D, K) * np.finfo(np.float64).eps * largest else 0.0


def modulus_verdict(W: Array) -> Verdict:
    """Up to the sign of x, without bias: by counting or by the complement property."""
    D, K = W.shape
    if rank(W) < D:
        return Verdict(NO, f"the {K} filters have rank {rank(W)} of {D}")
    if K < 2 * D - 1:
        return Verdict(NO, f"{K} filters, fewer than 2 D - 1 = {2 * D - 1}: two halves that do not span")
    if 2 ** (K - 1) <= MOST_CASES:
        return Verdict(YES if modulus_constant(W) > 0 else NO, "all sets of filters")
    return Verdict(OPEN, f"2^{K - 1} sets of filters; filters in general position would be")


def affine_modulus_is_injective(W: Array, b: Array) -> bool:
    """|W' x + b|: whether it determines x, by all sets of filters."""
    host, bias = _small("affine_modulus_is_injective", W, 2 ** W.shape[1]), to_host(b).astype(np.float64)
    D, K = host.shape
    lengths = np.linalg.norm(host, axis=0)
    scale = np.where(lengths > 0, lengths, 1)
    host, bias = host / scale, bias / scale  # the equations are the same
    for bits in range(2**K):
        S = np.array([bool(bits >> i & 1) for i in range(K)])
        spans = bool(S.any()) and np.linalg.matrix_rank(host[:, S]) == D
        if not spans and (S.all() or _solvable(host[:, ~S].T, -bias[~S])):
            return False
    return True


def _solvable(A: np.ndarray, y: np.ndarray) -> bool:
    found = np.linalg.lstsq(A, y, rcond=1e-12)[0]
    return bool(np.linalg.norm(A @ found - y) <= 1e-9 * np.linalg.norm(y))


def verdict(W: Array, activation: str) -> Verdict:
    """Of one window without bias: "crelu", "relu" or "avr"."""
    if activation not in ("crelu", "relu", "avr"):
        raise ValueError(f"verdict: activation must be crelu, relu or avr, got {activation!r}")
    if activation == "crelu":
        full = rank(W) == W.shape[0]
        return Verdict(YES if full else NO, f"rank {rank(W)} of {W.shape[0]}")
    return relu_verdict(W) if activation == "relu" else modulus_verdict(W)


def _small(where: str, W: Array, cases: int) -> np.ndarray:
    check_matrix(where, W)
    if cases > MOST_CASES:
        raise ValueError(f"{where}: {cases:,} cases are too many to try; use relu_verdict or modulus_verdict")
    return to_host(W).astype(np.float64)
