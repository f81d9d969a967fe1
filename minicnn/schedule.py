"""Learning rates and weight decays that change with time.

A schedule is a function of the number of steps taken so far.  Those here are frozen dataclasses, so that they can
be compared, printed and written into a run's configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    value: float

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True)
class Piecewise:
    """values[i] until step boundaries[i], the last value from then on: there is one more value than boundaries."""

    boundaries: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                f"Piecewise: {len(self.boundaries)} boundaries need {len(self.boundaries) + 1} values, "
                f"got {len(self.values)}"
            )
        if any(b >= c for b, c in pairwise(self.boundaries)):
            raise ValueError(f"Piecewise: boundaries must increase, got {self.boundaries}")

    def __call__(self, step: int) -> float:
        return self.values[sum(step >= boundary for boundary in self.boundaries)]


def milestones(total: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Boundaries at shares of `total` steps; in tiny runs each comes at least one step after the one before it."""
    found = [0]
    for share in shares:
        found.append(max(round(total * share), found[-1] + 1))
    return tuple(found[1:])


@dataclass(frozen=True)
class StepDecay:
    """value * factor^(number of whole periods of `every` steps)."""

    value: float
    every: int
    factor: float

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"StepDecay: every must be at least 1, got {self.every}")

    def __call__(self, step: int) -> float:
        return self.value * self.factor ** (step // self.every)


@dataclass(frozen=True)
class OneCycle:
    """Up from peak * start to peak during the share `warmup` of `total` steps, then down to peak * end.

    Both ways along half a cosine (Smith and Topin 2018); after `total` steps it stays at the end.
    """

    peak: float
    total: int
    warmup: float = 0.3
    start: float = 0.04
    end: float = 1e-4

    def __post_init__(self) -> None:
        _check_shares(self)

    def __call__(self, step: int) -> float:
        top = self.warmup * self.total
        if step < top:
            return self.peak * _cosine(self.start, 1.0, step / top)
        return self.peak * _cosine(1.0, self.end, min(1.0, (step - top) / (self.total - top)))


@dataclass(frozen=True)
class Cosine:
    """From `value` down to `end` along half a cosine during `total` steps (Loshchilov and Hutter 2017).

    Before that, it rises in a straight line for `warmup` of these steps; after `total` steps it stays at the end.
    """

    value: float
    total: int
    end: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.total < 1 or not 0 <= self.warmup < self.total:
            raise ValueError(f"Cosine: needs total >= 1 and 0 <= warmup < total, got {self.total} and {self.warmup}")

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.value * (step + 1) / (self.warmup + 1)
        return _cosine(self.value, self.end, min(1.0, (step - self.warmup) / (self.total - self.warmup)))


@dataclass(frozen=True)
class Linear:
    """In a straight line: up to `peak` during the share `warmup` of `total` steps, then down to 0."""

    peak: float
    total: int
    warmup: float = 0.0

    def __post_init__(self) -> None:
        _check_shares(self)

    def __call__(self, step: int) -> float:
        top = self.warmup * self.total
        if step < top:
            return self.peak * (step + 1) / (top + 1)
        return self.peak * max(0.0, (self.total - step) / (self.total - top))


def _check_shares(schedule: OneCycle | Linear) -> None:
    if schedule.total < 1 or not 0 <= schedule.warmup < 1:
        name = type(schedule).__name__
        raise ValueError(f"{name}: needs total >= 1 and 0 <= warmup < 1, got {schedule.total} and {schedule.warmup}")


def _cosine(start: float, end: float, share: float) -> float:
    """From start (share 0) to end (share 1) along half a period of a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def as_schedule(value: float | Schedule) -> Schedule:
    """A number is a schedule that never changes."""
    return value if callable(value) else Constant(float(value))
