"""Batch normalisation: every channel to mean 0 and variance 1, then a scale and a shift that are learnt."""

import numpy as np

from reference.common import floats, quotient, root


def batch_moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x (..., C) -> mean (C,) and variance (C,), over all axes but the last, m elements for each channel.

    mean = (sum of x) / m,  var = (sum of (x - mean)^2) / m: the biased variance, divided by m and not m - 1.
    """
    x = floats(x)
    *others, channels = x.shape
    m = 1
    for size in others:
        m *= size
    mean, var = np.zeros(channels), np.zeros(channels)
    for c in range(channels):
        total = 0.0
        for at in np.ndindex(*others):
            total += float(x[(*at, c)])
        mean[c] = quotient(total, m)
        squares = 0.0
        for at in np.ndindex(*others):
            d = float(x[(*at, c)]) - float(mean[c])
            squares += d * d
        var[c] = quotient(squares, m)
    return mean, var


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    moments: tuple[np.ndarray, np.ndarray] | None = None,
    fixed: bool = False,
    eps: float = 1e-5,
) -> np.ndarray:
    """x (..., C), gamma (C,), beta (C,) -> y of the shape of x.

    y[..., c] = gamma[c] * (x[..., c] - mean[c]) / sqrt(var[c] + eps) + beta[c], with (mean, var) = moments,
    each (C,), or batch_moments(x) if none are given. `fixed` says that no gradient goes through the moments:
    it changes the derivative only, so it is ignored here.
    """
    x, gamma, beta = floats(x), floats(gamma), floats(beta)
    mean, var = batch_moments(x) if moments is None else (floats(moments[0]), floats(moments[1]))
    for name, array in (("gamma", gamma), ("beta", beta), ("mean", mean), ("var", var)):
        if array.shape != x.shape[-1:]:
            raise ValueError(f"batch_norm: {name} {array.shape} must be {x.shape[-1:]} for x {x.shape}")
    y = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        c = at[-1]
        u = quotient(float(x[at]) - float(mean[c]), root(float(var[c]) + eps))
        y[at] = float(gamma[c]) * u + float(beta[c])
    return y
