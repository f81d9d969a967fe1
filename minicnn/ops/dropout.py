"""Dropout (Srivastava et al. 2014), with a mask that depends on names and positions alone."""

from __future__ import annotations

from minicnn.autodiff import Pair, op
from minicnn.backend import Array, array_module
from minicnn.random import Stream


@op
def dropout(x: Array, *, rate: float, stream: Stream) -> Pair:
    """y = m x / q, where m is 1 with probability q = 1 - rate and 0 otherwise ("inverted": E y = x).    gx = m g / q.

    The mask is a function of the stream and of each sample's position in the batch (minicnn/random.py): 16 random
    bits per element, compared with rate * 2^16 rounded to an integer; q is exactly the probability that results.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate must be in [0, 1), got {rate}")
    if x.ndim == 0:
        raise ValueError("dropout: x needs a batch axis, got a scalar")
    xp = array_module(x)
    threshold, scale = rounded_rate(rate)
    kept = stream.uniform16(x.shape[0], x[:1].size) >= threshold  # (N, size of a sample), drawn on the host
    mask = xp.asarray(kept).reshape(x.shape)

    def masked(values: Array) -> Array:
        return xp.where(mask, values * scale, 0)

    return masked(x), lambda g: (masked(g),)


def rounded_rate(rate: float) -> tuple[int, float]:
    """The number that 16 random bits must reach for an element to be kept; and the scale, 1 / its probability."""
    threshold = min(round(rate * 65536), 65535)
    return threshold, 1 / (1 - threshold / 65536)
