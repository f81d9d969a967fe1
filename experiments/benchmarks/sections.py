"""What experiments.bench measures, section by section: layers, networks, memory, and our own scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from experiments.benchmarks import networks
from experiments.benchmarks.contenders import FRAMEWORKS, training_step, variants
from experiments.benchmarks.layers import LayerCase, layer_cases
from experiments.benchmarks.memory import peak_memory
from experiments.benchmarks.networks import NetworkCase
from experiments.benchmarks.timing import Call, interleaved, ratio
from minicnn.parallel import threads, use_threads

BATCHES = (1, 8, 32, 128)  # over which scaling is measured
TITLES = [framework.title for framework in FRAMEWORKS.values()]
RIVAL = TITLES[1] if len(TITLES) == 2 else "rival"
ERRORS = f"error: {', '.join(TITLES)}"
Row = tuple[dict[str, Any], dict[str, str]]  # as it goes into the JSON file, and what is shown, by heading


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    models: list[str]
    ops: str  # part of the name of an op
    batch: int | None  # None: the network's own
    rounds: int
    compiled: bool  # whether contenders that compile networks take part
    peak: float  # FLOP/s of a matrix product, to compare with


def compare(case: LayerCase | NetworkCase, plan: Plan) -> Row:
    """All contenders on one case: seconds, our ratio to the best rival, and errors."""
    contenders = [c for name in FRAMEWORKS for c in variants(name) if plan.compiled or not c.compiled]
    times = interleaved({c.name: call for c in contenders if (call := c.prepare(case))}, plan.rounds)
    seconds, best, errors = median(times["ours"]), ratio(times, "ours"), rounding_errors(case)
    shown = {
        "ours": _ms(seconds),
        RIVAL: _ms(median(times[best.rival])) if best else "-",
        f"x {RIVAL}": str(best or "-"),
        "its best": best.rival if best else "-",
        "of peak": f"{case.flops / seconds / plan.peak:.0%}" if case.flops else "",
        ERRORS: " ".join("-" if error is None else f"{error:.0e}" for error in errors),
    }
    return {"times": times, "ratio": best and best._asdict(), "errors": errors}, shown


def rounding_errors(case: LayerCase | NetworkCase) -> tuple[float | None, ...]:
    """The largest error of each framework against float64; None if it is not installed."""
    probe, found = case.probe(), []
    exact = probe.exact()
    for name in FRAMEWORKS:
        contender = next(iter(variants(name)), None)
        call = contender and contender.prepare(probe)
        found.append(largest_error(contender.to_numpy(call()), exact) if contender and call else None)
    return tuple(found)


def largest_error(values: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """The largest over the arrays of max |value - exact| / max |exact|."""
    return max(float(np.abs(v - e).max() / np.abs(e).max()) for v, e in zip(values, exact, strict=True))


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def layer_rows(plan: Plan) -> Iterator[Row]:
    for case in layer_cases(plan.batch or 128):
        if plan.ops in case.name:
            found, shown = compare(case, plan)
            yield {"op": case.name, **found}, {"op": case.name, **shown}


def network_rows(plan: Plan, *, kind: str) -> Iterator[Row]:
    for name in plan.models:
        case = NetworkCase(name, plan.batch, training=kind == "training")
        found, shown = compare(case, plan)
        rate = case.batch / median(found["times"]["ours"])
        row = {"kind": kind, "model": name, **found, "batch": case.batch, "images_per_second": rate}
        yield row, {"network": name, "images/s": f"{rate:.0f}", **shown}


def memory_rows(plan: Plan) -> Iterator[Row]:
    for name in plan.models:
        batch = plan.batch or networks.MODELS[name].batch
        row: dict[str, Any] = {"model": name}
        shown = {"network": name}
        for side, framework in FRAMEWORKS.items():
            found = row[side] = peak_memory(side, name, batch) if variants(side) else None
            shown[framework.title] = f"{found['peak']:.0f} ({found['peak'] - found['imported']:.0f})" if found else "-"
        yield row, shown


def scaling_rows(plan: Plan, *, over: str) -> Iterator[Row]:
    """Our training step with different numbers of threads, or images."""
    name, cores = plan.models[0], threads()
    full = plan.batch or networks.MODELS[name].batch
    counts = sorted({n for n in (1, 2, 4, cores) if n <= cores})
    sizes = {n: (full, n) for n in counts} if over == "threads" else {n: (n, cores) for n in BATCHES}
    times = interleaved({str(n): _step_with(name, *size) for n, size in sizes.items()}, plan.rounds)
    for n, (batch, _) in sizes.items():
        seconds = median(times[str(n)])
        row = {"model": name, over: n, "seconds": seconds, "images_per_second": batch / seconds}
        yield row, {over: str(n), "ms": _ms(seconds), "images/s": f"{batch / seconds:.0f}"}


def _step_with(model: str, batch: int, count: int) -> Call:
    case = NetworkCase(model, batch, training=True)
    step = training_step(case.network.build(), case.x, case.labels)

    def call() -> None:
        with use_threads(count):
            step()

    return call


class Section(NamedTuple):
    """A table whose rows are measured one by one."""

    title: str  # {} stands for the first of the networks
    widths: dict[str, int]  # of the columns, by heading
    rows: Callable[[Plan], Iterator[Row]]


TIMES, QUALITY = {"ours": 8, RIVAL: 8, f"x {RIVAL}": 18}, {"of peak": 8, ERRORS: 21}
NETWORK = {"network": 18, **TIMES, "its best": 24, "images/s": 8, **QUALITY}
SECTIONS = {
    "ops": [Section("One layer, forward and backward, ms", {"op": 34, **TIMES, **QUALITY}, layer_rows)],
    "models": [
        Section("Training step, ms", NETWORK, partial(network_rows, kind="training")),
        Section("Inference, ms", NETWORK, partial(network_rows, kind="inference")),
    ],
    "memory": [
        Section(
            "Peak memory of three training steps, MiB (imports included; in brackets without)",
            {"network": 18} | dict.fromkeys(TITLES, 18),
            memory_rows,
        )
    ],
    "scaling": [
        Section(f"Training step of {{}} by {over}", {over: 7, "ms": 8, "images/s": 8}, partial(scaling_rows, over=over))
        for over in ("threads", "batch")
    ],
}
