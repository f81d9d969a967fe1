"""What survives max pooling: the paper's section S1, Algorithm 2 and its theorem, for one region of a 1-D signal.

minicnn/theory/pooled_maps.py does Algorithm 2 for every region of a batch of feature maps.

A region x is what one pooling window sees.  Of every filter, convolution + CReLU + max pooling keep the largest
positive response p and the largest negative one, -q, and *switches* say at which shifts.  So it is known that

    W^' x = z,    W^ = the selected shifts, a column each,    z = the pooled values (p, -q) without the bias,

and Algorithm 2 recovers x' = (W^')+ z, the projection of x onto the span of W^.  A phase with pooled value 0 was never
active and gives no column.  Without the switches W^ is not known: e_1 and e_2 pool alike.

**Theorem.**  Let x = W_x c, the columns of W_x shifts of filters, and c of least norm (the only one if the columns are
independent).  Give each column a sign: of its c, or of its response r = W_x' x.  Assume that of each filter at most
one column is positive and at most one negative.  Let W~ be the columns of W^ that belong to the (filter, sign) that
occur, l = sigma_min(W_x)^2 (the least that is not 0), L = sigma_max(W~)^2.  Then

    ||x - x'|| / ||x||  <=  sqrt(1 - l / L)  <=  sqrt((L - l) / l)        (ours, and the paper's).

Proof.  Let A be the columns with c_i r_i > 0.  ||x||^2 = c'r <= ||c|| ||r_A|| <= ||x|| ||r_A|| / sqrt(l), the last as c
is in the range of W_x'; so l ||x||^2 <= ||r_A||^2.  (With the signs of r take those with r_i != 0: this is the lemma.)
For i in A the pooled response of that filter and sign is at least |r_i|, and no two i share one: ||r_A||^2 <=
||W~' x||^2 <= L ||P x||^2, P the projection onto span W~.  Finally ||x - x'||^2 <= ||x - P x||^2 = ||x||^2 - ||P x||^2.

Equality needs every column in A and every |r_i| the pooled value: then, unless two shifts tie for a maximum, the used
columns are the selected ones and x' = x.  So the bound is attained at ties only (`box_signal`, for every integer L /
l), or where it is 0; without ties it is approached.

**Without the assumption.**  Let mu be the largest number of columns of one filter and one sign.  At most mu columns of
A share a pooled value, so ||r_A||^2 <= mu ||W~' x||^2 and the rest of the proof gives

    ||x - x'|| / ||x||  <=  sqrt(1 - l / (mu L)).

**Unconditionally**, for x in the span of all n shifts W of all filters, with c = W+ x: mu <= n, W~ is part of W^, so

    ||x - x'|| / ||x||  <=  sqrt(1 - lambda+_min(W) / (n lambda_max(W^))).

For any x let Q x be its part in that span.  No response sees the rest, so x' is that of Q x, and in both bounds
l / (..) is multiplied by ||Q x||^2 / ||x||^2.

**Noise.**  From z + e, with the right switches, Algorithm 2 makes x^ = x' + (W^')+ e.  The last term lies in span W^,
to which x - x' is orthogonal: ||x - x^||^2 = ||x - x'||^2 + ||(W^')+ e||^2 <= ||x - x'||^2 + ||e||^2 /
sigma+_min(W^)^2.

The paper limits only how many c are > 0, and allows any c: tests/theory/test_pooling.py has a counterexample to each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host, where_its_arrays_are
from minicnn.theory.frames import compact_svd, frame_bounds, shift_matrix


class Pooled(NamedTuple):
    """Of K filters, the largest response p to x, and q to -x, with their shifts; 0 and shift -1 if none is positive."""

    p: Array  # (K,)
    q: Array  # (K,)
    plus: Array  # (K,) integers
    minus: Array  # (K,)


class Matrices(NamedTuple):
    """x (D,) = W_x c and the matrices of the theorem, one shifted filter per column."""

    x: Array
    W_x: Array
    W_tilde: Array
    W_hat: Array


class RatioBounds(NamedTuple):
    """tight = sqrt(1 - l / L), paper = sqrt((L - l) / l); NaN if l > L, which the theorem excludes."""

    tight: float
    paper: float


@where_its_arrays_are
def pool_signal(filters: Array, x: Array, *, stride: int = 1) -> Pooled:
    """f_cnn(x) with its switches: filters (l, K), x (D,); the region holds all shifts, and the first maximum counts."""
    if x.ndim != 1:
        raise ValueError(f"pool_signal: x must be a signal (D,), got shape {x.shape}")
    xp = array_module(x)
    if not bool(xp.isfinite(x).all()) or not bool(xp.isfinite(filters).all()):
        raise ValueError("pool_signal: x or the filters hold NaN or infinite values")
    r = (shift_matrix(filters, len(x), stride=stride).T @ x).reshape(filters.shape[1], -1)  # (K, n)
    p, q = xp.maximum(r.max(axis=1), 0), xp.maximum(-r.min(axis=1), 0)
    return Pooled(p, q, xp.where(p > 0, r.argmax(axis=1), -1), xp.where(q > 0, r.argmin(axis=1), -1))


@where_its_arrays_are
def selected(filters: Array, pooled: Pooled, D: int, *, stride: int = 1) -> tuple[Array, Array]:
    """W^ (D, m) and z (m,): the m active phases, positive ones first."""
    W = shift_matrix(filters, D, stride=stride)
    xp, K = array_module(filters), filters.shape[1]
    n = W.shape[1] // K
    switches = [to_host(s) for s in (pooled.plus, pooled.minus)]
    if any(s.shape != (K,) or s.dtype.kind not in "iu" or s.min() < -1 or s.max() >= n for s in switches):
        raise ValueError(
            f"selected: switches must be {K} integers a phase, shifts in 0 .. {n - 1} or -1, got {switches}"
        )
    active = [np.flatnonzero(s >= 0) for s in switches]
    columns = np.concatenate([i * n + s[i] for i, s in zip(active, switches, strict=True)])
    z = xp.concatenate((pooled.p[xp.asarray(active[0])], -pooled.q[xp.asarray(active[1])]))
    return W[:, xp.asarray(columns)], z


def reconstruct_signal(filters: Array, pooled: Pooled, D: int, *, stride: int = 1) -> Array:
    """Algorithm 2: x' = (W^')+ z (D,)."""
    return solve(*selected(filters, pooled, D, stride=stride))


@where_its_arrays_are
def one_of_each_sign(c: Array) -> bool:
    """The assumption: of every filter at most one positive and at most one negative number in c (K, n)."""
    return bool(((c > 0).sum(axis=1) <= 1).all()) and bool(((c < 0).sum(axis=1) <= 1).all())


@where_its_arrays_are
def most_of_one_sign(c: Array) -> int:
    """mu: the largest number of positive, or of negative, numbers of one filter in c (K, n); 1 is the assumption."""
    return max(1, int((c > 0).sum(axis=1).max()), int((c < 0).sum(axis=1).max()))


@where_its_arrays_are
def theorem_matrices(filters: Array, c: Array, D: int, *, stride: int = 1, signs: str = "coefficients") -> Matrices:
    """The matrices of the theorem for x = W c, c (K, n); `signs` "coefficients" or "responses" chooses W~.

    c may violate the assumption; a (filter, sign) that occurs several times still gives W~ one column.
    """
    W = shift_matrix(filters, D, stride=stride)
    xp, K = array_module(filters), filters.shape[1]
    if signs not in ("coefficients", "responses"):
        raise ValueError(f"theorem_matrices: signs must be 'coefficients' or 'responses', got {signs!r}")
    if c.shape != (K, W.shape[1] // K) or not bool((c != 0).any()):
        raise ValueError(f"theorem_matrices: c must be ({K}, {W.shape[1] // K}), not all 0, got shape {c.shape}")
    x = W @ c.reshape(-1)
    sign = c if signs == "coefficients" else xp.where(c != 0, (W.T @ x).reshape(c.shape), 0)
    pooled = pool_signal(filters, x, stride=stride)
    tilde = pooled._replace(
        plus=xp.where((sign > 0).any(axis=1), pooled.plus, -1),
        minus=xp.where((sign < 0).any(axis=1), pooled.minus, -1),
    )
    W_tilde, W_hat = (selected(filters, some, D, stride=stride)[0] for some in (tilde, pooled))
    return Matrices(x, W[:, xp.asarray(np.flatnonzero(to_host(c)))], W_tilde, W_hat)


def ratio_bounds(W_x: Array, W_tilde: Array) -> RatioBounds:
    """Both bounds on ||x - x'|| / ||x||; l is the square of the least non-zero singular value of W_x."""
    low, high = frame_bounds(W_x).lower, frame_bounds(W_tilde).upper if W_tilde.shape[1] else 0.0
    if high < low * (1 - 1e-12):
        return RatioBounds(math.nan, math.nan)
    gap = max(high - low, 0.0)
    return RatioBounds(math.sqrt(gap / high), math.sqrt(gap / low))


def shared_bound(W_x: Array, W_tilde: Array, mu: int) -> float:
    """sqrt(1 - l / (mu L)): the bound where up to mu columns of a filter have the same sign.

    NaN if l > mu L, which the theorem excludes: then mu is too small.
    """
    low, high = frame_bounds(W_x).lower, frame_bounds(W_tilde).upper if W_tilde.shape[1] else 0.0
    if low > mu * high * (1 + 1e-12):
        return math.nan
    return math.sqrt(max(1 - low / (mu * high), 0.0))


def unconditional_bound(W: Array, W_hat: Array, shifts: int) -> float:
    """sqrt(1 - lambda+_min(W) / (n lambda_max(W^))) for x in the span of W (D, K n), all n shifts of all filters."""
    return shared_bound(W, W_hat, shifts)


def noise_gain(W_hat: Array) -> float:
    """1 / sigma+_min(W^): how much longer an error of the pooled values can become in x^."""
    return 1 / math.sqrt(frame_bounds(W_hat).lower)


def box_signal(n: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Filters (n, 1), c (1, n + 1) and D = 2 n for which the bound is attained, with L / l = n.

    w = (1, .., 1), x = w^(n-1) - w^n = e_(n-1) - e_(2n-1).  All shifts up to n - 1 respond with 1, the first is
    selected; shift n responds with -1.  W~ has two orthogonal columns, L = n; W_x has the Gram matrix
    ((n, n-1), (n-1, n)), l = 1; and x' is 1/n on the first half, -1/n on the second: ||x - x'||^2 = 2 - 2/n.
    """
    if n < 1:
        raise ValueError(f"box_signal: n must be at least 1, got {n}")
    c = np.zeros((1, n + 1))
    c[0, n - 1 :] = 1, -1
    return np.ones((n, 1)), c, 2 * n


@where_its_arrays_are
def solve(W: Array, z: Array, eps: float | None = None) -> Array:
    """(W')+ z: (D, m), (m,) -> (D,); 0 if there are no columns, or only zeros.

    eps    the relative rounding of z, if it is coarser than that of W: it must not be divided by what is smaller
    """
    if W.shape[1] == 0 or not bool((W != 0).any()):
        return array_module(W).zeros(len(W), W.dtype)
    u, s, v = compact_svd(W, eps)
    return u @ ((v.T @ z) / s)
