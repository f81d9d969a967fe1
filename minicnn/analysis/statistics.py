"""Is one network better than another?  Differences with intervals, since no number is a claim without one.

Two things are random: the seed of a training (weights, order of images, dropout), and which images are in the test set.

    paired_difference   over seeds: networks with the same seed are a pair; Student's t interval of the mean difference
    bootstrap           over test images: the same images for both networks; percentile interval
    holm                of many tests, such as one for each layer: which of them still show a difference
    mcnemar             over test images, of two networks: the exact sign test on the images that one of them gets wrong

An interval over seeds speaks about the *method* on this test set, one over images about *these networks* on images like
these.  A single pair of networks has no interval over seeds, and so allows no claim about the method; nor do a few
pairs whose differences happen to be equal, since errors come in steps of one image.

Errors are in percent, differences in points, "a - b": negative if a is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
DRAWS = 10_000  # of a bootstrap
NO_SPREAD = 1e-9  # of values, relative to the largest: what is left of equal ones after rounding


@dataclass(frozen=True)
class Interval:
    """A mean and where it may be: low and high are None where nothing says so, for one value or equal ones."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half its width: what follows a plus-minus sign."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def sign(self) -> int:
        """-1 or 1 if all of the interval is on one side of 0; 0 if it is not, or if there is none."""
        if self.low is None or self.high is None:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def t_interval(values: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """mean +- t s / sqrt(n), where s has n - 1 in its denominator and t is Student's with n - 1 degrees of freedom.

    One value has no s, and s = 0 of equal ones would be certainty without a reason: neither has an interval.
    """
    x = _finite("t_interval", values)
    mean, n = float(x.mean()), len(x)
    if n == 1 or _equal(x):
        return Interval(mean, None, None, n)
    from scipy.stats import t

    half = float(t.ppf((1 + _checked(confidence)) / 2, n - 1)) * float(x.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def t_test(values: Sequence[float] | np.ndarray) -> float:
    """The two-sided p of Student's t test that the mean is 0, for two or more values; 0.05 if t_interval ends at 0.

    1 for equal values: they have no deviation to compare the mean with, and show nothing.
    """
    x = _finite("t_test", values)
    if len(x) < 2:
        raise ValueError("t_test: needs two or more values")
    if _equal(x):
        return 1.0
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(x, 0).pvalue)


def holm(p: Sequence[float], level: float = 1 - CONFIDENCE) -> list[bool]:
    """Which of several tests show a difference, so that the chance of even one false finding is at most `level`.

    Holm's method: the smallest p is compared with level / m, the next with level / (m - 1), ... until one is larger.
    """
    if not all(0 <= one <= 1 for one in p):  # nor NaN
        raise ValueError(f"holm: p-values must be between 0 and 1, got {list(p)}")
    shown = [False] * len(p)
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] > level / (len(p) - rank):
            break
        shown[i] = True
    return shown


def paired_difference(
    a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE
) -> Interval:
    """The mean of a - b over pairs, (n,) each: what both have in common, such as the order of the images, cancels."""
    if len(a) != len(b):
        raise ValueError(f"paired_difference: {len(a)} and {len(b)} values are not pairs")
    return t_interval(np.asarray(a, float) - np.asarray(b, float), confidence)


def bootstrap(
    wrong_a: np.ndarray, wrong_b: np.ndarray, *, seed: int = 0, draws: int = DRAWS, confidence: float = CONFIDENCE
) -> Interval:
    """The difference of the errors of a and b over the same test images, in points, with a percentile interval.

    wrong_a, wrong_b    (images,) or (networks, images) bool: which images they get wrong; several networks of a kind
                        are averaged, image by image
    A bootstrap sample of the images is, in terms of their differences d, a multinomial draw of how often each distinct
    value of d occurs: the same distribution as drawing images one by one, and much faster.
    """
    if wrong_a.shape != wrong_b.shape or wrong_a.size == 0:
        raise ValueError(f"bootstrap: {wrong_a.shape} and {wrong_b.shape} are not the same images")
    a, b = (np.atleast_2d(np.asarray(wrong, float)).mean(axis=0) for wrong in (wrong_a, wrong_b))
    values, counts = np.unique(np.round(a - b, 12), return_counts=True)
    n = int(counts.sum())
    samples = np.random.default_rng(seed).multinomial(n, counts / n, size=draws)  # (draws, values)
    differences = 100 * (samples @ values) / n  # (draws,)
    outside = (1 - _checked(confidence)) / 2
    low, high = np.quantile(differences, (outside, 1 - outside))
    return Interval(float(100 * (a - b).mean()), float(low), float(high), n)


def mcnemar(wrong_a: np.ndarray, wrong_b: np.ndarray) -> float:
    """The two-sided p of the exact test that, of the images that one network alone gets wrong, each has half."""
    if wrong_a.shape != wrong_b.shape or wrong_a.ndim != 1:
        raise ValueError(f"mcnemar: {wrong_a.shape} and {wrong_b.shape} are not the same images")
    only_a, only_b = int((wrong_a & ~wrong_b).sum()), int((wrong_b & ~wrong_a).sum())
    if only_a == only_b:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue)


def verdict(a: str, b: str, difference: Interval, unit: str = "paired seeds") -> str:
    """A sentence on a - b: a claim where the interval allows one, and otherwise none."""
    if difference.low is None or difference.high is None:
        few = "one pair of networks" if difference.n == 1 else f"{difference.n} pairs of networks that differ alike"
        where = f"{a} {abs(difference.mean):.2f} points {'below' if difference.mean < 0 else 'above'} {b}"
        return f"No claim: {few} ({where}) {'has' if difference.n == 1 else 'have'} no interval."
    interval = f"95 % interval {difference.low:+.2f} to {difference.high:+.2f}, {difference.n} {unit}"
    if difference.sign == 0:
        return f"No difference shown between {a} and {b}: {difference.mean:+.2f} points ({interval})."
    word = "better" if difference.sign < 0 else "worse"
    return f"{a} is {word} than {b} by {abs(difference.mean):.2f} points ({interval})."


def _equal(x: np.ndarray) -> bool:
    return float(np.ptp(x)) <= NO_SPREAD * float(np.abs(x).max())


def _finite(name: str, values: Sequence[float] | np.ndarray) -> np.ndarray:
    x = np.asarray(values, float)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"{name}: needs one or more finite numbers, got {values}")
    return x


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must be between 0 and 1, got {confidence}")
    return confidence
