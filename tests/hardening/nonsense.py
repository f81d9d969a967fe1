"""Every command line with nonsense arguments: a short clear error, exit code 2 or 1, no traceback, no hang, no litter.

    python -m tests.hardening.nonsense                    every option with every nonsense value, then random pairs
    python -m tests.hardening.nonsense --each 8           at most 8 cases per command, drawn at random

The commands themselves list their options, so a new one is tested without being named here.  Each case runs in its own
process, forked after all imports, in a folder with a copy of the workshop's files.  Some nonsense makes
sense to a command (--seed 99999999999999999999); then it may run, and is stopped when its time is up.
"""

import argparse
import collections
import contextlib
import importlib
import itertools
import os
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from experiments.cli.app import argument_parser, run_main
from tests.hardening.workshop import TINY, make_workshop

SECONDS, BUSY, WAIT = 40, 6, 0.003  # per case, by the clock and of computing; between looks at it
MEMORY = 6 * 2**30
LONGEST = 25  # lines of an error

RESULT = "verdict.json"

# command: argument lists that make sense, to which nonsense is added
COMMANDS = {
    "experiments.cifar": [[*TINY], [*TINY, "--dry-run"], [*TINY, "--out", "unfinished", "--resume"]],
    "experiments.imagenet": [
        ["--dry-run", "--scale", "0.01"],
        shlex.split("--data pictures --scale 0.01 --side 64 --crop 56 --batch 4 --epochs 1 --subset 8 --workers 1"),
        ["--run", "run", "--dry-run"],
        ["--run", "run", "--image", "file.jpg"],
    ],
    "experiments.demo": [
        shlex.split("--dataset textures --subset 32 --epochs 1 --scale 0.02 --device cpu"),
        ["--dry-run"],
    ],
    "experiments.theory": [
        ["--dry-run"],
        ["--only", "crelu-inverse"],
        ["--measure", "conv1", "--data", "empty-folder"],
    ],
    "experiments.search": [shlex.split("--points 2 --functions 1 --kinds integers --starts 1"), ["--dry-run"]],
    "experiments.pairing": [["--run", "run", "--draws", "1"], ["--weights", "weights.npz", "--draws", "1"]],
    "experiments.correlation": [["--run", "run"]],
    "experiments.injectivity": [["--run", "run", "--subset", "5"], ["--run", "run", "--dry-run"]],
    "experiments.invariance": [["--run", "run", "--subset", "10"], ["--run", "run", "--dry-run"]],
    "experiments.reconstruction": [["--run", "run", "--subset", "10", "--count", "1"], ["--run", "run", "--dry-run"]],
    "experiments.regularisation": [["--run", "run"], ["--run", "held", "--run", "run"]],
    "experiments.predict": [["pictures/train/checks/00005.JPEG", "--run", "run"], ["file.jpg", "--dry-run"]],
    "experiments.evaluate": [["--run", "run", "--subset", "10"], ["--weights", "relu-base", "--dry-run"]],
    "experiments.export": [["--run", "run", "--to", "new.onnx"], ["--run", "run", "--to", "new.npz", "--dry-run"]],
    "experiments.explore": [["--run", "run", "--images", "1"], ["--run", "run", "--dry-run"]],
    "experiments.ablation": [["--dry-run"], shlex.split("--dataset textures --changes no-shifts --report")],
    "experiments.speedrun": [["--dry-run"], shlex.split("--dataset textures --variants crelu --report --no-pytorch")],
    "experiments.illustration": [[], ["--dry-run"]],
    "experiments.bench": [["--dry-run"]],
    "experiments.scaling": [["--dry-run"], shlex.split("--images 1 --steps 1 --scale 0.02 --device cpu")],
    "experiments.pipeline": [["--dry-run"], shlex.split("--data pictures --pictures 2 --rounds 1 --workers 1")],
    "experiments.benchmarks.memory": [["ours", "crelu-half", "1"]],
    "experiments.reproduce": [["table1", "--dry-run"], ["table1", "--report"], ["--list"]],
    "experiments.photos": [["--out", "new", "--train", "3", "--validation", "2"], ["--out", "new", "--of", "file.jpg"]],
    "experiments.reproduction.child": [["experiments.illustration", "--dry-run"]],
    "exercises.check": [["write_an_op", "file.py"], ["write_an_op", "file.py", "--dry-run"], ["--list"]],
    "exercises.worker": [["write_an_op", "file.py", "0", RESULT]],
}
WITHOUT_PARSER = ("experiments.benchmarks.memory", "experiments.reproduction.child", "exercises.worker")

NUMBERS = shlex.split("0 -1 -0 1 7 99 -99 1.5 -0.5 1e-9 1e9 1e30 1e400 nan inf -inf 99999999999999999999 0x10 1_0 ٣ --")
WORDS = ["", " ", "x", "None", "ß\n", "\t", "a" * 300, "a,b", "1,2", "2,3", "1,,2", ",", "0.1,0.2", "9,9,9", "x=y",
         "nan,nan,nan", "0,0,nan", "cifar10=", "%s", "gpu:99", "gpu:-1", "tpu", "conv1=0", "conv1=99",
         "\udcff"]  # fmt: skip
PATHS = ["nowhere", "nowhere/below", "file", "file/below", "empty-folder", ".", "/", "/dev/null", "/dev/full", "/proc",
         "file.npz", "file.pth", "file.svg", "file.py", "file.jpg", "file.tar.gz", "ü ß", "weights.npz", "nan.npz",
         "matrix.npz", "https://host/x.jpg", "zero.npz", "words.npz", "array.npy", "pictures", "pictures/train",
         "x" * 5000]  # fmt: skip
ENDINGS = [["--nonsense"], ["--help=1"], ["word"], ["--", "-x"], ["--dry-run=1"], ["--resume"], ["--device"]]


def options(module):
    """The options of a command, from its parser: [(name or None, takes a value)]."""
    found = []

    class Stop(Exception):  # noqa: N818
        pass

    def catch(parser, *_, **__):
        told = argparse._HelpAction, argparse._VersionAction
        found.extend(a for a in parser._actions if not isinstance(a, told))
        raise Stop

    original, argparse.ArgumentParser.parse_known_args = argparse.ArgumentParser.parse_known_args, catch
    try:
        with contextlib.suppress(Stop):
            importlib.import_module(module).main([])
    finally:
        argparse.ArgumentParser.parse_known_args = original
    return [((a.option_strings or [None])[-1], a.nargs != 0) for a in found]


def cases(module, runs, rng, pairs):
    """Every option with every value after every base, and `pairs` random pairs: lists of arguments."""
    values = [*NUMBERS, *WORDS, *PATHS, *runs]
    if module in WITHOUT_PARSER:
        for base in COMMANDS[module]:
            yield from (base[:i] for i in range(len(base)))
            places = [i for i, word in enumerate(base) if word != RESULT]  # an existing file there would be overwritten
            yield from ([*base[:i], value, *base[i + 1 :]] for i in places for value in values)
        return
    known = options(module)
    singles = [[name, value] if name else [value] for name, takes in known if takes for value in values]
    singles += [[f"{name}={value}"] for name, takes in known if takes and name for value in ("", "x", "-1")]
    singles += [[name] for name, takes in known if not takes]
    for base in COMMANDS[module]:
        yield from ([*base, *end] for end in [*singles, *ENDINGS])
    for _ in range(pairs):
        yield [*rng.choice(COMMANDS[module]), *itertools.chain(*rng.sample(singles, 2))]


def attempt(module, arguments, folder):
    """Run a command in its own process; (exit code or None, what it printed)."""
    log = folder / ".log"
    child = os.fork()
    if child == 0:
        _inside(module, arguments, folder, log)
    for _ in range(round(SECONDS / WAIT)):  # counted, not timed: the machine may have been paused
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), log.read_text(errors="replace")
        time.sleep(WAIT)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, log.read_text(errors="replace")


def _inside(module, arguments, folder, log):
    """The forked process runs this; it never returns."""
    try:
        os.setsid()
        os.chdir(folder)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing, _open = os.pipe()  # standard input of child.py: open, and silent
        for source, target in ((nothing, 0), (handle, 1), (handle, 2)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", errors="backslashreplace", closefd=False) for n in (1, 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGPROF, _tell_where)
        signal.setitimer(signal.ITIMER_PROF, BUSY)
        sys.argv = [module, *arguments]
        loaded = importlib.import_module(module)
        if module in WITHOUT_PARSER:
            loaded.main(arguments)
        else:
            run_main(loaded.main, module)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _tell_where(number, frame):
    """Time is up: say where the process is; it may well be busy with a long training."""
    names = {entry.name for entry in traceback.extract_stack(frame)}
    busy = names & {"finish_epoch", "evaluate", "check", "textures", "seconds_per_image", "measure", "build_model"}
    print("STILL BUSY:", sorted(busy) or traceback.format_stack(frame), flush=True)
    os._exit(98 if busy else 97)


def judge(code, text, before, after):
    """What is wrong with an outcome, or None."""
    if code is None:
        return "hangs"
    if code == 99 or "Traceback (most recent" in text:
        return "traceback: " + (text.strip().splitlines() or ["?"])[-1][:150]
    if code == 98:
        return None
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code and not any(word in text for word in ("error:", "not right yet", "usage:")):
        return f"exit code {code} without a message"
    if code and len(text[text.rfind("error:") :].splitlines()) > LONGEST:
        return "a long error"
    drawn = () if code else (".png", ".csv", ".svg")  # a picture or a table may be made anew
    if lost := [name for name in before if before[name] != after.get(name) and not name.endswith(drawn)]:
        return f"changed {lost[:3]}"
    if code == 2 and (new := set(after) - set(before)):
        return f"refused, but left {sorted(new)[:3]}"
    return None


def contents(folder):
    """{name: (size, time of change)} of all files but the log; unfinished runs may change, and are left out."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.name not in (".log", ".lock") and not path.is_dir() and not name.startswith("unfinished"):
            found[name] = (path.lstat().st_size, path.lstat().st_mtime_ns)
    return found


def main():
    p = argument_parser("tests.hardening.nonsense", __doc__)
    p.add_argument("--each", type=int, help="at most this many cases per command, drawn at random")
    p.add_argument("--pairs", type=int, default=100, help="random pairs of options per command (default 100)")
    p.add_argument("--only", nargs="+", default=list(COMMANDS), help="these commands (default all)")
    p.add_argument("--seed", type=int, default=0, help="seed of what is drawn at random (default 0)")
    args = p.parse_args()
    rng = random.Random(args.seed)
    counts, problems = collections.Counter(), {}
    os.environ |= {"MINICNN_DATA": "/nonexistent/minicnn", "PATH": "/nonexistent", "MINICNN_THREADS": "1"}
    with tempfile.TemporaryDirectory() as place:
        pristine = make_workshop(Path(place) / "workshop")
        runs = sorted(path.name for path in pristine.iterdir() if (path / "checkpoint.npz").exists())
        todo = []
        for module in args.only:
            all_cases = list(cases(module, [*runs, "no-weights"], rng, args.pairs))
            few = rng.sample(all_cases, min(args.each or len(all_cases), len(all_cases)))
            todo += [(module, case) for case in few]
        folder = shutil.copytree(pristine, Path(place) / "bench")
        before = contents(folder)
        for module, case in todo:
            code, text = attempt(module, case, folder)
            after = contents(folder)
            problem = judge(code, text, before, after)
            counts[module, code] += 1
            if problem:
                problems.setdefault((module, problem[:70]), []).append((case, problem))
                if len(problems[module, problem[:70]]) == 1:
                    print(f"{module} {case}\n    {problem}", flush=True)
            if after != before:
                shutil.rmtree(folder)
                folder = shutil.copytree(pristine, folder, copy_function=shutil.copy2)
                before = contents(folder)
    for module in args.only:
        found = {str(code): n for (name, code), n in sorted(counts.items(), key=str) if name == module}
        print(f"{module:34} {sum(found.values()):6} cases, by exit code {found}")
    print(f"{counts.total()} cases, {sum(map(len, problems.values()))} problems of {len(problems)} kinds")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
