"""Check what the paper states: every theorem, lemma and computable claim, with a verdict and the numbers behind it.

examples:
  python -m experiments.theory                                  all statements, some seconds
  python -m experiments.theory --only pooling-step one-percent  two of them; --dry-run lists the names
  python -m experiments.theory --figures                        and pictures of bounds, means and complexities
  python -m experiments.theory --measure                        reconstruction on CIFAR-10 and large images: minutes
  python -m experiments.theory --measure conv1 --data DIR       one measurement, CIFAR-10 from a folder
  python -m experiments.theory --measure alexnet --alexnet FILE --figures
                                                                with the filters of an AlexNet, and the error curves

A verdict is found anew each time: a statement is "false" if a counterexample breaks it by more than rounding, while
what docs/errata.md says instead survives all random cases; "undecided" if that fails too, or if a number differs from
the one worked out by hand.  A verdict that is not the one in docs/errata.md makes the exit code 1.

AlexNet's filters are an .npz with the key conv1_w, (filters, channels, height, width), applied with stride 4 and pad 2.
The results are saved as results.json (measured.json) in --out.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from experiments.analyses.recovery import MEASUREMENTS, OF_ALEXNET, measure
from experiments.cli.app import UsageError, argument_parser, command, duration, run_main
from experiments.cli.environment import environment
from experiments.cli.files import write_json
from experiments.figures.theory import draw_error_curves, draw_pooling, draw_rademacher, draw_subspaces
from experiments.statements import STATEMENTS, Evidence, Statement
from minicnn.backend import CPU

MODULE = "experiments.theory"


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    asked = choose(args.only, {s.key: s for s in STATEMENTS}, "--only")
    if args.measure is not None:
        possible = {name: name for name in MEASUREMENTS if name not in OF_ALEXNET or args.alexnet}
        names = choose(args.measure, possible, "--measure")
        if args.dry_run:
            print("\n".join(f"{name:14}{(MEASUREMENTS[name].__doc__ or '').splitlines()[0]}" for name in names))
            return 0
        return run_measurements(names, args, command(MODULE, arguments))
    if args.dry_run:
        print("\n".join(f"{s.key:24}{s.where}" for s in asked))
        return 0
    return run_statements(asked, args, command(MODULE, arguments))


def parse(arguments: list[str]) -> argparse.Namespace:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--only", nargs="+", metavar="NAME", default=[], help="these statements (default: all)")
    p.add_argument("--seed", type=int, default=0, help="of the random cases (default 0)")
    p.add_argument("--figures", action="store_true", help="draw PNG files into --out")
    p.add_argument(
        "--measure", nargs="*", metavar="NAME", help=f"measure instead: {', '.join(MEASUREMENTS)} (default: all)"
    )
    p.add_argument("--data", type=Path, help="folder or archive with CIFAR-10 (default: the cache, else download)")
    p.add_argument("--alexnet", type=Path, metavar="FILE", help="conv1 of an AlexNet, for --measure")
    p.add_argument("--images", type=int, default=1000, help="CIFAR images to measure on (default 1000)")
    p.add_argument("--out", type=Path, default=Path("runs/theory"), help="default runs/theory")
    p.add_argument("--dry-run", action="store_true", help="list what would be done, and stop")
    args = p.parse_args(arguments)
    if args.seed < 0 or not 1 <= args.images <= 10_000:
        raise UsageError(f"--seed must be at least 0 and --images in 1 .. 10000, got {args.seed} and {args.images}")
    if args.measure is None and (args.alexnet or args.data):
        raise UsageError("--alexnet and --data are for --measure")
    if args.measure is not None and args.only:
        raise UsageError("--measure and --only exclude each other")
    if args.alexnet and not args.dry_run and not args.alexnet.is_file():
        raise UsageError(f"--alexnet: there is no file {args.alexnet}")
    if not args.alexnet and (needing := [name for name in args.measure or () if name in OF_ALEXNET]):
        raise UsageError(f"--measure {' '.join(needing)} needs --alexnet FILE, an .npz with conv1_w")
    return args


def choose(names: list[str], known: dict[str, Any], option: str) -> list[Any]:
    """Those of `known` that are named, in its order; all if none is."""
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"{option}: no {', '.join(unknown)}; there are {' '.join(known)}")
    return [value for name, value in known.items() if name in names or not names]


class Checked(NamedTuple):
    """A statement, what its check found, and how long that took."""

    statement: Statement
    evidence: Evidence
    seconds: float


def run_statements(asked: list[Statement], args: argparse.Namespace, line: str) -> int:
    args.out.mkdir(parents=True, exist_ok=True)  # find out now whether it can be made, not after the work
    found = []
    for i, one in enumerate(asked, 1):
        print(f"[{i}/{len(asked)}] {one.key}", file=sys.stderr)
        start = perf_counter()
        found.append(Checked(one, one.check(args.seed), perf_counter() - start))
    width = min(120, max(80, shutil.get_terminal_size((100, 24)).columns))
    write_json(args.out / "results.json", results(found, args.seed, line))
    print("\n\n".join(block(one, evidence, width) for one, evidence, _ in found))
    if args.figures:
        draw_pooling(args.out / "pooling_bounds.png", args.seed)
        draw_subspaces(args.out / "subspace_means.png", args.seed)
        draw_rademacher(args.out / "rademacher.png", args.seed)
    verdicts = [checked.evidence.verdict for checked in found]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(sorted(verdicts)))
    seconds = duration(sum(checked.seconds for checked in found))
    print(f"\n{len(found)} statements, {seconds}: {counts}.  Saved in {args.out}.")
    wrong = [(one, evidence) for one, evidence, _ in found if evidence.verdict != one.expected]
    for one, evidence in wrong:
        slips = f" (not as worked out by hand: {', '.join(evidence.slips)})" if evidence.slips else ""
        print(f"NOT AS EXPECTED: {one.key}: expected {one.expected}, found {evidence.verdict}{slips}", file=sys.stderr)
    return 1 if wrong else 0


def block(one: Statement, evidence: Evidence, width: int) -> str:
    """A statement, its verdict and why, wrapped."""
    lines = [f"{one.key}: {evidence.verdict.upper()}" + (f"  ({', '.join(one.errata)})" if one.errata else "")]
    parts = {"where": one.where, "claim": one.says, "witness": evidence.witness, "corrected": one.corrected}
    for name, text in parts.items():
        lines += textwrap.wrap(text, width, initial_indent=f"  {name:11}", subsequent_indent=" " * 13)
    return "\n".join(lines)


def results(found: list[Checked], seed: int, line: str) -> dict[str, Any]:
    """What results.json holds."""
    return {
        "command": line,
        "seed": seed,
        "environment": environment(CPU),
        "statements": [
            {
                "key": one.key,
                "where": one.where,
                "says": one.says,
                "expected": one.expected,
                "verdict": evidence.verdict,
                "witness": evidence.witness,
                "corrected": one.corrected,
                "errata": list(one.errata),
                "by_hand": {what: {"found": f, "by hand": h} for what, (f, h) in evidence.by_hand.items()},
                "seconds": round(seconds, 3),
            }
            for one, evidence, seconds in found
        ],
    }


def run_measurements(names: list[str], args: argparse.Namespace, line: str) -> int:
    args.out.mkdir(parents=True, exist_ok=True)
    measured = measure(names, data=args.data, alexnet=args.alexnet, images=args.images, seed=args.seed)
    for name, result in measured.items():
        print(f"{name}  ({duration(result['seconds'])})")
        print("\n".join(f"  {text}" for text in result["lines"]) + "\n")
    write_json(args.out / "measured.json", {"command": line, "environment": environment(CPU), "measured": measured})
    curves = {name: result["curves"] for name, result in measured.items() if "curves" in result}
    if args.figures and curves:
        draw_error_curves(args.out / "error_curves.png", curves)
    print(f"Saved in {args.out}.")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
