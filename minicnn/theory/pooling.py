"""What survives max pooling (the paper's section S1: Algorithm 2 and its theorem), on signals and on feature maps.

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
is in the range of W_x'; so l ||x||^2 <= ||r_A||^2.  (With the signs of r take A = all columns: this is the lemma.)
For i in A the pooled response of that filter and sign is at least |r_i|, and no two i share one: ||r_A||^2 <=
||W~' x||^2 <= L ||P x||^2, P the projection onto span W~.  Finally ||x - x'||^2 <= ||x - P x||^2 = ||x||^2 - ||P x||^2.

The paper limits only how many c are > 0, and allows any c: tests/theory/test_pooling.py has a counterexample to each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host
from minicnn.ops.conv import conv2d
from minicnn.ops.pool import max_pool2d, max_pool2d_switches
from minicnn.ops.windows import Pad, Size, Windows, as_pair, unfold
from minicnn.parallel import over_batch, pieces
from minicnn.theory.frames import compact_svd, frame_bounds, shift_matrix
from minicnn.theory.operators import check_filters

# --- one region of a 1-D signal: the paper's setting, with explicit matrices ---


class Pooled(NamedTuple):
    """Of K filters, the largest positive responses p and their shifts, and the same of -x; shift -1: not active."""

    p: Array  # (K,)
    q: Array  # (K,)
    plus: Array  # (K,) integers
    minus: Array  # (K,)


class Matrices(NamedTuple):
    """x (D,) = W_x c and the matrices of the theorem, one shifted filter a column."""

    x: Array
    W_x: Array
    W_tilde: Array
    W_hat: Array


class RatioBounds(NamedTuple):
    """tight = sqrt(1 - l / L), paper = sqrt((L - l) / l); NaN if l > L, which the theorem excludes."""

    tight: float
    paper: float


def pool_signal(filters: Array, x: Array, *, stride: int = 1) -> Pooled:
    """f_cnn(x) with its switches: filters (l, K), x (D,); the region holds all shifts, and the first maximum counts."""
    xp, K = array_module(x), filters.shape[1]
    r = (shift_matrix(filters, len(x), stride=stride).T @ x).reshape(K, -1)  # (K, n)
    p, q = xp.maximum(r.max(axis=1), 0), xp.maximum(-r.min(axis=1), 0)
    return Pooled(p, q, xp.where(p > 0, r.argmax(axis=1), -1), xp.where(q > 0, r.argmin(axis=1), -1))


def selected(filters: Array, pooled: Pooled, D: int, *, stride: int = 1) -> tuple[Array, Array]:
    """W^ (D, m) and z (m,): the m active phases, positive ones first."""
    xp, K = array_module(filters), filters.shape[1]
    W = shift_matrix(filters, D, stride=stride)
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
    return _solve(*selected(filters, pooled, D, stride=stride))


def one_of_each_sign(c: Array) -> bool:
    """The assumption: of every filter at most one positive and at most one negative number in c (K, n)."""
    return bool(((c > 0).sum(axis=1) <= 1).all()) and bool(((c < 0).sum(axis=1) <= 1).all())


def theorem_matrices(filters: Array, c: Array, D: int, *, stride: int = 1, signs: str = "coefficients") -> Matrices:
    """The matrices of the theorem for x = W c, c (K, n); `signs` "coefficients" or "responses" chooses W~.

    c may violate the assumption; a (filter, sign) that occurs several times still gives W~ one column.
    """
    xp, K = array_module(filters), filters.shape[1]
    W = shift_matrix(filters, D, stride=stride)
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


def _solve(W: Array, z: Array) -> Array:
    """(W')+ z: (D, m), (m,) -> (D,); 0 if there are no columns, or only zeros."""
    if W.shape[1] == 0 or not bool((W != 0).any()):
        return array_module(W).zeros(len(W), W.dtype)
    u, s, v = compact_svd(W)
    return u @ ((v.T @ z) / s)


# --- every region of a batch of feature maps ---


class PooledMaps(NamedTuple):
    """What pooling keeps of N maps; on the last axis F positive phases, then F negative ones."""

    values: Array  # (N, PH, PW, 2 F): p and -q, bias included; 0 where the phase was not active
    switches: Array  # (N, PH, PW, 2 F): integers i kw + j, the cell (i, j) of the pooling window


class PooledConvolution:
    """Convolution (w, b, stride, pad), CReLU and max pooling (k, pool_stride, pool_pad, ceil), and what they keep.

    The region of a pooling window is a patch of ((k - 1) stride + kh) x ((k - 1) stride + kw) pixels.  **At the
    border**, cells that the convolution padded, and cells that no response looks at because the pooling window hangs
    over the edge of the map, belong to the patch with value 0, and filters are not clipped there: x is what the
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
        pool_stride: Size = 2,
        pool_pad: Pad = 0,
        ceil: bool = True,
    ):
        where = "PooledConvolution"
        check_filters(where, w)
        xp = array_module(w)
        self.w, self.b, self.k = w, b, as_pair(where, "k", k)
        self._conv: dict[str, Any] = {"stride": stride, "pad": pad}
        self._pool: dict[str, Any] = {"k": k, "stride": pool_stride, "pad": pool_pad, "ceil": ceil}
        (kh, kw, c, f), (sh, sw) = w.shape, as_pair(where, "stride", stride)
        self.patch: tuple[int, int, int] = ((self.k[0] - 1) * sh + kh, (self.k[1] - 1) * sw + kw, c)
        shifts = xp.zeros((*self.patch, *self.k, f))
        for i, j in np.ndindex(self.k):
            shifts[i * sh : i * sh + kh, j * sw : j * sw + kw, :, i, j] = w
        self.shifts = shifts.reshape(math.prod(self.patch), -1)  # (D, M), float64; column (i kw + j) F + f

    def pool(self, x: Array) -> PooledMaps:
        """The pooled values and switches of images (N, H, W, C), in the precision of x."""
        xp = array_module(x)
        y = conv2d(x, *(None if a is None else a.astype(x.dtype) for a in (self.w, self.b)), **self._conv)
        p, q = (xp.maximum(max_pool2d(a, **self._pool), 0) for a in (y, -y))
        switches = [max_pool2d_switches(a, **self._pool) for a in (y, -y)]
        return PooledMaps(xp.concatenate((p, -q), -1), xp.concatenate(switches, -1))

    def patches(self, x: Array) -> Array:
        """Every region of images (N, H, W, C): (N, PH, PW, *patch), a view of the padded images."""
        return unfold(*self._regions(x))

    def reconstruct(self, pooled: PooledMaps, regions: Sequence[tuple[int, int, int]]) -> Array:
        """x' = (W^')+ z of the regions (n, P, Q), one SVD each: (R, *patch), float64."""
        xp = array_module(pooled.values)
        columns, z = self._columns_and_responses(pooled)
        found = []
        for region in regions:
            active = xp.flatnonzero(pooled.values[region])
            found.append(_solve(self.shifts[:, columns[region][active]], z[region][active]).reshape(self.patch))
        return xp.stack(found)

    def ratios(self, x: Array) -> Array:
        """||x - x'|| / ||x|| of every region of images x (N, H, W, C): (N, PH, PW), float64; 0 where x is 0.

        x' is a projection, so ||x - x'||^2 = ||x||^2 - z' G+ z with the Gram matrix G = W^' W^, looked up in that of
        all shifts; one Cholesky factorisation a region, in float64.  Columns are scaled to norm 1 and
        delta = 20 F eps is added to the diagonal, so dependent shifts do no harm.  The square of the ratio is right to
        about delta / (least non-zero eigenvalue of G): where all of x is recovered, expect 1e-6, not 1e-16.
        """
        xp = array_module(x)
        lengths = xp.sqrt((self.shifts**2).sum(axis=0))  # (M,)
        lengths = xp.where(lengths > 0, lengths, 1)
        gram = xp.zeros((len(lengths) + 1, len(lengths) + 1))  # the last row and column: a phase that is not active
        gram[:-1, :-1] = (self.shifts / lengths).T @ (self.shifts / lengths)
        result = xp.zeros((len(x), *self._regions(x[:0])[1].out))
        for piece in pieces(len(x), 8 * math.prod(x.shape[1:]), x):
            part = x[piece].astype(np.float64)
            pooled, square = self.pool(part), self._squares(part)  # square (n, PH, PW)
            if not bool(xp.isfinite(square).all()):
                raise ValueError("PooledConvolution: x holds NaN or infinite values, or its squares overflow")
            columns, z = self._columns_and_responses(pooled)
            active = pooled.values != 0
            z = xp.where(active, z / lengths[columns], 0) / xp.sqrt(xp.where(square > 0, square, 1))[..., None]
            kept = _explained(gram, xp.where(active, columns, len(lengths)), z)
            result[piece] = xp.sqrt(xp.where(square > 0, xp.maximum(1 - kept, 0), 0))
        return result

    def _regions(self, x: Array) -> tuple[Array, Windows]:
        """The part of the padded images that the convolution looks at, and the windows that are its regions."""
        conv = Windows.over("PooledConvolution", x, self.w.shape[:2], **self._conv)
        maps = np.empty((1, *conv.out, 1), np.float32)
        pool = Windows.over("PooledConvolution", maps, **self._pool)
        height, width = ((out - 1) * s + k for out, s, k in zip(conv.out, conv.stride, conv.k, strict=True))
        stride = (pool.stride[0] * conv.stride[0], pool.stride[1] * conv.stride[1])
        pad = ((pool.pad[0][0] * conv.stride[0], 0), (pool.pad[1][0] * conv.stride[1], 0))
        windows = Windows((height, width), self.patch[:2], stride, pad, pool.out)
        return conv.padded(x)[:, :height, :width], windows

    def _squares(self, x: Array) -> Array:
        """||x||^2 of every region: (N, H, W, C) -> (N, PH, PW)."""
        image, windows = self._regions(x)
        total = array_module(x).zeros((len(x), *windows.out))
        for _, _, cell in windows.cells(windows.padded((image**2).sum(axis=-1, keepdims=True))):
            total += cell[..., 0]
        return total

    def _columns_and_responses(self, pooled: PooledMaps) -> tuple[Array, Array]:
        """The columns of `shifts` that the switches select, and W' x there: the values without the bias."""
        xp, f = array_module(pooled.values), self.w.shape[3]
        values, switches = pooled
        if values.shape != switches.shape or values.ndim != 4 or values.shape[3] != 2 * f:
            shapes = f"{values.shape} and {switches.shape}"
            raise ValueError(f"PooledConvolution: values and switches must be (N, PH, PW, {2 * f}), got {shapes}")
        if switches.dtype.kind not in "iu" or not bool(((switches >= 0) & (switches < math.prod(self.k))).all()):
            raise ValueError(f"PooledConvolution: switches must be integers in 0 .. {math.prod(self.k) - 1}")
        bias = 0.0 if self.b is None else xp.concatenate((self.b, self.b)).astype(np.float64)
        return switches.astype(np.int64) * f + xp.arange(2 * f) % f, values.astype(np.float64) - bias


def _explained(gram: Array, columns: Array, z: Array) -> Array:
    """z' G+ z of every region, G = gram[columns][:, columns]: (M + 1, M + 1), (..., m), (..., m) -> (...).

    The last row of the Cholesky factor L of [[G, z], [z', 2]] is L^-1 z, and z' G^-1 z = ||L^-1 z||^2 <= 1.
    """
    xp, m = array_module(z), z.shape[-1]
    columns, flat = columns.reshape(-1, m), z.reshape(-1, m)
    result = xp.zeros(len(flat))
    delta = 10 * m * float(np.finfo(np.float64).eps)

    def work(piece: slice) -> None:
        pairs = columns[piece][:, :, None] * len(gram) + columns[piece][:, None, :]  # (n, m, m)
        bordered = xp.empty((len(pairs), m + 1, m + 1))
        bordered[:, :m, :m] = gram.reshape(-1).take(pairs)
        bordered.reshape(len(pairs), -1)[:, :: m + 2] = 1 + delta  # the diagonal
        bordered[:, m, :m] = bordered[:, :m, m] = flat[piece]
        bordered[:, m, m] = 2
        result[piece] = (xp.linalg.cholesky(bordered)[:, m, :m] ** 2).sum(axis=1)

    over_batch(work, len(flat), 3 * 8 * (m + 1) ** 2, flat)
    if not bool((result <= 1 + 1e-3).all()):  # NaN too
        raise ArithmeticError("PooledConvolution: a projection longer than x: responses and switches do not match")
    return result.reshape(z.shape[:-1])
