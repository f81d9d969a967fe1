"""Random subspaces, and the random column of the paper's table of reconstruction ratios (appendix, Table S1).

**How much of a vector does a random subspace hold?**  Let x_s be the projection of x in R^D on a uniformly random
subspace of dimension s.  By rotation invariance ||x_s||/||x|| has the law of ||(z_1 .. z_s)||/||z||, z Gaussian, and

    E ||x_s||^2 / ||x||^2 = s / D                                      exactly,
    E ||x_s|| / ||x||     = Gamma((s+1)/2) Gamma(D/2) / (Gamma(s/2) Gamma((D+1)/2))
                          = sqrt(s/D) (1 - (1/s - 1/D)/4 + O(1/s^2)).

*Proof of the second.*  ||z|| is independent of the direction z/||z||, so E ||(z_1 .. z_s)|| = E ratio * E ||z||, and a
chi variable with n degrees of freedom has mean sqrt 2 Gamma((n+1)/2) / Gamma(n/2).   QED

The paper's theorem says sqrt(s/D): it takes the root out of the mean.  By Jensen that is too large for 0 < s < D.

**Table S1** reconstructs a 5x5 patch of features from CReLU + 3x3 max-pooling with 3x3 filters and finds
||x - x'||/||x|| = .99 for random filters.  x' is the projection on the columns that the pooling switches select: for
every filter, and for each of its two phases that fires, the filter at the position where the phase is largest.  So
there are up to 2K columns (not K) in D = 25 C_in dimensions, C_in counting both phases (2400, not 1200, for conv2).
The switches depend on x, hence the subspace is not random given x: on white noise the best of nine positions holds
2.6 times the energy of one.  On features that do not vary over the patch all positions are the same and one phase of
each filter fires: K columns, as if chosen at random, sqrt(1 - 48/2400) = .99.  That is the table's figure.
"""

from __future__ import annotations

from math import ceil, exp, inf, isinf, lgamma, log, sqrt

import numpy as np

from minicnn.backend import CPU, Array, Device, array_module, where_its_arrays_are
from minicnn.backend import device as as_device
from minicnn.parallel import pieces
from minicnn.random import Stream
from minicnn.theory.monte_carlo import Estimate, MonteCarlo
from minicnn.theory.pooled_maps import PooledConvolution

# --- a uniformly random subspace ---


def mean_ratio(s: int, D: int) -> float:
    """E ||x_s|| / ||x||, exact up to rounding: the ratio of Gamma functions above."""
    _check_dimensions("mean_ratio", s, D)
    return exp(_log_step(s / 2) - _log_step(D / 2)) if s else 0.0


def root_ratio(s: int, D: int) -> float:
    """sqrt(s/D): the paper's value.  It is (E ||x_s||^2 / ||x||^2)^(1/2), and above the mean ratio if 0 < s < D."""
    _check_dimensions("root_ratio", s, D)
    return sqrt(s / D)


def _log_step(x: float) -> float:
    """log Gamma(x + 1/2) - log Gamma(x).  For large x a series: the two terms would cancel."""
    if x < 100:
        return lgamma(x + 0.5) - lgamma(x)
    return log(x) / 2 - 1 / (8 * x) + 1 / (192 * x**3) - 1 / (640 * x**5)  # the next term is below 2e-17


@where_its_arrays_are
def simulated_ratio(s: int, D: int, by: MonteCarlo, *, power: int = 1, device: str | Device = CPU) -> Estimate:
    """E (||x_s|| / ||x||)^power, from projections of one fixed x on the spans of s Gaussian vectors."""
    _check_dimensions("simulated_ratio", s, D)
    if s == 0:
        raise ValueError("simulated_ratio: nothing to simulate for s = 0: the ratio is 0")
    device = as_device(device)
    generator, x = by.stream.generator(), device.put(np.ones(D))
    total, total_square = 0.0, 0.0
    for piece in pieces(by.samples, 16 * D * s, x):
        w = device.put(generator.standard_normal((piece.stop - piece.start, D, s)))
        ratio = projection_ratio(w, x) ** power
        total, total_square = total + float(ratio.sum()), total_square + float((ratio * ratio).sum())
    return by.estimate(total, total_square)


@where_its_arrays_are
def projection_ratio(w: Array, x: Array) -> Array:
    """||P x|| / ||x|| with P the projection on the span of the columns of w: (..., D, s), (..., D) -> (...).

    By the singular value decomposition.  The columns may be dependent or zero: singular values below max(D, s) eps
    times the largest count as 0.
    """
    if w.ndim < 2 or x.ndim < 1 or w.shape[-2] != x.shape[-1]:
        raise ValueError(f"projection_ratio: w {w.shape} and x {x.shape} must be (..., D, s) and (..., D)")
    xp = array_module(w)
    if not bool((x != 0).any(axis=-1).all()):
        raise ValueError("projection_ratio: the ratio is undefined for x = 0; leave it out")
    u, values, _ = xp.linalg.svd(w, full_matrices=False)  # (..., D, r), (..., r)
    kept = values > max(w.shape[-2:]) * float(np.finfo(w.dtype).eps) * values[..., :1]
    along = xp.where(kept, (xp.swapaxes(u, -1, -2) @ x[..., None])[..., 0], 0)  # coordinates of P x, (..., r)
    return xp.sqrt((along * along).sum(axis=-1) / (x * x).sum(axis=-1))


# --- what the paper's random filters saw ---


def white_regions(n: int, *, size: int = 5, channels: int = 96, stream: Stream) -> np.ndarray:
    """Independent standard normal features, (n, size, size, channels)."""
    return stream.generator().standard_normal((n, size, size, channels))


def crelu_regions(n: int, *, size: int = 5, channels: int = 96, blur: float, stream: Stream) -> np.ndarray:
    """What follows a CReLU: [max(g, 0), max(-g, 0)], (n, size, size, channels), g Gaussian fields of variance 1.

    Each field is white noise blurred by a Gaussian of standard deviation `blur` pixels: 0 is white, inf constant.
    """
    if channels % 2 or blur < 0:
        raise ValueError(f"crelu_regions: needs an even number of channels and blur >= 0, got {channels}, {blur}")
    generator, fields = stream.generator(), channels // 2
    if isinf(blur):
        g = np.broadcast_to(generator.standard_normal((n, 1, 1, fields)), (n, size, size, fields))
    else:
        reach = ceil(4 * blur)
        taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(blur, 1e-9)) ** 2)
        taps /= sqrt((taps**2).sum())
        rows = np.array([np.pad(taps, (i, size - 1 - i)) for i in range(size)])  # (size, size + 2 reach)
        noise = generator.standard_normal((n, size + 2 * reach, size + 2 * reach, fields))
        g = np.einsum("ip,jq,npqc->nijc", rows, rows, noise, optimize=True)
    return np.concatenate((np.maximum(g, 0), np.maximum(-g, 0)), axis=-1)


@where_its_arrays_are
def random_filter_ratio(
    by: MonteCarlo,
    *,
    blur: float | None = inf,
    channels: int = 96,
    filters: int = 48,
    regions: int = 10,
    device: str | Device = CPU,
) -> Estimate:
    """The mean of ||x - x'|| / ||x|| for Gaussian 3x3 filters on 5x5 regions: the random column of Table S1.

    A region is what one 3x3 pooling window sees, and x' what Algorithm 2 makes of it (pooled_maps.py).

    blur       of the features before the convolution (`crelu_regions`); None for white noise without CReLU
    channels   96 before conv2, 192 before conv5;    filters   48 and 96

    There are `by.samples` banks of filters with `regions` regions each.  The interval is that of the means per bank:
    features after CReLU have a common direction, their mean, of which one bank holds more than another.
    """
    device, total, total_square = as_device(device), 0.0, 0.0
    for bank in range(by.samples):
        of_filters, of_regions = (by.stream.child(name).at(bank) for name in ("filters", "regions"))
        w = of_filters.generator().standard_normal((3, 3, channels, filters))
        if blur is None:
            x = white_regions(regions, channels=channels, stream=of_regions)
        else:
            x = crelu_regions(regions, channels=channels, blur=blur, stream=of_regions)
        mean = float(PooledConvolution(device.put(w)).ratios(device.put(x)).mean())
        total, total_square = total + mean, total_square + mean**2
    return by.estimate(total, total_square)


def _check_dimensions(where: str, s: int, D: int) -> None:
    if not 0 <= s <= D or D < 1:
        raise ValueError(f"{where}: needs dimensions 0 <= s <= D, D >= 1, got s={s}, D={D}")
