"""Damaged files of every kind that is read: our own errors or a valid result, nothing executed, no hang, no crash.

    python -m tests.hardening.fuzz --count 100000        spread over all kinds of files
    python -m tests.hardening.fuzz --count 20 --only checkpoint png --keep /tmp/found

A batch runs in its own process, with little memory beyond what it starts with; a case that crashes it, or takes too
long, is found by its number.  Files that make trouble are kept.
"""

import collections
import contextlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from experiments.cli.app import UsageError, argument_parser
from minicnn.checkpoint import CheckpointError
from minicnn.data.dataset import DataError
from tests.hardening.kinds import CANARY, all_kinds

OURS = (CheckpointError, DataError, UsageError)
ROOM = 2 * 2**30  # bytes of address space beyond that of the process
SECONDS = 10  # of computing, for one file
BATCH = 250
LONGEST = 2500  # characters of an error


def outcome(kind, number, seed, folder):
    """Read damaged file `number`: ("read" or "refused", what is wrong with that or None)."""
    rng = random.Random(f"{seed} {kind.name} {number}")
    read = kind.prepare(rng, folder)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            read()
        how, problem = "read", None
    except OURS as error:
        text = str(error)
        bad = not text.strip() or len(text) > LONGEST or "Traceback" in text
        how, problem = "refused", f"unclear: {text[:200]!r}" if bad else None
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        how, problem = "escaped", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"[:300]
    if Path(CANARY).exists():
        Path(CANARY).unlink()
        problem = "the file was executed"
    return how, problem


def batch(kind, numbers, seed, folder):
    """Run cases in a forked process, one line per case: (lines, the case under way when it died or None, why)."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(out)
            size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, whatever it is doing
            with open(into, "w", errors="backslashreplace") as report:
                for number in numbers:
                    report.write(f"{number}\n")
                    report.flush()
                    signal.setitimer(signal.ITIMER_PROF, SECONDS)
                    how, problem = outcome(kind, number, seed, folder)
                    report.write(f"{how}\t{(problem or '').replace(chr(10), ' ')}\n")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(into)
    with open(out, errors="replace") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    done = list(zip(map(int, lines[::2]), (line.split("\t", 1) for line in lines[1::2]), strict=False))
    if len(lines) % 2:
        signalled = os.waitstatus_to_exitcode(status)
        return done, int(lines[-1]), "hangs" if signalled == -signal.SIGPROF else f"ends the process ({signalled})"
    return done, None, ""


def fuzz(kind, count, seed, folder):
    """All cases of a kind: counts by outcome, and {number: problem}."""
    counts, problems, todo = collections.Counter(), {}, list(range(count))
    while todo:
        done, died, why = batch(kind, todo[:BATCH], seed, folder)
        for number, (how, problem) in done:
            counts[how] += 1
            if problem:
                problems[number] = problem
        if died is not None:
            counts["died"] += 1
            problems[died] = why
        finished = len(done) + (died is not None)
        assert finished, "a batch that did nothing"
        todo = todo[finished:]
    return counts, problems


def main():
    p = argument_parser("tests.hardening.fuzz", __doc__)
    p.add_argument("--count", type=int, default=2000, help="number of files over all kinds (default 2000)")
    p.add_argument("--only", nargs="+", help="these kinds (default all)")
    p.add_argument("--seed", type=int, default=0, help="seed of the damage (default 0)")
    p.add_argument("--keep", type=Path, help="folder for the files that make trouble")
    args = p.parse_args()
    total, found = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as place:
        kinds = [kind for kind in all_kinds(Path(place)) if not args.only or kind.name in args.only]
        weights = sum(kind.share for kind in kinds)
        for kind in kinds:
            start = time.monotonic()
            count = max(1, round(args.count * kind.share / weights))
            counts, problems = fuzz(kind, count, args.seed, Path(place))
            total += counts
            found += len(problems)
            shown = ", ".join(f"{counts[how]} {how}" for how in sorted(counts))
            print(f"{kind.name:22}{count:7} files: {shown}  ({time.monotonic() - start:.0f} s)", flush=True)
            different = {problem.split(" (")[0][:60]: number for number, problem in problems.items()}
            for number in different.values():
                print(f"    {len(problems)} problems; number {number}: {problems[number]}", flush=True)
                if args.keep:
                    kind.prepare(random.Random(f"{args.seed} {kind.name} {number}"), Path(place))
                    kind.keep(args.keep / f"{kind.name}-{number}", Path(place))
    print(f"{total.total()} files, {found} problems: {dict(total)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
