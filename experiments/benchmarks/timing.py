"""Comparing speeds on a machine that is never quiet: medians of interleaved rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

PAUSE = 0.05  # seconds between contenders: threads of the last one may still be waiting for work in a busy loop


@dataclass(frozen=True)
class Times:
    """Seconds of one call, a number a round; round i of every contender was run next to that of the others."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as the best of the others: the median over rounds, and the quartiles."""

    median: float
    low: float
    high: float
    rival: str

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def interleaved(
    contenders: Mapping[str, Callable[[], object]], rounds: int, *, least: float = 0.05, warm: int = 2
) -> dict[str, Times]:
    """Time every contender `rounds` times, in turn; one time is the mean of as many calls as last `least` seconds."""
    calls = {}
    for name, call in contenders.items():
        for _ in range(warm):
            start = time.perf_counter()
            call()
            last = time.perf_counter() - start
        calls[name] = max(1, round(least / max(last, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(calls[name]):
                call()
            times[name].append((time.perf_counter() - start) / calls[name])
    return {name: Times(tuple(values)) for name, values in times.items()}


def ratio(times: Mapping[str, Times], ours: str) -> Ratio | None:
    """Our speed against the contender with the least median; None if there is no other."""
    others = {name: t.median for name, t in times.items() if name != ours}
    if not others:
        return None
    rival = min(others, key=lambda name: others[name])
    quotients = np.divide(times[rival].rounds, times[ours].rounds)
    low, median, high = np.quantile(quotients, (0.25, 0.5, 0.75))
    return Ratio(float(median), float(low), float(high), rival)


def matmul_peak() -> float:
    """Floating-point operations a second of one large float32 matrix product on all cores, the best of five."""
    size = 2048
    a = np.ones((size, size), np.float32)
    times = interleaved({"matmul": lambda: a @ a}, 5)
    return 2 * size**3 / min(times["matmul"].rounds)
