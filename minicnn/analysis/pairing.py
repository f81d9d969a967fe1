"""Pairs of opposite filters (the paper's section 2.1, Figures 1 to 3).

With filters phi_i of length 1, the pairing filter of phi_i is the one most opposed to it, and mu_i their cosine:

    j(i) = argmin_{j != i} <phi_i, phi_j>,        mu_i = <phi_i, phi_j(i)>.

mu_i = -1 means an exact negative.  A minimum over K - 1 filters is negative by chance alone, the more so the fewer
dimensions the filters have: 96 Gaussian filters of 3x3x3 have a mean mu of -0.462, of 3x3x96 only -0.085.  So a layer
says something only beside random filters *of the same shape*, which `random_mu` draws and `compare` puts beside it.

In a grouped convolution the filters of two groups look at different channels: they are compared within their group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import CPU, Array, Device, array_module, to_host, where_its_arrays_are
from minicnn.backend import device as as_device
from minicnn.random import Stream
from minicnn.theory.operators import check_filters

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Pairing(NamedTuple):
    """The pairs of K filters, on the host.  A filter of zeros has no direction: -1 and NaN."""

    partner: np.ndarray  # (K,) integers: j(i)
    mu: np.ndarray  # (K,) float64


class Comparison(NamedTuple):
    """mu of a layer beside mu of random filters of its shape."""

    filters: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]  # at QUANTILES
    null_mean: float
    null_deviation: float
    null_quantiles: tuple[float, ...]
    ks: float  # sup |F(mu) - F(mu random)|
    p_value: float


@where_its_arrays_are
def pairing(w: Array, *, groups: int = 1) -> Pairing:
    """The pairing filter and its cosine for filters w (kh, kw, C, K); C is the channels of one group."""
    check_filters("pairing", w)
    filters = w.shape[3]
    if groups < 1 or filters % groups or filters // groups < 2:
        raise ValueError(f"pairing: {filters} filters in {groups} groups: each group needs the same number, at least 2")
    xp, size = array_module(w), filters // groups
    rows = w.reshape(-1, filters).T.astype(np.float64)  # (K, D)
    length = xp.sqrt((rows * rows).sum(axis=1))
    zero = (length == 0).reshape(groups, 1, size)
    phi = (rows / xp.where(length > 0, length, 1)[:, None]).reshape(groups, size, -1)
    cosines = xp.clip(phi @ phi.transpose(0, 2, 1), -1, 1)  # (groups, K / groups, K / groups); rounding may exceed 1
    cosines = xp.where(xp.eye(size, dtype=bool)[None] | zero, np.inf, cosines)
    mu = to_host(xp.where(zero[:, 0], np.inf, cosines.min(axis=2))).reshape(-1)
    partner = to_host(cosines.argmin(axis=2)) + size * np.arange(groups)[:, None]
    known = np.isfinite(mu)
    return Pairing(np.where(known, partner.reshape(-1), -1), np.where(known, mu, np.nan))


@where_its_arrays_are
def cosine_with(w: Array, start: Array) -> np.ndarray:
    """The cosine of every filter with what it was at the start: (K,), on the host; NaN for filters of zeros.

    Filters that training has hardly turned are as random as they began: their mu says nothing about learning.
    """
    if w.shape != start.shape:
        raise ValueError(f"cosine_with: filters {w.shape} did not start as {start.shape}")
    xp = array_module(w)
    a, b = (v.reshape(-1, w.shape[-1]).astype(np.float64) for v in (w, start))
    lengths = xp.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
    return to_host(xp.where(lengths > 0, (a * b).sum(axis=0) / xp.where(lengths > 0, lengths, 1), np.nan))


def repeats_itself(w: np.ndarray) -> bool:
    """Whether filters (kh, kw, C, K) have minus the first half of their channels on the second (init.looks_linear)."""
    half = w.shape[2] // 2
    return w.shape[2] % 2 == 0 and np.array_equal(w[:, :, :half], -w[:, :, half:])


def cosine_of_halves(w: np.ndarray) -> float:
    """The cosine of the first half of the channels of filters (kh, kw, C, K) with the second: the mean over filters.

    Filters of which a half is zero do not count; 0 if there are no others.
    """
    cosines = cosine_with(*np.split(w, 2, axis=2))
    known = cosines[np.isfinite(cosines)]
    return float(np.clip(known.mean(), -1, 1)) if known.size else 0.0


def random_mu(
    shape: tuple[int, ...],
    *,
    halves: float = 0.0,
    groups: int = 1,
    draws: int = 20,
    stream: Stream,
    device: str | Device = CPU,
) -> np.ndarray:
    """mu of `draws` banks of Gaussian filters of a shape (kh, kw, C, K): (draws, K).

    halves    the correlation of the first half of the channels with the second; 0, unless a network starts with one
    """
    if not -1 <= halves <= 1 or (halves and shape[2] % 2):
        raise ValueError(f"random_mu: halves is a correlation of two halves, got {halves} for {shape[2]} channels")

    def bank(draw: int) -> np.ndarray:
        w = stream.at(draw).generator().standard_normal(shape)
        if halves:
            first, second = np.split(w, 2, axis=2)
            second[...] = halves * first + (1 - halves**2) ** 0.5 * second
        return w

    where = as_device(device)
    return np.stack([pairing(where.put(bank(draw)), groups=groups).mu for draw in range(draws)])


def effective_dimensions(shape: tuple[int, ...], halves: float = 0.0) -> float:
    """How many dimensions filters (kh, kw, C, K) have, if the halves of their channels are correlated.

    tr(S)^2 / tr(S^2) of their covariance S: kh kw C / (1 + halves^2), so half of them if one half repeats the other.
    """
    kh, kw, channels, _ = shape
    return kh * kw * channels / (1 + halves**2)


def expected_mu(filters: int, dimensions: float) -> float:
    """E mu of random directions, by an integral.

    mu_i is the least of K - 1 independent cosines, and (1 + cosine) / 2 has the law Beta((D-1)/2, (D-1)/2), so
    E mu = -1 + integral from -1 to 1 of P(cosine > t)^(K-1) dt.
    """
    from scipy.stats import beta

    if filters < 2 or dimensions < 1:
        raise ValueError(f"expected_mu: needs 2 filters and 1 dimension at least, got {filters} and {dimensions}")
    if dimensions == 1:
        return 2 * 0.5 ** (filters - 1) - 1  # the cosines are signs
    t = np.linspace(-1, 1, 40_001)
    above = beta.sf((t + 1) / 2, (dimensions - 1) / 2, (dimensions - 1) / 2) ** (filters - 1)
    return float(np.trapezoid(above, t) - 1)


def compare(mu: np.ndarray, null: np.ndarray) -> Comparison:
    """Means, quantiles, and the two-sample Kolmogorov-Smirnov test of mu against the random mu.

    The test assumes that all mu are independent.  They are not quite (if j is the pair of i, then i is often that of
    j), so the p-value is a guide: 1e-8 means something, 0.03 does not.
    """
    from scipy.stats import ks_2samp

    mu, null = mu[np.isfinite(mu)], null[np.isfinite(null)]
    if not mu.size or not null.size:
        raise ValueError("compare: no filter of this layer has a direction")
    test: Any = ks_2samp(mu, null, method="asymp")
    return Comparison(
        filters=mu.size,
        mean=float(mu.mean()),
        deviation=float(mu.std()),
        quantiles=tuple(map(float, np.quantile(mu, QUANTILES))),
        null_mean=float(null.mean()),
        null_deviation=float(null.std()),
        null_quantiles=tuple(map(float, np.quantile(null, QUANTILES))),
        ks=float(test.statistic),
        p_value=float(test.pvalue),
    )
