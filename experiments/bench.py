"""How fast is it?  minicnn against PyTorch on the same cores, and against itself.

    python -m experiments.bench                          everything (about 30 minutes on 2 cores)
    python -m experiments.bench --only models --models crelu-half,vgg
    python -m experiments.bench --only ops --rounds 3 --json ops.json

Times are medians of interleaved rounds: in each round every contender runs once, next to the others, so that a busy
moment of the machine hits all of them.  "x PyTorch" is the time of PyTorch's best variant (networks: eager or compiled,
layers: eager; contiguous or channels last) divided by ours, above 1 if we are faster; the quartiles over rounds stand
in brackets.

PyTorch computes 3x3 convolutions directly; we use Winograd's algorithm, which rounds more.  So the largest error
against float64, divided by the largest value, stands beside each ratio: first ours, then PyTorch's.

Without PyTorch, only our own times are shown.  `make bench` installs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from experiments.benchmarks import networks
from experiments.benchmarks.contenders import variants
from experiments.benchmarks.sections import RIVAL, SECTIONS, Plan, Section
from experiments.benchmarks.timing import matmul_peak
from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.cli.environment import environment
from experiments.cli.files import write_json
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
    p.add_argument("--rounds", type=int, default=7, help="default 7")
    p.add_argument("--no-compile", action="store_true", help="leave out torch.compile: it takes a minute per model")
    p.add_argument("--json", type=Path, help="write all numbers to this file")
    p.add_argument("--dry-run", action="store_true", help="say what would be measured, and stop")
    args = p.parse_args(arguments)
    models, sections = _chosen("--models", args.models, networks.MODELS), _chosen("--only", args.only, SECTIONS)
    if args.rounds < 1 or (args.batch is not None and args.batch < 1):
        raise UsageError("--rounds and --batch must be at least 1")
    if args.batch is not None and args.batch > networks.LARGEST_BATCH:
        raise UsageError(f"--batch must be at most {networks.LARGEST_BATCH}, got {args.batch}")
    print(f"minicnn with {threads()} threads; {torch_version()}; {args.rounds} rounds")
    if args.dry_run:
        print(f"sections {', '.join(sections)}; models {', '.join(models)}")
        return 0
    if args.json and (args.json.is_dir() or not os.access(args.json.parent, os.W_OK)):  # now, not after half an hour
        raise UsageError(f"--json: {args.json} cannot be written; name a file in a folder that can")
    peak = matmul_peak()
    print(f"a large float32 matrix product: {peak / 1e9:.0f} GFLOP/s")
    plan = Plan(models, args.ops, args.batch, args.rounds, not args.no_compile, peak)
    results: dict[str, Any] = {"environment": environment(CPU), "torch": torch_version(), "peak": peak}
    for name in sections:
        results[name] = [row for section in SECTIONS[name] for row in _show(section, plan)]
        if args.json:
            write_json(args.json, results)  # after every section: nothing is lost if the next one is stopped
    return 0


def torch_version() -> str:
    return f"PyTorch {version('torch')} with {threads()} threads" if variants("torch") else "PyTorch is not installed"


def _chosen(option: str, text: str, known: Iterable[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wrong = f"unknown {', '.join(unknown)}" if unknown else "nothing is named"
        raise UsageError(f"{option}: {wrong}; choose from {', '.join(known)}")
    return names


def _show(section: Section, plan: Plan) -> list[dict[str, Any]]:
    """Print each row as soon as it is measured; return them all, for --json."""
    heads, widths = list(section.widths), list(section.widths.values())
    print(f"\n{section.title.format(plan.models[0])}\n")
    for line in (heads, ["-" * width for width in widths]):
        print(text_line(line, widths).rstrip())
    rows = []
    for row, shown in section.rows(plan):
        print(text_line([shown[head] for head in heads], widths).rstrip(), flush=True)
        rows.append(row)
    if ratios := [row["ratio"]["median"] for row in rows if row.get("ratio")]:
        print(f"\ngeometric mean {geometric_mean(ratios):.2f} x {RIVAL}, least {min(ratios):.2f}")
    return rows


if __name__ == "__main__":
    run_main(main, MODULE)
