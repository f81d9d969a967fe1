"""What experiments.bench measures, section by section: layers, networks, memory, and our own scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from experiments.benchmarks import networks
from experiments.benchmarks.comparison import OURS, Result, best_of, compare, competing, families, groups, mean_ratios
from experiments.benchmarks.contenders import FRAMEWORKS, training_step, variants
from experiments.benchmarks.layers import LayerCase, layer_cases
from experiments.benchmarks.memory import peak_memory
from experiments.benchmarks.networks import Network, NetworkCase
from experiments.benchmarks.timing import Call, interleaved
from minicnn.parallel import threads, use_threads

BATCHES = (1, 8, 32, 128)  # over which scaling is measured
Line = dict[str, str]  # of a table, by heading
Row = tuple[Result, list[Line]]  # as it goes into the JSON file, and as it is shown


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    models: list[str]
    ops: str = ""  # part of the name of an op
    batch: int | None = None  # None: the network's own
    batches: tuple[int, ...] = ()  # of inference; empty: `batch`, or the network's own
    rounds: int = 7
    compiled: bool = True  # whether contenders that compile networks take part
    every: bool = False  # whether each contender has a line of its own, below the best of each family
    peak: float = 1.0  # FLOP/s of a matrix product, to compare with

    def batches_of(self, network: Network, kind: str) -> tuple[int, ...]:
        if kind == "inference" and self.batches:
            return self.batches
        if self.batch is not None:
            return (self.batch,)
        return network.batches if kind == "inference" else (network.batch,)


def compared(case: LayerCase | NetworkCase, plan: Plan, head: str) -> Row:
    """All contenders on one case; its name stands below `head`."""
    result = compare(case, competing(case.kind, compiled=plan.compiled), plan.rounds)
    best = best_of(result)
    share = case.flops / best[OURS]["seconds"] / plan.peak if case.flops else None
    line = {head: case.name, "of peak": "" if share is None else f"{share:.0%}"}
    line |= {family: _time_and_error(own) for family, own in best.items()}
    line["x float32"] = "{median:.2f} ({low:.2f}-{high:.2f})".format(**result["float32"]) if result["float32"] else "-"
    line["x any"] = f"{result['any']['median']:.2f}" if result["any"] else "-"
    lines = [line]
    if plan.every:
        lines += [
            {head: f"  {name}", own["family"]: _time_and_error(own)} for name, own in result["contenders"].items()
        ]
    return {**result, "of_peak": share}, lines


def _time_and_error(own: dict[str, Any]) -> str:
    return f"{_ms(own['seconds'])} ({own['error']:.0e})"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.{0 if seconds >= 1 else 1}f}"


def layer_rows(plan: Plan) -> Iterator[Row]:
    for case in layer_cases(plan.batch or 128):
        if plan.ops in case.name:
            result, lines = compared(case, plan, "op")
            yield {"op": case.name, **result}, lines


def network_rows(plan: Plan, *, kind: str) -> Iterator[Row]:
    """By batch, then by network: those that are compared with each other stand together."""
    wanted: dict[int, list[str]] = {}
    for name in plan.models:
        for batch in plan.batches_of(networks.MODELS[name], kind):
            wanted.setdefault(batch, []).append(name)
    for batch, names in wanted.items():
        for name in names:
            case = NetworkCase(name, batch, training=kind == "training")
            result, (line, *others) = compared(case, plan, "network")
            rate = batch / result["contenders"][OURS]["seconds"]
            about = {"kind": kind, "model": name, "side": case.network.side, "batch": batch, "images_per_second": rate}
            yield {**about, **result}, [{**line, "batch": str(batch)}, *others]


def comparison_widths(plan: Plan, *, kind: str) -> dict[str, int]:
    heads = {"op": 34} if kind == "layer" else {"network": 40 if plan.every else 15, "batch": 5}
    columns = dict.fromkeys(families(kind, compiled=plan.compiled), 13)
    return {**heads, **columns, "x float32": 16, "x any": 5, "of peak": 7}


def means(results: Sequence[Result]) -> Iterator[str]:
    """Geometric means over the results that belong together."""
    for title, own in groups(results).items():
        said = [
            f"{mean:.2f} x the best {'in float32' if key == 'float32' else 'of all'} (least {least:.2f})"
            for key, (mean, least) in mean_ratios(own).items()
        ]
        if said:
            yield f"geometric mean of {len(own)}{title and f' ({title})'}: {', '.join(said)}"


def trainers() -> list[str]:
    """The frameworks that train."""
    return [name for name in FRAMEWORKS if any("training" in contender.kinds for contender in variants(name))]


def memory_rows(plan: Plan) -> Iterator[Row]:
    for name in plan.models:
        batch = plan.batch or networks.MODELS[name].batch
        row: dict[str, Any] = {"model": name}
        shown = {"network": name}
        for side in trainers():
            found = row[side] = peak_memory(side, name, batch)
            shown[FRAMEWORKS[side].title] = f"{found['peak']:.0f} ({found['peak'] - found['imported']:.0f})"
        yield row, [shown]


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
        yield row, [{over: str(n), "ms": _ms(seconds), "images/s": f"{batch / seconds:.0f}"}]


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
    widths: Callable[[Plan], dict[str, int]]  # of the columns, by heading
    rows: Callable[[Plan], Iterator[Row]]
    summary: Callable[[Sequence[Result]], Iterator[str]] = lambda results: iter(())


def _memory_widths(plan: Plan) -> dict[str, int]:
    return {"network": 18} | {FRAMEWORKS[side].title: 18 for side in trainers()}


def _comparison(title: str, kind: str, rows: Callable[[Plan], Iterator[Row]]) -> Section:
    return Section(title, partial(comparison_widths, kind=kind), rows, means)


def _scaling(over: str) -> Section:
    widths = {over: 7, "ms": 8, "images/s": 8}
    return Section(f"Training step of {{}} by {over}", lambda plan: widths, partial(scaling_rows, over=over))


SECTIONS = {
    "ops": [_comparison("One layer, forward and backward: ms (error)", "layer", layer_rows)],
    "models": [
        _comparison("Training step: ms (error of the logits)", "training", partial(network_rows, kind="training")),
        _comparison("Inference: ms (error of the logits)", "inference", partial(network_rows, kind="inference")),
    ],
    "memory": [
        Section(
            "Peak memory of three training steps, MiB (imports included; in brackets without)",
            _memory_widths,
            memory_rows,
        )
    ],
    "scaling": [_scaling("threads"), _scaling("batch")],
}
