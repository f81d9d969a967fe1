"""Compare speeds on a machine that is never quiet: medians of interleaved rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]  # what is timed
Times = dict[str, list[float]]  # seconds per call by name, one number per round
HOPELESS = 3.0  # times as slow as the fastest, and more than a second: no use in waiting for it in every round
PAUSE = 0.05  # seconds between contenders: threads of the last one may still wait for work in a busy loop


class Ratio(NamedTuple):
    """How many times as fast as the best rival: the median over rounds, and the quartiles."""

    median: float
    low: float
    high: float
    rival: str


def interleaved(
    calls: Mapping[str, Call], rounds: int, *, least: float = 0.05, warm: int = 2, hopeless: float = math.inf
) -> Times:
    """In every round, time all calls one after the other: the mean over as many repetitions as last `least` seconds.

    A call that takes more than a second, and is more than `hopeless` times as slow as the fastest, has no rounds: the
    time of its last call to warm up stands.  (The first may include compilation.)
    """
    warmed: dict[str, float] = {}
    for name, call in calls.items():
        for _ in range(warm):
            warmed[name] = _seconds(call, 1)
    limit = max(1.0, hopeless * min(warmed.values()))
    times: Times = {name: [seconds] if seconds > limit else [] for name, seconds in warmed.items()}
    raced = [name for name, seconds in warmed.items() if seconds <= limit]
    for _ in range(rounds):
        for name in raced:
            time.sleep(PAUSE)
            times[name].append(_seconds(calls[name], max(1, round(least / max(warmed[name], 1e-9)))))
    return times


def _seconds(call: Call, repetitions: int) -> float:
    start = time.perf_counter()
    for _ in range(repetitions):
        call()
    return (time.perf_counter() - start) / repetitions


def ratio(times: Times, ours: str) -> Ratio | None:
    """Our speed against the rival with the smallest median; None if there is no rival."""
    rivals = {name: median(seconds) for name, seconds in times.items() if name != ours}
    if not rivals:
        return None
    rival = min(rivals, key=lambda name: rivals[name])
    low, middle, high = np.quantile(np.divide(times[rival], times[ours]), (0.25, 0.5, 0.75))
    return Ratio(float(middle), float(low), float(high), rival)


def matmul_peak() -> float:
    """Floating-point operations per second of one large float32 matrix product on all cores, the best of five."""
    size = 2048
    a = np.ones((size, size), np.float32)
    return 2 * size**3 / min(interleaved({"matmul": lambda: a @ a}, 5)["matmul"])
