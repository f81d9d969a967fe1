"""How fast is it?  minicnn against others on the same cores, and against itself.

    python -m experiments.bench                          everything (about an hour on 2 cores)
    python -m experiments.bench --only models --models crelu-half,vgg --batches 1,128
    python -m experiments.bench --only ops --rounds 3 --json ops.json
    python -m experiments.bench --read runs/bench.json   the tables of a former run, as Markdown

The others are PyTorch (eager and compiled; in float32, and in bf16 by autocast), ONNX Runtime and, in float32 and bf16,
OpenVINO; the last two compute only inference.  `make bench` installs them all.  Who is absent is named, and left out.

Times are medians of interleaved rounds: in each round every contender runs once, next to the others, so that a busy
moment of the machine hits all of them.  A contender that is hopeless from the start (three times as slow as the
fastest, and more than a second) is timed once.  A column shows the best variant of a framework; --all shows each.

"x float32" is the time of the best rival that computes in float32, divided by ours in float32: above 1 we are faster;
the quartiles over rounds stand in brackets.  "x any" is the best rival against our best, in 16 bits or 32.

In brackets behind each time stands what it costs: the largest error against float64, divided by the largest value, of
the outputs and gradients of a layer or of the logits of a network, also for its training step.  Others compute 3x3
convolutions directly; we use Winograd's algorithm, which rounds more; 16 bits round most.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.benchmarks import networks
from experiments.benchmarks.comparison import OURS
from experiments.benchmarks.contenders import FRAMEWORKS, absences, missing
from experiments.benchmarks.result_tables import markdown, network_tables, write_tables
from experiments.benchmarks.sections import SECTIONS, Plan, Section
from experiments.benchmarks.timing import matmul_peak
from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.cli.environment import environment, processor
from experiments.cli.files import read_json, write_json
from experiments.cli.values import result_file, result_folder
from experiments.tables.table import text_line
from minicnn.backend import CPU
from minicnn.parallel import threads

MODULE = "experiments.bench"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--only", default=",".join(SECTIONS), help=f"sections, with commas: {', '.join(SECTIONS)}")
    p.add_argument("--models", default=",".join(networks.MODELS), help=f"of {', '.join(networks.MODELS)} (default all)")
    p.add_argument("--ops", default="", help="only the ops whose name contains this")
    p.add_argument("--batch", type=int, help="images per batch (default 128, and 16 for All-CNN-B)")
    p.add_argument(
        "--batches", default="", help="of inference, with commas (default --batch, or 1,8,32,128; All-CNN-B 16)"
    )
    p.add_argument("--rounds", type=int, default=7, help="default 7")
    p.add_argument(
        "--no-compile", action="store_true", help="leave out torch.compile: it takes a while for each network and batch"
    )
    p.add_argument("--all", action="store_true", help="show every contender, not only the best variant of each")
    p.add_argument("--json", type=result_file, help="write all numbers to this file")
    p.add_argument("--read", type=Path, help="measure nothing: show the networks of this file of --json as Markdown")
    p.add_argument(
        "--tables", type=result_folder, help="write the tables of the networks as CSV files into this folder"
    )
    p.add_argument("--machine", default="", metavar="NAME", help="stands in the captions of these tables")
    p.add_argument("--dry-run", action="store_true", help="say what would be measured, and stop")
    args = p.parse_args(arguments)
    models, sections = _chosen("--models", args.models, networks.MODELS), _chosen("--only", args.only, SECTIONS)
    if args.rounds < 1 or (args.batch is not None and args.batch < 1):
        raise UsageError("--rounds and --batch must be at least 1")
    if args.batch is not None and args.batch > networks.LARGEST_BATCH:
        raise UsageError(f"--batch must be at most {networks.LARGEST_BATCH}, got {args.batch}")
    batches = _batches(args.batches)
    if args.dry_run:
        _introduce(args.rounds)
        print(f"sections {', '.join(sections)}; models {', '.join(models)}")
        return 0
    if args.json and (args.json.is_dir() or not os.access(args.json.parent, os.W_OK)):  # now, not after an hour
        raise UsageError(f"--json: {args.json} cannot be written; name a file in a folder that can")
    if args.tables and not (args.tables.is_dir() and os.access(args.tables, os.W_OK)):
        raise UsageError(f"--tables: {args.tables} is no folder that can be written to; make it first")
    if args.read:
        return _show_again(args.read, args.tables, args.machine)
    _introduce(args.rounds)
    peak = matmul_peak()
    print(f"a large float32 matrix product: {peak / 1e9:.0f} GFLOP/s")
    plan = Plan(models, args.ops, args.batch, batches, args.rounds, not args.no_compile, args.all, peak)
    about = {"environment": environment(CPU), "versions": versions(), "absent": absences(), "peak": peak}
    results: dict[str, Any] = {**about, "threads": threads(), "rounds": args.rounds}
    for name in sections:
        results[name] = [row for section in SECTIONS[name] for row in _show(section, plan)]
        if args.json:
            write_json(args.json, results)  # after every section: nothing is lost if the next one is stopped
    if args.tables:
        write_tables(args.tables, list(network_tables(results.get("models", []), args.machine)))
    return 0


def _introduce(rounds: int) -> None:
    """Who competes on what machine, and who does not."""
    present = "; ".join(versions().values()) or "nobody else"
    print(f"minicnn with {threads()} threads; {present}; {rounds} rounds; {processor()}")
    for line in absences():
        print(line)


def versions() -> dict[str, str]:
    """Of the frameworks that are installed."""
    others = {name: framework for name, framework in FRAMEWORKS.items() if name != OURS and not missing(name)}
    return {name: f"{framework.title} {version(framework.packages[0])}" for name, framework in others.items()}


def _show_again(path: Path, folder: Path | None, machine: str) -> int:
    try:
        tables = list(network_tables(read_json(path)["models"], machine))
    except (OSError, UsageError, KeyError, TypeError) as error:
        raise UsageError(f"--read: {path} is no file of --json with models ({error!r})") from None
    for table in tables:
        print(markdown(table))
    if folder:
        write_tables(folder, tables)
    return 0


def _batches(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    largest = networks.LARGEST_BATCH
    if not all(word.isascii() and word.isdigit() and len(word) < 9 and 1 <= int(word) <= largest for word in words):
        raise UsageError(f"--batches must be whole numbers in 1 .. {largest}, with commas; got {text!r}")
    return tuple(dict.fromkeys(map(int, words)))


def _chosen(option: str, text: str, known: Iterable[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wrong = f"unknown {', '.join(unknown)}" if unknown else "nothing is named"
        raise UsageError(f"{option}: {wrong}; choose from {', '.join(known)}")
    return names


def _show(section: Section, plan: Plan) -> list[dict[str, Any]]:
    """Print each row as soon as it is measured; return them all, for --json."""
    columns = section.widths(plan)
    heads, widths = list(columns), list(columns.values())
    print(f"\n{section.title.format(plan.models[0])}\n")
    for line in (heads, ["-" * width for width in widths]):
        print(text_line(line, widths).rstrip())
    rows = []
    for row, shown in section.rows(plan):
        for cells in shown:
            print(text_line([cells.get(head, "") for head in heads], widths).rstrip(), flush=True)
        rows.append(row)
    for said in section.summary(rows):
        print(f"\n{said}")
    return rows


if __name__ == "__main__":
    run_main(main, MODULE)
