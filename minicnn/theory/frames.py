"""Filters as a frame: how much of a vector do its inner products with the filters keep?

W (D, K) holds one filter phi_k per column (`w.reshape(-1, F)` of convolution filters).  On V = span of the columns:

    analysis     T v = (<v, phi_1>, ..., <v, phi_K>) = W' v          what a layer computes
    synthesis    T' c = sum c_k phi_k = W c                          its adjoint
    frame        S v = T' T v = W W' v                               invertible on V
    bounds       lower ||v||^2 <= ||T v||^2 <= upper ||v||^2         for all v in V

The best bounds are the squares of the least non-zero and of the largest singular value of W (section S1 of the paper
says "eigenvalues of S", which is the same on V).  Outside V there is no lower bound: W' v can be 0.

**Numerical rank.**  A singular value counts as zero unless sigma > max(D, K) eps sigma_max, with the eps of W's dtype:
the rule of numpy.linalg.matrix_rank.  Bounds, pseudoinverses and projections here and in reconstruction.py use it.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, where_its_arrays_are
from minicnn.theory.operators import Convolution, TileInverse, check_numbers

DENSE_ENTRIES = 4_000_000  # of a layer's matrix: up to here its bounds come from an SVD


class Bounds(NamedTuple):
    """lower ||v||^2 <= ||W' v||^2 <= upper ||v||^2 on the span of W's columns, which has dimension `rank`."""

    lower: float
    upper: float
    rank: int


class LayerBounds(NamedTuple):
    """The frame bounds of a layer.  Some eigenvalue of S lies within `lower_error` of `lower`, and so for `upper`.

    rank is None, and `lower` or `upper` an estimate, where they come from an iteration (see layer_bounds).
    """

    lower: float
    upper: float
    rank: int | None
    lower_error: float
    upper_error: float


@where_its_arrays_are
def check_matrix(where: str, W: Array) -> None:
    """W is (D, K), neither 0, finite, float32 or float64, and not all zero."""
    if W.ndim != 2 or 0 in W.shape:
        raise ValueError(f"{where}: W must be a matrix (D, K), one filter per column, neither 0, got shape {W.shape}")
    check_numbers(where, "W", W)
    if not bool((W != 0).any()):
        raise ValueError(f"{where}: W is zero: it spans nothing and has no frame bounds")


@where_its_arrays_are
def analysis(W: Array, v: Array) -> Array:
    """T v = W' v: (D, K), (D, ...) -> (K, ...)."""
    return W.T @ v


@where_its_arrays_are
def synthesis(W: Array, c: Array) -> Array:
    """T' c = W c: (D, K), (K, ...) -> (D, ...)."""
    return W @ c


@where_its_arrays_are
def frame_operator(W: Array, v: Array) -> Array:
    """S v = W W' v: (D, K), (D, ...) -> (D, ...)."""
    return W @ (W.T @ v)


@where_its_arrays_are
def numerical_rank(s: Array, shape: tuple[int, ...], eps: float | None = None) -> int:
    """How many of the singular values s (in descending order) of a matrix of this shape are not zero.

    eps    the relative rounding of what they are used with; None: that of s
    """
    return int((s > max(shape) * (np.finfo(s.dtype).eps if eps is None else eps) * s[0]).sum())


@where_its_arrays_are
def frame_bounds(W: Array) -> Bounds:
    """The best bounds on the span of the columns of W (D, K), and its dimension."""
    check_matrix("frame_bounds", W)
    s = array_module(W).linalg.svd(W, compute_uv=False)
    rank = numerical_rank(s, W.shape)
    least, largest = float(s[rank - 1]), float(s[0])
    if least * least == 0 or largest * largest == math.inf:
        raise ValueError(
            f"frame_bounds: the squares of singular values such as {largest:.0e} overflow or vanish; scale W"
        )
    return Bounds(least * least, largest * largest, rank)


@where_its_arrays_are
def compact_svd(W: Array, eps: float | None = None) -> tuple[Array, Array, Array]:
    """U (D, r), s (r,), V (K, r) with W = U diag(s) V' up to singular values that count as zero (numerical_rank)."""
    check_matrix("compact_svd", W)
    u, s, vt = array_module(W).linalg.svd(W, full_matrices=False)
    r = numerical_rank(s, W.shape, eps)
    return u[:, :r], s[:r], vt[:r].T


@where_its_arrays_are
def pseudoinverse(W: Array) -> Array:
    """W+ = V diag(1 / s) U': (D, K) -> (K, D).  (W')+ is its transpose."""
    u, s, v = compact_svd(W)
    return (v / s) @ u.T


@where_its_arrays_are
def project(W: Array, x: Array) -> Array:
    """The point of span(W) nearest to x, U U' x = (W')+ W' x: (D, K), (D, ...) -> (D, ...)."""
    u = compact_svd(W)[0]
    return u @ (u.T @ x)


@where_its_arrays_are
def norm_bounds(W: Array, x: Array) -> tuple[float, float, float]:
    """sigma_min ||x||, ||W' x||, sigma_max ||x||: in this order of size if x (D,) is in the span of W.

    The lemma of section S1; its "singular values of V" are those of W, and sigma_min is the least that is not zero.
    Beyond the span the upper inequality still holds, the lower does not.
    """
    lower, upper, _ = frame_bounds(W)
    norm = float(array_module(x).linalg.norm(x))
    return math.sqrt(lower) * norm, float(array_module(x).linalg.norm(W.T @ x)), math.sqrt(upper) * norm


@where_its_arrays_are
def shift_matrix(filters: Array, D: int, *, stride: int = 1) -> Array:
    """All shifts of 1-D filters: filters (l, K) -> W (D, n K), n = (D - l) / stride + 1, in K blocks of n columns.

    Column (i, j) is the paper's w_i^j: filter i from coordinate j stride on, zeros elsewhere.  D - l must be a
    multiple of the stride.
    """
    if filters.ndim != 2 or 0 in filters.shape:
        raise ValueError(f"shift_matrix: filters must be (l, K), neither 0, got shape {filters.shape}")
    (length, K), xp = filters.shape, array_module(filters)
    if stride < 1 or length > D or (D - length) % stride:
        raise ValueError(f"shift_matrix: filters of length {length} do not fit D = {D} in steps of {stride}")
    n = (D - length) // stride + 1
    W = xp.zeros((D, K, n), filters.dtype)
    for j in range(n):
        W[j * stride : j * stride + length, :, j] = filters
    return W.reshape(D, K * n)


@where_its_arrays_are
def layer_bounds(conv: Convolution, *, iterations: int = 100) -> LayerBounds:
    """The frame bounds of all shifts of all filters: extreme non-zero eigenvalues of S = T' T, in float64.

    S depends on W W' alone, so F filters of rank r are replaced by r orthogonal ones with the same W W'.  A matrix of
    up to DENSE_ENTRIES entries: by SVD, to rounding, with the rank.  A larger one: by iteration on the smaller of
    T' T and T T', which have the same non-zero eigenvalues, with rank None:

    upper    Lanczos (eigsh) to a relative 1e-6.  Never above the truth except for rounding.
    lower    the least eigenvalue, which is hard: the gaps around it are tiny compared with `upper`, and Lanczos does
             not get there.  LOBPCG until the residual is below 1e-9 upper, at most `iterations` steps; with TileInverse
             if T has at least as many rows as columns (fast), else without (slow).  Never below the truth except for
             rounding, and too large while it has not converged.  `lower_error` = ||S v - lower v|| tells: some
             eigenvalue is that close to `lower`.

    A `lower` that rounding cannot tell from 0 comes back as 0.0: T' T and T T' are both singular then (windows that
    lie in the padding, pixels that no window covers), and an iteration does not find the least value that is not 0.
    """
    u, s, _ = compact_svd(conv.w.reshape(-1, conv.w.shape[3]).astype(np.float64))
    windows = conv.windows
    w = (u * s).reshape(*conv.w.shape[:3], -1)  # (kh, kw, C, r)
    conv = Convolution(w, windows.size, stride=windows.stride, pad=windows.pad)
    if math.prod(conv.shape) <= DENSE_ENTRIES:
        lower, upper, rank = frame_bounds(conv.dense().T)
        error = max(conv.shape) * np.finfo(np.float64).eps * upper
        return LayerBounds(lower, upper, rank, error, error)
    operator, tall = conv.linear_operator(), conv.shape[0] >= conv.shape[1]
    square = operator.H @ operator if tall else operator @ operator.H
    start = np.random.default_rng(0).standard_normal((min(conv.shape), 4))
    upper, upper_error = _largest(square, start[:, 0], 1e-6)
    inverse = TileInverse(conv).linear_operator() if tall else None
    lower, lower_error = _least(square, start, inverse, 1e-9 * upper, iterations)
    if lower <= max(conv.shape) * np.finfo(np.float64).eps * upper:
        lower = 0.0
    return LayerBounds(lower, upper, None, lower_error, upper_error)


def _largest(square: Any, start: np.ndarray, tolerance: float) -> tuple[float, float]:
    """The largest eigenvalue of a symmetric operator, and the norm of its residual: Lanczos."""
    from scipy.sparse.linalg import eigsh

    values, vectors = eigsh(square, 1, which="LA", v0=start, tol=tolerance)
    return _with_residual(square, values[0], vectors[:, 0])


def _least(square: Any, start: np.ndarray, inverse: Any, tolerance: float, iterations: int) -> tuple[float, float]:
    """The least eigenvalue of a symmetric operator, and the norm of its residual: LOBPCG."""
    from scipy.sparse.linalg import lobpcg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it has not converged: the residual says so
        values, vectors = lobpcg(square, start, M=inverse, largest=False, maxiter=iterations, tol=tolerance)
    return _with_residual(square, values[0], vectors[:, 0])


def _with_residual(square: Any, value: float, vector: np.ndarray) -> tuple[float, float]:
    """An approximate eigenvalue, and ||S v - value v||: some eigenvalue of S is that close, if v has length 1."""
    return float(value), float(np.linalg.norm(square @ vector - value * vector))
