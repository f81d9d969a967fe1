"""Look for a class of functions above the conjectured constants of the complexity theorem (docs/proofs.md, 9 to 14).

Two conjectures: (K1) E P^2 <= (E M)^2, and E N <= sqrt 2 E M, which follows from it.  The search climbs both quotients
by linear programs from random starts, and tries small integers and orbits of functions under permutations.  It goes on
where it was stopped: the tries are numbered, and each number has its own random numbers.

examples:
  python -m experiments.search                                       a few minutes
  python -m experiments.search --starts 200 --points 4,5 --functions 3,4,6 --out runs/search
  python -m experiments.search --goals k1 --kinds climb --points 4 --functions 5

Writes search.json: for each kind of search the number of tries, the largest quotient and its class.  The exit code is 1
if a class is above its conjecture by more than rounding: the conjecture is then false.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import UsageError, argument_parser, command, run_main, usage_errors
from experiments.cli.files import read_json, write_json
from experiments.cli.progress import Progress
from experiments.cli.values import check_numbers, result_folder
from experiments.tables.table import Column, Table
from minicnn.random import Stream
from minicnn.theory.class_search import GOALS, sample

MODULE = "experiments.search"
KINDS = ("climb", "integers", "orbits")
ROUNDING = 1e-7  # of a linear program; a class above its conjecture by more refutes it
SAVED = "search.json"
MOST_POINTS, MOST_FUNCTIONS = 8, 24


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    tasks = {" ".join(map(str, task)): task for task in product(args.kinds, args.goals, args.points, args.functions)}
    if args.dry_run:
        print("\n".join(f"would try {args.starts} times: {name}" for name in tasks))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    saved = read_saved(args.out / SAVED, args.seed)
    total = sum(max(0, args.starts - saved.get(name, {"tries": 0})["tries"]) for name in tasks)
    with Progress(total, "search", "start") as progress:
        for name, task in tasks.items():
            one = saved.setdefault(name, {"tries": 0, "largest": 0.0, "reached": 0, "class": []})
            for number in range(one["tries"], args.starts):
                try_once(one, task, number, args.seed)
                if (number + 1) % 10 == 0 or number + 1 == args.starts:
                    write(args, arguments, saved)
                progress()
    write(args, arguments, saved)
    print(table({name: (saved[name], tasks[name]) for name in tasks}).text())
    above = [name for name in tasks if saved[name]["largest"] > GOALS[tasks[name][1]] + ROUNDING]
    for name in above:
        print(f"ABOVE THE CONJECTURE: {name}: {saved[name]['largest']!r}, {saved[name]['class']}", file=sys.stderr)
    tries = sum(saved[name]["tries"] for name in tasks)
    print(f"\n{tries} tries: {'a counterexample' if above else 'no class above its conjecture'}.  Saved in {args.out}.")
    return 1 if above else 0


def parse(arguments: list[str]) -> argparse.Namespace:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--points", type=_numbers, default=[3, 4, 5], metavar="L,...", help="default 3,4,5")
    p.add_argument("--functions", type=_numbers, default=[2, 3, 4], metavar="N,...", help="default 2,3,4")
    p.add_argument("--goals", type=_words, default=list(GOALS), metavar="NAME,...", help=f"of {','.join(GOALS)}")
    p.add_argument("--kinds", type=_words, default=list(KINDS), metavar="NAME,...", help=f"of {','.join(KINDS)}")
    p.add_argument("--starts", type=int, default=30, metavar="N", help="tries of each kind (default 30)")
    p.add_argument("--seed", type=int, default=0, help="default 0")
    p.add_argument("--out", type=result_folder, default=Path("runs/search"), help="default runs/search")
    p.add_argument("--dry-run", action="store_true", help="list what would be tried, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("starts",), not_negative=("seed",))
    for option, known in (("goals", GOALS), ("kinds", KINDS)):
        if unknown := [name for name in getattr(args, option) if name not in known]:
            raise UsageError(f"--{option}: no {', '.join(unknown)}; there are {', '.join(known)}")
    for option, most in (("points", MOST_POINTS), ("functions", MOST_FUNCTIONS)):
        if not all(1 <= n <= most for n in getattr(args, option)):
            raise UsageError(f"--{option} must be in 1 .. {most}, got {getattr(args, option)}")
    return args


def try_once(one: dict[str, Any], task: tuple[str, str, int, int], number: int, seed: int) -> None:
    """Try number `number` of a task, and note in `one` what came of it."""
    kind, goal, points, functions = task
    stream = Stream(seed).child("search", kind, goal, f"{points} points", f"{functions} functions")
    found = sample(kind, goal, functions, points, stream.at(number).generator())
    one["tries"] = number + 1
    one["reached"] += found.quotient > GOALS[goal] - ROUNDING
    if found.quotient > one["largest"]:
        one["largest"], one["class"] = found.quotient, np.round(found.values, 12).tolist()


def read_saved(path: Path, seed: int) -> dict[str, Any]:
    if not path.exists():
        return {}
    saved = read_json(path)
    if saved.get("seed") != seed or not isinstance(saved.get("searches"), dict):
        raise UsageError(f"{path} is of another seed ({saved.get('seed')}) or damaged; choose another --out")
    return saved["searches"]


def write(args: argparse.Namespace, arguments: list[str], saved: dict[str, Any]) -> None:
    write_json(args.out / SAVED, {"command": command(MODULE, arguments), "seed": args.seed, "searches": saved})


def table(found: dict[str, tuple[dict[str, Any], tuple[str, str, int, int]]]) -> Table:
    heads: list[Column | str] = [
        "search",
        "goal",
        "points",
        "functions",
        "tries",
        Column("largest", ".6f"),
        "conjecture",
        "reached it",
    ]
    rows = [
        [kind, goal, points, functions, one["tries"], one["largest"], f"{GOALS[goal]:.6f}", one["reached"]]
        for one, (kind, goal, points, functions) in found.values()
    ]
    return Table(heads, rows)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part]
    except ValueError:
        found = []
    if not found:
        raise argparse.ArgumentTypeError("expected numbers, such as 3,4")
    return found


def _words(text: str) -> list[str]:
    found = [part for part in text.split(",") if part]
    if not found:
        raise argparse.ArgumentTypeError("expected names")
    return found


if __name__ == "__main__":
    run_main(main, MODULE)
