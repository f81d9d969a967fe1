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
from experiments.benchmarks.timing import Call, Ratio, Times, interleaved, ratio
from minicnn.parallel import threads, use_threads

BATCHES = (1, 8, 32, 128)  # over which scaling is measured
Row = tuple[dict[str, Any], list[str]]  # as it goes into the JSON file, and as it is shown


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    models: list[str]
    ops: str  # part of the name of an op
    batch: int | None  # None: the network's own
    rounds: int
    compiled: bool  # whether contenders that compile networks take part
    peak: float  # FLOP/s of a matrix product, to compare with


class Comparison(NamedTuple):
    """A case as all contenders compute it."""

    times: Times
    ratio: Ratio | None
    errors: tuple[float | None, ...]  # one per framework

    @property
    def seconds(self) -> float:
        return median(self.times["ours"])

    def json(self) -> dict[str, Any]:
        return {**self._asdict(), "ratio": self.ratio and self.ratio._asdict()}

    def shown(self) -> list[str]:
        """Milliseconds, ours and those of the best rival, and the ratio."""
        theirs = _ms(median(self.times[self.ratio.rival])) if self.ratio else "-"
        return [_ms(self.seconds), theirs, str(self.ratio or "-")]

    def shown_errors(self) -> str:
        return " ".join("-" if error is None else f"{error:.0e}" for error in self.errors)


def compare(case: LayerCase | NetworkCase, plan: Plan) -> Comparison:
    contenders = [c for name in FRAMEWORKS for c in variants(name) if plan.compiled or not c.compiled]
    calls = {c.name: call for c in contenders if (call := c.prepare(case))}
    times = interleaved(calls, plan.rounds)
    return Comparison(times, ratio(times, "ours"), rounding_errors(case))


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
            found = compare(case, plan)
            share = f"{case.flops / found.seconds / plan.peak:.0%}" if case.flops else ""
            yield {"op": case.name, **found.json()}, [case.name, *found.shown(), share, found.shown_errors()]


def network_rows(plan: Plan, *, kind: str) -> Iterator[Row]:
    for name in plan.models:
        case = NetworkCase(name, plan.batch, training=kind == "training")
        found = compare(case, plan)
        rate, share = case.batch / found.seconds, case.flops / found.seconds / plan.peak
        row = {"kind": kind, "model": name, **found.json(), "batch": case.batch, "images_per_second": rate}
        best = found.ratio.rival if found.ratio else "-"
        yield row, [name, *found.shown(), best, f"{rate:.0f}", f"{share:.0%}", found.shown_errors()]


def memory_rows(plan: Plan) -> Iterator[Row]:
    for name in plan.models:
        batch = plan.batch or networks.MODELS[name].batch
        found = {side: peak_memory(side, name, batch) if variants(side) else None for side in FRAMEWORKS}
        shown = [f"{m['peak']:.0f} ({m['peak'] - m['imported']:.0f})" if m else "-" for m in found.values()]
        yield {"model": name, **found}, [name, *shown]


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
        yield row, [str(n), _ms(seconds), f"{batch / seconds:.0f}"]


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


TIMES, ERRORS = {"ours": 8, "PyTorch": 8, "x PyTorch": 18}, {"of peak": 8, "error: ours, PyTorch": 21}
NETWORK = {"network": 18, **TIMES, "its best": 24, "images/s": 8, **ERRORS}
SECTIONS = {
    "ops": [Section("One layer, forward and backward, ms", {"op": 34, **TIMES, **ERRORS}, layer_rows)],
    "models": [
        Section("Training step, ms", NETWORK, partial(network_rows, kind="training")),
        Section("Inference, ms", NETWORK, partial(network_rows, kind="inference")),
    ],
    "memory": [
        Section(
            "Peak memory of three training steps, MiB (imports included; in brackets without)",
            {"network": 18, "ours": 18, "PyTorch": 18},
            memory_rows,
        )
    ],
    "scaling": [
        Section(f"Training step of {{}} by {over}", {over: 7, "ms": 8, "images/s": 8}, partial(scaling_rows, over=over))
        for over in ("threads", "batch")
    ],
}
