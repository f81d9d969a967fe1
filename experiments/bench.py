"""How fast is it?  minicnn against PyTorch on the same cores, and against itself.

    python -m experiments.bench                          everything (about 30 minutes on 2 cores)
    python -m experiments.bench --only models --models crelu-half,vgg
    python -m experiments.bench --only ops --rounds 3 --json ops.json

Times are medians of interleaved rounds: in each round every contender runs once, next to the others, so that a busy
moment of the machine hits all of them.  "x PyTorch" is the best of PyTorch's variants (networks: eager or compiled,
layers: eager; contiguous or channels last) divided by ours, above 1 if we are faster; in brackets the quartiles over
rounds.

PyTorch computes 3x3 convolutions directly; we use Winograd's algorithm, which rounds more.  So the largest error
against float64, divided by the largest value, stands beside each ratio: first ours, then PyTorch's.

Without PyTorch installed, our own times are shown.  `make bench` installs it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from experiments.benchmarks import layers, networks
from experiments.benchmarks.memory import peak_memory
from experiments.benchmarks.timing import Ratio, interleaved, matmul_peak, ratio
from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.cli.environment import environment
from experiments.cli.files import write_json
from experiments.tables.table import Table, text_line
from minicnn.backend import CPU
from minicnn.parallel import threads

MODULE = "experiments.bench"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    sections: dict[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
        "ops": ops, "models": models, "memory": memory, "scaling": scaling,
    }  # fmt: skip
    p.add_argument("--only", default=",".join(sections), help=f"sections, with commas: {', '.join(sections)}")
    p.add_argument("--models", default=",".join(networks.MODELS), help=f"of {', '.join(networks.MODELS)} (default all)")
    p.add_argument("--ops", default="", help="only the ops whose name contains this")
    p.add_argument("--batch", type=int, help="images in a batch (default 128, and 16 for All-CNN-B)")
    p.add_argument("--rounds", type=int, default=7, help="default 7")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes a minute a model")
    p.add_argument("--json", type=Path, help="write all figures to this file")
    p.add_argument("--dry-run", action="store_true", help="say what would be measured, and stop")
    args = p.parse_args(arguments)
    args.models = _chosen("--models", args.models, networks.MODELS)
    chosen = _chosen("--only", args.only, sections)
    if args.rounds < 1 or (args.batch is not None and args.batch < 1):
        raise UsageError("--rounds and --batch must be at least 1")
    if args.batch is not None and args.batch > networks.LARGEST_BATCH:
        raise UsageError(f"--batch must be at most {networks.LARGEST_BATCH}, got {args.batch}")
    print(f"minicnn with {threads()} threads; {networks.torch_version()}; {args.rounds} rounds")
    if args.dry_run:
        print(f"sections {', '.join(chosen)}; models {', '.join(args.models)}")
        return 0
    if args.json and (args.json.is_dir() or not os.access(args.json.parent, os.W_OK)):  # now, not after half an hour
        raise UsageError(f"--json: {args.json} cannot be written")
    args.peak = matmul_peak()
    print(f"a large float32 matrix product: {args.peak / 1e9:.0f} GFLOP/s")
    results: dict[str, Any] = {"environment": environment(CPU), "torch": networks.torch_version(), "peak": args.peak}
    for name in chosen:
        results[name] = list(sections[name](args))
        if args.json:
            write_json(args.json, results)  # after every section: nothing is lost if the next one is stopped
    return 0


def _chosen(option: str, text: str, known: Any) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wrong = f"unknown {', '.join(unknown)}" if unknown else "nothing is named"
        raise UsageError(f"{option}: {wrong}; choose from {', '.join(known)}")
    return names


class Live:
    """A table that is printed row by row, as the measurements come in."""

    def __init__(self, title: str, head: list[str], widths: list[int]):
        self.widths = widths
        print(f"\n{title}\n")
        self.row(head)
        self.row(["-" * width for width in widths])

    def row(self, cells: list[str]) -> None:
        print(text_line(cells, self.widths).rstrip(), flush=True)


def _summarise(ratios: list[float]) -> None:
    if ratios:
        print(f"\ngeometric mean {geometric_mean(ratios):.2f} x PyTorch, least {min(ratios):.2f}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def _errors(ours: float | None, theirs: float | None) -> str:
    return " ".join("-" if e is None else f"{e:.0e}" for e in (ours, theirs))


def ops(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Forward and backward of single layers of the networks."""
    show = Live(
        "One layer, forward and backward, ms",
        ["op", "ours", "PyTorch", "x PyTorch", "of peak", "error: ours, PyTorch"],
        [34, 8, 8, 18, 8, 21],
    )
    ratios = []
    for case in layers.op_cases(args.batch or 128):
        if args.ops not in case.name:
            continue
        times = interleaved(case.calls(), args.rounds)
        compared, errors = ratio(times, "ours"), case.errors()
        share = case.flops / times["ours"].median / args.peak if case.flops else None
        yield {"op": case.name, "times": _plain(times), "ratio": _ratio(compared), "errors": errors}
        show.row(
            [
                case.name,
                _ms(times["ours"].median),
                _ms(times[compared.rival].median) if compared else "-",
                str(compared or "-"),
                f"{share:.0%}" if share else "",
                _errors(*errors),
            ]
        )
        if compared:
            ratios.append(compared.median)
    _summarise(ratios)


def models(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Training steps and inference of whole networks."""
    for kind in ("training", "inference"):
        what = "Training step" if kind == "training" else "Inference"
        show = Live(
            f"{what}, ms",
            ["network", "ours", "PyTorch", "x PyTorch", "its best", "images/s", "of peak", "error: ours, PyTorch"],
            [18, 8, 8, 18, 24, 8, 8, 21],
        )
        ratios = []
        for name in args.models:
            case = networks.ModelCase(name, args.batch, training=kind == "training")
            times = interleaved(case.calls(compiled=not args.no_compile), args.rounds)
            compared, errors, ours = ratio(times, "ours"), case.errors(), times["ours"].median
            yield {
                "kind": kind,
                "model": name,
                "times": _plain(times),
                "ratio": _ratio(compared),
                "errors": errors,
                "batch": case.batch,
                "images_per_second": case.batch / ours,
            }
            show.row(
                [
                    name,
                    _ms(ours),
                    _ms(times[compared.rival].median) if compared else "-",
                    str(compared or "-"),
                    compared.rival if compared else "-",
                    f"{case.batch / ours:.0f}",
                    f"{case.flops / ours / args.peak:.0%}",
                    _errors(*errors),
                ]
            )
            if compared:
                ratios.append(compared.median)
        _summarise(ratios)


def memory(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The peak of each side, measured in a process of its own."""
    show = Live(
        "Peak memory of three training steps, MiB (imports included; in brackets without)",
        ["network", "ours", "PyTorch"],
        [18, 18, 18],
    )
    for name in args.models:
        row: dict[str, Any] = {"model": name}
        for side in ("ours", "torch"):
            batch = args.batch or networks.MODELS[name].batch
            row[side] = peak_memory(side, name, batch) if side in networks.sides() else None
        yield row
        cells = [
            f"{r['peak']:.0f} ({r['peak'] - r['imported']:.0f})" if r else "-" for r in (row["ours"], row["torch"])
        ]
        show.row([name, *cells])


def scaling(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Our training step over threads and over batch sizes."""
    name = args.models[0]
    full = args.batch or networks.MODELS[name].batch
    by_threads = {n: networks.step_with(name, full, threads=n) for n in networks.thread_counts()}
    by_batch = {n: networks.step_with(name, n) for n in (1, 8, 32, 128)}
    for what, calls in (("threads", by_threads), ("batch", by_batch)):
        times = interleaved({str(n): call for n, call in calls.items()}, args.rounds)
        rows = []
        for n in calls:
            seconds = times[str(n)].median
            rate = (n if what == "batch" else full) / seconds
            rows.append([str(n), _ms(seconds), f"{rate:.0f}"])
            yield {"model": name, what: n, "seconds": seconds, "images_per_second": rate}
        print(f"\nTraining step of {name} by {what}\n\n{Table([what, 'ms', 'images/s'], rows).text()}")


def _plain(times: dict[str, Any]) -> dict[str, list[float]]:
    return {name: list(t.rounds) for name, t in times.items()}


def _ratio(compared: Ratio | None) -> dict[str, Any] | None:
    return None if compared is None else vars(compared)


if __name__ == "__main__":
    run_main(main, MODULE)
