"""Mutants of minicnn/theory: small wrong changes, each of which some test must notice.

    python -m tests.theory.mutants                       all of them, some seconds each; goes on where it was stopped
    python -m tests.theory.mutants --only NAME ...       some; --list prints the names
    python -m tests.theory.mutants --again               forget what was found before

A mutant is made in a copy of the repository, in a temporary folder, and the tests of the file it changes run there
until one fails, the one that failed the last time first.  What was found is kept in tests/theory/mutants.json, and
counts as long as neither the code nor its tests change.  The exit code is 1 if a mutant survives.  Those that change
nothing one could notice are listed with the reason, and not run.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.theory.mutant_list import EQUIVALENT, MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("minicnn", "reference", "experiments", "tests", "pyproject.toml")
RECORD = Path(__file__).with_name("mutants.json")
SECONDS = 600  # a mutant that makes the tests run longer than this is noticed


class Outcome(NamedTuple):
    verdict: str  # killed, survived
    by: str  # the test that failed, or how else it was noticed
    seconds: float


def mutated(mutant: Mutant, source: str) -> str:
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its text occurs {source.count(mutant.old)} times in {mutant.path}: mend it")
    return source.replace(mutant.old, mutant.new)


def key(mutant: Mutant, folder: Path) -> str:
    """Of the mutant, the file it changes and the tests: what was found for them holds as long as it is the same."""
    parts = [repr(mutant), *((folder / path).read_text() for path in (mutant.path, *mutant.tests))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def copy_repository(folder: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        else:
            shutil.copy(source, target)


def run(mutant: Mutant, folder: Path, first: str = "") -> Outcome:
    """Run the tests of a mutant in a copy of the repository, which is mended afterwards; `first` is run before all."""
    path = folder / mutant.path
    source, start = path.read_text(), time.monotonic()
    path.write_text(mutated(mutant, source))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += [f"{mutant.tests[0]}::{first}"] if first else []
    command += mutant.tests
    environment = os.environ | {"HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1", "MINICNN_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome("killed", f"more than {SECONDS} s", time.monotonic() - start)
    finally:
        path.write_text(source)
    seconds = round(time.monotonic() - start, 1)
    if done.returncode == 0:
        return Outcome("survived", "", seconds)
    failed = re.search(r"^(?:FAILED|ERROR) \S+?::(\w+)", done.stdout, re.M)
    if done.returncode != 1 or failed is None:
        raise RuntimeError(f"{mutant.name}: the tests did not run (pytest's code {done.returncode})\n{done.stdout}")
    return Outcome("killed", failed[1], seconds)


def _test(found: dict[str, str], mutant: Mutant) -> str:
    """The test that noticed it the last time, if it is still there."""
    by = found.get("by", "")
    return by if f"def {by}(" in (ROOT / mutant.tests[0]).read_text() else ""


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(prog="tests.theory.mutants", description=__doc__.splitlines()[0])
    p.add_argument("--only", nargs="+", metavar="NAME", default=[], help="these mutants (default: all)")
    p.add_argument("--out", type=Path, default=RECORD, help="what was found; default tests/theory/mutants.json")
    p.add_argument("--again", action="store_true", help="run those that were run before, too")
    p.add_argument("--list", action="store_true", help="print the mutants, and stop")
    args = p.parse_args(arguments)
    if unknown := set(args.only) - {mutant.name for mutant in MUTANTS}:
        p.error(f"there is no mutant {', '.join(sorted(unknown))}; --list prints them")
    chosen = [mutant for mutant in MUTANTS if not args.only or mutant.name in args.only]
    if args.list:
        print("\n".join(f"{m.name:36}{m.path}" for m in chosen))
        return 0
    known = json.loads(args.out.read_text()) if args.out.exists() and not args.again else {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        copy_repository(Path(name))
        for i, mutant in enumerate(chosen, 1):
            found, now = known.get(mutant.name, {}), key(mutant, Path(name))
            if found.get("key") != now:
                found = known[mutant.name] = {"key": now, **run(mutant, Path(name), _test(found, mutant))._asdict()}
                args.out.write_text(json.dumps(known, indent=1) + "\n")
            print(
                f"[{i}/{len(chosen)}] {found['verdict']:9}{mutant.name}: {found['by']}, {found['seconds']} s",
                flush=True,
            )
    survived = [mutant.name for mutant in chosen if known[mutant.name]["verdict"] == "survived"]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed")
    for mutant, reason in EQUIVALENT:
        print(f"equivalent, not run: {mutant.name}: {reason}")
    for name in survived:
        print(f"SURVIVED: {name}", file=sys.stderr)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
