"""Check what the paper states: every theorem, lemma and computable claim, with a verdict and the numbers behind it.

examples:
  python -m experiments.theory                                  all statements, some seconds
  python -m experiments.theory --only pooling-step one-percent  two of them; --dry-run lists the names
  python -m experiments.theory --figures                        and pictures of bounds, means and complexities
  python -m experiments.theory --measure                        reconstruction on CIFAR-10 and large images: minutes
  python -m experiments.theory --measure conv1 --data DIR       one measurement, CIFAR-10 from a folder
  python -m experiments.theory --measure joint                  an image from deep layers of untrained networks
  python -m experiments.theory --measure alexnet --alexnet FILE --figures
                                                                with the filters of an AlexNet, and the error curves

Every verdict is found anew: a statement is "false" if a counterexample breaks it by more than rounding, while what
docs/errata.md says instead survives all random cases; it is "undecided" if that fails too, or if a number differs from
the one worked out by hand.  If a verdict differs from the one in docs/errata.md, the exit code is 1.  The statements
are grouped by severity: false, a gap, a misprint, sound.

AlexNet's filters are read from an .npz file with the key conv1_w, (filters, channels, height, width), and applied with
stride 4 and pad 2.  The results are saved in --out as results.json, with --measure as measured.json.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from experiments.analyses.recovery import MEASUREMENTS, OF_ALEXNET, measure
from experiments.cli.app import UsageError, argument_parser, command, duration, run_main
from experiments.cli.environment import environment
from experiments.cli.files import write_json
from experiments.cli.values import result_folder
from experiments.figures.theory import draw_error_curves, draw_statements
from experiments.statements import STATEMENTS, Statement
from experiments.statements.checked import check, grouped
from minicnn.backend import CPU
from minicnn.blas import one_blas_thread

MODULE = "experiments.theory"


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    args.line = command(MODULE, arguments)
    if args.measure is None:
        return check_statements(choose(args.only, {s.key: s for s in STATEMENTS}, "--only"), args)
    possible = {name: name for name in MEASUREMENTS if name not in OF_ALEXNET or args.alexnet}
    return run_measurements(choose(args.measure, possible, "--measure"), args)


def parse(arguments: list[str]) -> argparse.Namespace:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--only", nargs="+", metavar="NAME", default=[], help="check only these statements (default: all)")
    p.add_argument("--seed", type=int, default=0, help="seed of the random cases (default 0)")
    p.add_argument("--figures", action="store_true", help="draw PNG files into --out")
    p.add_argument(
        "--measure", nargs="*", metavar="NAME", help=f"measure instead: {', '.join(MEASUREMENTS)} (default: all)"
    )
    p.add_argument("--data", type=Path, help="folder or archive with CIFAR-10 (default: the cache, else download)")
    p.add_argument("--alexnet", type=Path, metavar="FILE", help="conv1 of an AlexNet, for --measure")
    p.add_argument("--images", type=int, default=1000, help="CIFAR images to measure on (default 1000)")
    p.add_argument("--out", type=result_folder, default=Path("runs/theory"), help="default runs/theory")
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
    """The values of `known` that are named, in its order; all if none is named."""
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"{option}: no {', '.join(unknown)}; there are {' '.join(known)}")
    return [value for name, value in known.items() if name in names or not names]


def check_statements(asked: list[Statement], args: argparse.Namespace) -> int:
    if args.dry_run:
        print("\n".join(f"{s.key:24}{s.where}" for s in asked))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)  # find out now whether it can be made, not after the work
    found = []
    for i, one in enumerate(asked, 1):
        print(f"[{i}/{len(asked)}] {one.key}", file=sys.stderr)
        with one_blas_thread():  # matrices are small, and its threads wait in loops that keep the cores busy
            found.append(check(one, args.seed))
    saved = {"command": args.line, "seed": args.seed, "environment": environment(CPU)}
    write_json(args.out / "results.json", saved | {"statements": [checked.json() for checked in found]})
    width = min(120, max(80, shutil.get_terminal_size((100, 24)).columns))
    print(grouped(found, width))
    if args.figures:
        draw_statements(args.out, args.seed)
    verdicts = sorted(Counter(checked.evidence.verdict for checked in found).items())
    seconds = duration(sum(checked.seconds for checked in found))
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts)
    print(f"\n{len(found)} statements, {seconds}: {counts}.  Saved in {args.out}.")
    surprises = [checked.surprise for checked in found if checked.surprise]
    for surprise in surprises:
        print(f"NOT AS EXPECTED: {surprise}", file=sys.stderr)
    return 1 if surprises else 0


def run_measurements(names: list[str], args: argparse.Namespace) -> int:
    if args.dry_run:
        print("\n".join(f"{name:14}{(MEASUREMENTS[name].__doc__ or '').splitlines()[0]}" for name in names))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    measured = measure(names, data=args.data, alexnet=args.alexnet, images=args.images, seed=args.seed)
    for name, result in measured.items():
        print(f"{name}  ({duration(result['seconds'])})")
        print("\n".join(f"  {text}" for text in result["lines"]) + "\n")
    saved = {"command": args.line, "environment": environment(CPU), "measured": measured}
    write_json(args.out / "measured.json", saved)
    curves = {name: result["curves"] for name, result in measured.items() if "curves" in result}
    if args.figures and curves:
        draw_error_curves(args.out / "error_curves.png", curves)
    print(f"Saved in {args.out}.")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
