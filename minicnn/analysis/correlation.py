"""How alike are the outgoing weights of the two phases of a filter?  (The paper's Table 6, section 4.3.)

After CReLU, filter c feeds the next layer through two channels, c (positive phase) and c + C (negative phase).  Let u_c
and v_c be the weights that leave them, as unit vectors of d = kh kw K numbers.

    pair       <u_c, v_c>                         the two phases of one filter
    non-pair   <u_c, v_e>, c != e                 a positive and a negative phase of two filters

**The sign matters.**  v = +u makes the next layer see relu(x) + relu(-x) = |x|: the modulus, as AVR does.  v = -u
makes it see relu(x) - relu(-x) = x: a linear unit.  The paper calls the second "merely negations" and prints numbers
that must be absolute values, which cannot tell the two apart; here both are given.

Two random directions in d dimensions have E <u, v> = 0 and E |<u, v>| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about
sqrt(2 / (pi d)): the fewer dimensions, the larger, so it belongs beside every mean of absolute values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host, where_its_arrays_are
from minicnn.theory.subspace import mean_ratio


class Correlation(NamedTuple):
    """Signed cosines, on the host.  Channels whose outgoing weights are all zero are left out."""

    pair: np.ndarray  # (C,)
    non_pair: np.ndarray  # (C (C - 1),)
    dimensions: int  # d


@where_its_arrays_are
def outgoing_correlation(w: Array, channels: int | None = None) -> Correlation:
    """The cosines of the weights w that follow a CReLU: filters (kh, kw, 2 C, K), or a matrix (positions * 2 C, K).

    channels    2 C; None: the last axis but one of w.  Needed for a matrix on flattened maps.
    """
    channels = (w.shape[-2] if w.ndim > 1 else 0) if channels is None else channels
    if not w.size or w.ndim < 2 or channels < 2 or channels % 2 or w.size % (channels * w.shape[-1]):
        raise ValueError(f"outgoing_correlation: weights {w.shape} do not follow a CReLU with {channels} channels")
    xp, C = array_module(w), channels // 2
    if not bool(xp.isfinite(w).all()):
        raise ValueError("outgoing_correlation: the weights hold NaN or infinite values")
    rows = w.reshape(-1, channels, w.shape[-1]).transpose(1, 0, 2).reshape(channels, -1).astype(np.float64)
    length = xp.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit = rows / xp.where(length > 0, length, 1)
    cosines = to_host(unit[:C] @ unit[C:].T)  # (C, C): positive phase of c, negative phase of e
    alive = to_host(length[:, 0] > 0)
    known, pair = np.logical_and.outer(alive[:C], alive[C:]), np.eye(C, dtype=bool)
    return Correlation(cosines[known & pair], cosines[known & ~pair], rows.shape[1])


def random_absolute_cosine(d: int) -> float:
    """E |<u, v>| of independent, uniformly random unit vectors in d dimensions: the part of u along the line of v."""
    if d < 1:
        raise ValueError(f"random_absolute_cosine: needs at least one dimension, got {d}")
    return mean_ratio(1, d)
