"""What survives max pooling (the paper's Theorem S1.1 and Algorithm 2), on signals and on feature maps.

A region is what one pooling window sees.  Of every filter, convolution + CReLU + max pooling keeps the largest positive
response p and the largest negative one, -q; *switches* say at which shifts.  So of the region x it is known that

    W^' x = z,    W^ = the selected shifts, a column each,    z = the pooled values (p, -q), without the bias,

and x' = (W^')+ z, the projection of x onto the span of W^, is what can be recovered.  A phase with pooled value 0
was never active and gives no column.  Without the switches W^ is not known, and the theorem has no meaning.

**The theorem.**  Let x = W_x c, W_x a set of shifts with c != 0; of each filter at most one with c > 0 and at most one
with c < 0.  Let W~ be those columns of W^ that belong to (filter, sign of c).  If the columns of W_x are independent,

    ||x - x'|| / ||x|| <= sqrt(1 - l / L) <= sqrt((L - l) / l),    l = sigma_min(W_x)^2,  L = sigma_max(W~)^2.

The first bound is ours, the second the paper's.  Proof: with r = W_x' x and A = {i: c_i r_i > 0},
||x||^2 = c'r <= ||c|| ||r_A|| <= ||x|| ||r_A|| / sqrt(l).  For i in A the pooled response of that filter and sign is at
least |r_i|, and no two i share one, so l ||x||^2 <= ||r_A||^2 <= ||W~' x||^2 <= L ||P x||^2, P the projection onto
span W~; and ||x - x'||^2 <= ||x - P x||^2 = ||x||^2 - ||P x||^2.
With dependent columns it holds for the least *non-zero* sigma_min if the signs are those of r (or of the
least-norm c) and not of an arbitrary c.  tests/theory/test_pooling.py has a counterexample for each condition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host
from minicnn.ops.conv import conv2d
from minicnn.ops.pool import max_pool2d_switches
from minicnn.ops.windows import Pad, Pair2, Size, Windows, unfold
from minicnn.parallel import over_batch, pieces
from minicnn.theory.frames import check_matrix, compact_svd, frame_bounds, shift_matrix
from minicnn.theory.operators import check_filters

# --- one region of a 1-D signal: the paper's setting, with explicit matrices ---


class Pooled(NamedTuple):
    """Of K filters: largest positive responses p and where, largest negative ones (as q >= 0) and where; -1: nowhere."""

    p: Array  # (K,)
    q: Array  # (K,)
    plus: Array  # (K,) shifts
    minus: Array  # (K,)


class Matrices(NamedTuple):
    """x (D,) = W_x c, and the matrices of the theorem: one shifted filter a column."""

    x: Array
    W_x: Array
    W_tilde: Array
    W_hat: Array


class RatioBounds(NamedTuple):
    """tight = sqrt(1 - l / L), paper = sqrt((L - l) / l); both NaN if l > L, which the theorem excludes."""

    tight: float
    paper: float
    l_min: float
    L_max: float


def pool_signal(filters: Array, x: Array, *, stride: int = 1) -> Pooled:
    """f_cnn(x) with its switches: filters (l, K), x (D,), one pooling region that holds all n shifts."""
    xp, K = array_module(x), filters.shape[1]
    r = (shift_matrix(filters, len(x), stride=stride).T @ x).reshape(K, -1)  # (K, n)
    p, q = xp.maximum(r.max(axis=1), 0), xp.maximum(-r.min(axis=1), 0)
    return Pooled(p, q, xp.where(p > 0, r.argmax(axis=1), -1), xp.where(q > 0, r.argmin(axis=1), -1))


def selected(filters: Array, pooled: Pooled, D: int, *, stride: int = 1) -> tuple[Array, Array]:
    """W^ (D, m) and z (m,): the m active phases, positive ones first."""
    xp, K = array_module(filters), filters.shape[1]
    W = shift_matrix(filters, D, stride=stride)
    n = W.shape[1] // K
    if any(switch.shape != (K,) or switch.dtype.kind != "i" for switch in (pooled.plus, pooled.minus)):
        raise ValueError(f"selected: switches must be {K} integers a phase, one for each filter")
    host = [to_host(switch) for switch in (pooled.plus, pooled.minus)]
    if any(switch.min() < -1 or switch.max() >= n for switch in host):
        raise ValueError(f"selected: switches must be shifts in 0 .. {n - 1}, or -1, got {host[0]} and {host[1]}")
    columns = np.concatenate([np.arange(K)[s >= 0] * n + s[s >= 0] for s in host])
    active = [xp.asarray(np.flatnonzero(s >= 0)) for s in host]
    z = xp.concatenate((pooled.p[active[0]], -pooled.q[active[1]]))
    return W[:, xp.asarray(columns)], z


def reconstruct_signal(filters: Array, pooled: Pooled, D: int, *, stride: int = 1) -> Array:
    """Algorithm 2: x' = (W^')+ z (D,); 0 if nothing was active."""
    W_hat, z = selected(filters, pooled, D, stride=stride)
    if W_hat.shape[1] == 0 or not bool((W_hat != 0).any()):
        return array_module(filters).zeros(D, filters.dtype)
    return _pinv_transposed(W_hat, z)


def one_of_each_sign(c: Array) -> bool:
    """The theorem's assumption on c (K, n): of every filter at most one positive and one negative coefficient."""
    return bool(((c > 0).sum(axis=1) <= 1).all()) and bool(((c < 0).sum(axis=1) <= 1).all())


def theorem_matrices(filters: Array, c: Array, D: int, *, stride: int = 1, signs: str = "coefficients") -> Matrices:
    """The matrices of the theorem for x = W c, c (K, n); signs "coefficients" or "responses" choose W~.

    c may violate the assumption.  A (filter, sign) that occurs several times in c gives W~ one column.
    """
    if signs not in ("coefficients", "responses"):
        raise ValueError(f"theorem_matrices: signs must be 'coefficients' or 'responses', got {signs!r}")
    xp, K = array_module(filters), filters.shape[1]
    W = shift_matrix(filters, D, stride=stride)
    n = W.shape[1] // K
    if c.shape != (K, n) or not bool((c != 0).any()):
        raise ValueError(f"theorem_matrices: c must be ({K}, {n}) coefficients, not all 0, got shape {c.shape}")
    x = W @ c.reshape(-1)
    sign = c if signs == "coefficients" else (W.T @ x).reshape(K, n)
    pooled = pool_signal(filters, x, stride=stride)
    kept = [to_host(((c != 0) & (s > 0)).any(axis=1)) for s in (sign, -sign)]  # (K,) a phase
    tilde = [xp.where(xp.asarray(k), s, -1) for k, s in zip(kept, (pooled.plus, pooled.minus), strict=True)]
    hat = selected(filters, pooled, D, stride=stride)[0]
    W_tilde = selected(filters, pooled._replace(plus=tilde[0], minus=tilde[1]), D, stride=stride)[0]
    return Matrices(x, W[:, xp.asarray(np.flatnonzero(to_host(c).ravel()))], W_tilde, hat)


def ratio_bounds(W_x: Array, W_tilde: Array) -> RatioBounds:
    """Both bounds on ||x - x'|| / ||x||; l is the least non-zero singular value of W_x, squared."""
    low, high = frame_bounds(W_x).lower, frame_bounds(W_tilde).upper if W_tilde.shape[1] else 0.0
    if high < low * (1 - 1e-12):
        return RatioBounds(math.nan, math.nan, low, high)
    gap = max(high - low, 0.0)
    return RatioBounds(math.sqrt(gap / high), math.sqrt(gap / low), low, high)


def _pinv_transposed(W: Array, z: Array) -> Array:
    """(W')+ z: (D, m), (m,) -> (D,)."""
    u, s, v = compact_svd(W)
    return u @ ((v.T @ z) / s)


# --- every region of a batch of feature maps ---


class PooledMaps(NamedTuple):
    """What pooling keeps of N maps: block F positive phases, then F negative ones, on the last axis."""

    values: Array  # (N, PH, PW, 2 F): p and -q, bias included; 0 where the phase was not active
    switches: Array  # (N, PH, PW, 2 F): integers i * pool_k + j, the cell of the pooling window


class PooledConvolution:
    """convolution (w, b, stride, pad), CReLU, max pooling (k, pool_stride, pool_pad, ceil), and what it keeps.

    The region of pooling window (P, Q) is a patch of ((k - 1) stride + kh) x ... pixels of the padded image.  **At the
    border** cells that the convolution padded, and cells that no response looks at because the pooling window hangs
    over the edge of the map, are part of the patch with value 0, and filters there are not clipped: x is what the
    convolution saw.  Switches never point outside the map.
    """

    def __init__(
        self,
        w: Array,
        b: Array | None = None,
        *,
        stride: Size = 1,
        pad: Pad = 0,
        k: Size = 3,
        pool_stride: Size | None = 2,
        pool_pad: Pad = 0,
        ceil: bool = True,
    ):
        pass
