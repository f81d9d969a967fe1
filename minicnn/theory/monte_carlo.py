"""Means that are computed exactly or estimated from random draws, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from minicnn.random import Stream


@dataclass(frozen=True)
class Estimate:
    """A mean: exact (samples is None), or of that many draws, with the half width of a normal interval around it."""

    value: float
    half_width: float = 0.0
    samples: int | None = None

    @property
    def interval(self) -> tuple[float, float]:
        return self.value - self.half_width, self.value + self.half_width

    def scaled(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, self.half_width * factor, self.samples)


@dataclass(frozen=True)
class MonteCarlo:
    """How to estimate a mean: from `samples` draws of `stream`, with a normal interval of confidence `level`."""

    samples: int
    stream: Stream
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.samples < 2 or not 0 < self.level < 1:
            raise ValueError(f"MonteCarlo: needs samples >= 2 and 0 < level < 1, got {self.samples}, {self.level}")

    def estimate(self, total: float, total_square: float) -> Estimate:
        """The mean and its interval, from the sum of the draws and of their squares."""
        mean = total / self.samples
        variance = max(0.0, total_square - self.samples * mean**2) / (self.samples - 1)
        half_width = NormalDist().inv_cdf((1 + self.level) / 2) * sqrt(variance / self.samples)
        return Estimate(mean, half_width, self.samples)
