"""All contenders on one case: the time and the error of each, and our ratio to the best of them.

A result has two ratios, because 16 bits are a bargain of their own: in float32, ours to the best rival that computes in
it too; and in any precision, our best to the best rival.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from experiments.benchmarks.contenders import FRAMEWORKS, Contender, variants
from experiments.benchmarks.layers import LayerCase
from experiments.benchmarks.networks import NetworkCase
from experiments.benchmarks.timing import HOPELESS, interleaved, ratio

OURS = "ours"
RIVALS = ("float32", "any")  # whose best we are compared with
Result = dict[str, Any]  # as it goes into the JSON file


def competing(kind: str, *, compiled: bool = True) -> list[Contender]:
    """Who computes cases of this kind here."""
    found = (contender for framework in FRAMEWORKS for contender in variants(framework))
    return [c for c in found if kind in c.kinds and (compiled or not c.compiled)]


def families(kind: str, *, compiled: bool = True) -> list[str]:
    return list(dict.fromkeys(contender.family for contender in competing(kind, compiled=compiled)))


def compare(case: LayerCase | NetworkCase, contenders: Sequence[Contender], rounds: int) -> Result:
    """Seconds and error of every contender, and for both kinds of rival the best one with our ratio to it."""
    calls = {contender.name: contender.prepare(case) for contender in contenders}
    times = interleaved(calls, rounds, hopeless=HOPELESS)
    exact, found = case.exact(), {}
    for contender in contenders:
        found[contender.name] = {
            "family": contender.family,
            "precision": contender.precision,
            "seconds": median(times[contender.name]),
            "error": largest_error(contender.values(case, calls[contender.name]), exact),
            "rounds": times[contender.name],
        }
    float32 = {name: times[name] for name, own in found.items() if own["precision"] == "float32"}
    ours = [contender.name for contender in contenders if contender.framework == OURS]
    fastest = min(ours, key=lambda name: median(times[name]))
    one_of_ours = {name: times[name] for name in times if name == fastest or name not in ours}
    bests = {"float32": ratio(float32, OURS), "any": ratio(one_of_ours, fastest)}
    ratios = {key: best and {**best._asdict(), "seconds": found[best.rival]["seconds"]} for key, best in bests.items()}
    return {"contenders": found, **ratios}


def largest_error(values: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """The largest over the arrays of max |value - exact| / max |exact|."""
    return max(float(np.abs(v - e).max() / np.abs(e).max()) for v, e in zip(values, exact, strict=True))


def best_of(result: Result) -> dict[str, dict[str, Any]]:
    """The fastest contender of every family: its name, seconds, error ..."""
    found: dict[str, dict[str, Any]] = {}
    for name, own in result["contenders"].items():
        if own["family"] not in found or own["seconds"] < found[own["family"]]["seconds"]:
            found[own["family"]] = {"name": name, **own}
    return found


def groups(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results over which a mean says something, by title: networks for images of one size, in one batch."""
    found: dict[str, list[Result]] = {}
    for result in results:
        size = f"{result['side']}x{result['side']}, batch {result['batch']}" if "batch" in result else ""
        found.setdefault(size, []).append(result)
    return found


def mean_ratios(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """The geometric mean and the least of our ratios, to the best in float32 and to the best of all."""
    ratios = {key: [result[key]["median"] for result in results if result[key]] for key in RIVALS}
    return {key: (geometric_mean(values), min(values)) for key, values in ratios.items() if values}
