"""A disk that is full, broken or not writable at the k-th write: one clear error that names the file, and nothing lost.

    python -m tests.hardening.faults                     every command, every k, three kinds of error
    python -m tests.hardening.faults --only cifar

`Faults` counts the operations that reach the file system (making and opening files, writes, flushes, links, renames,
folders) and fails the k-th.  Each command first runs whole, which gives the number of operations and the expected
files; then, for every k, it runs with the fault and again without, and must end in the same files.
"""

import builtins
import contextlib
import errno
import io
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from PIL import Image

from experiments import (
    cifar,
    correlation,
    demo,
    export,
    illustration,
    imagenet,
    invariance,
    pairing,
    predict,
    reconstruction,
    regularisation,
    reproduce,
    theory,
)
from experiments.cli.app import UsageError, argument_parser
from experiments.reproduction.pictures import of_textures, write_pictures
from minicnn.checkpoint import CheckpointError, load
from minicnn.data.dataset import DataError
from minicnn.data.textures import textures
from minicnn.training import TrainingError
from tests.experiments.made_runs import tiny
from tests.hardening.workshop import TINY, few_textures, train

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
EXPECTED = (CheckpointError, DataError, OSError, TrainingError, UsageError)  # what run_main makes a message of
PHOTOS = shlex.split("--scale 0.01 --side 64 --crop 56 --batch 4 --epochs 1 --subset 8 --workers 1 --crops 1 --resume")
EVERY = 60  # only every 60th write to a file counts, from the first on: a checkpoint takes hundreds
DIFFERENT = ("seconds", "made", "environment", "command")  # lines with these words differ from run to run


class Faults(contextlib.ExitStack):
    """Within it, the `at`-th operation below `folder` fails (0: none), and all are counted in `count`."""

    def __init__(self, folder, at=0, number=errno.ENOSPC):
        super().__init__()
        self.folder, self.at, self.number, self.count = str(folder), at, number, 0

    def __enter__(self):
        super().__enter__()
        for owner, name in ((os, "fsync"), (os, "replace"), (os, "link"), (os, "mkdir")):
            self.enter_context(mock.patch.object(owner, name, self._counted(getattr(owner, name), name)))
        for owner in (builtins, io):
            self.enter_context(mock.patch.object(owner, "open", self._opening(open)))
        return self

    def step(self, what):
        """One more operation: it may be the one that fails."""
        self.count += 1
        if self.count == self.at:
            self.strike(what)

    def strike(self, what):
        raise OSError(self.number, os.strerror(self.number), what)

    def _counted(self, function, name):
        def call(*args, **kwargs):
            ours = name == "fsync" or self._ours(args[0])
            if ours and sys._getframe(1).f_code.co_name != "_flush_folder":
                self.step(str(args[0]) if name in ("mkdir", "replace") else None)
            return function(*args, **kwargs)

        return call

    def _opening(self, function):
        def call(file, mode="r", *args, **kwargs):
            if not isinstance(file, int) and set(mode) & set("wax+") and self._ours(file):
                self.step(str(file))
            opened = function(file, mode, *args, **kwargs)
            return Writer(opened, self) if "x" in mode else opened  # "x": the files of atomic_write

        return call

    def _ours(self, path):
        return os.path.abspath(os.fspath(path)).startswith(self.folder)


class Writer(io.RawIOBase):
    """A file whose writes are counted; nothing is buffered, so that the write itself fails."""

    def __init__(self, file, faults):
        self.file, self.faults, self.writes = file, faults, 0

    def write(self, content):
        if self.writes % EVERY == 0:
            if self.faults.count + 1 == self.faults.at:  # half of it gets there
                self.file.write(content[: len(content) // 2])
                self.file.flush()
            self.faults.step(None)
        self.writes += 1
        return self.file.write(content)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def fileno(self):
        return self.file.fileno()

    def seekable(self):
        return True

    def writable(self):
        return True

    def seek(self, *args):
        return self.file.seek(*args)

    def tell(self):
        return self.file.tell()

    def close(self):
        self.file.close()
        super().close()


def attempt(main, arguments, folder, at=0, number=errno.ENOSPC):
    """(what went wrong or None, operations, message)"""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), Faults(folder, at, number) as faults:
        try:
            code = main(arguments)
        except EXPECTED as error:
            text = str(error)
            named = "" if _names_a_file(text, folder) else f"names no file: {text}"
            return named or ("" if len(text) < 1000 else f"long: {text}"), faults.count, text
        except BaseException as error:
            return f"escaped: {type(error).__name__}: {error}", faults.count, str(error)
    return ("" if code in (0, 1, 130) else f"exit code {code}"), faults.count, said.getvalue() if code else ""


def _names_a_file(text, folder):
    return str(folder) in text or folder.name in text


def outcome(folder):
    """The results that must be the same in the end: the bits of checkpoints, and texts without times."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".npz":
            arrays, _ = load(path)
            found[name] = {key: (a.shape, a.tobytes()) for key, a in arrays.items()}
        elif path.suffix in (".csv", ".npy"):
            found[name] = path.read_bytes()
        elif path.suffix in (".json", ".html"):
            found[name] = len(
                [line for line in path.read_text().splitlines() if not any(word in line for word in DIFFERENT)]
            )
        elif path.name != ".lock":
            found[name] = True
    return {name: value for name, value in found.items() if "previous" not in name and not name.startswith("logs")}


def commands(place):
    """{name: (main, arguments without --out, what --out gets)}; the runs that analyses need are in `place`."""
    train(place / "crelu", "--act", "crelu")
    train(place / "relu")
    runs = ["--run", str(place / "crelu"), "--device", "cpu"]
    two = [*runs, "--run", str(place / "relu")]
    write_to = lambda arguments: export.main(["--to" if word == "--out" else word for word in arguments])
    Image.fromarray(textures(64, 24).test_images[0]).save(place / "photo.png")
    small = lambda arguments: reproduce.main(arguments, {"smoke": lambda seeds: tiny(seeds=1)})
    return {
        "cifar": (cifar.main, [*TINY, "--epochs", "2", "--resume"], "run"),
        "cifar, held out": (cifar.main, [*TINY, "--hold-out", "8", "--resume"], "run"),
        "cifar, folds": (cifar.main, [*TINY, "--protocol", "folds", "--folds", "2", "--resume"], "run"),
        "demo": (demo.main, ["--dataset", "textures", *TINY[2:8], "--device", "cpu"], "demo"),
        "pairing": (pairing.main, [*two, "--draws", "1"], "found"),
        "correlation": (correlation.main, runs, "found"),
        "invariance": (invariance.main, [*two, "--subset", "5"], "found"),
        "reconstruction": (reconstruction.main, [*runs, "--subset", "5", "--count", "1"], "found"),
        "regularisation": (regularisation.main, two, "found"),
        "predict": (predict.main, [str(place / "photo.png"), *runs], "drawn"),
        "export": (write_to, runs, "network.npz"),
        "export, onnx": (write_to, runs, "network.onnx"),
        "illustration": (illustration.main, [], "found/picture.svg"),
        "theory": (theory.main, ["--only", "crelu-inverse", "--figures"], "found"),
        "imagenet": (imagenet.main, ["--data", str(place / "pictures"), *PHOTOS], "run"),
        "reproduce": (small, ["table1", "--device", "cpu"], "all"),
    }


def check(name, main, arguments, target, place, errors, every=1):
    """Run a command whole, then with each fault and once more without: (operations, faults tried, problems)."""
    folder, problems, tried = place / "out", [], 0
    out = ["--out", str(folder / target)]

    def clean():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    clean()
    problem, operations, _ = attempt(main, [*arguments, *out], folder)
    assert not problem, problem
    expected = outcome(folder)
    for number in errors:
        for at in range(1, operations + 1, every):
            clean()
            tried += 1
            problem, _, text = attempt(main, [*arguments, *out], folder, at, number)
            where = f"{name}, operation {at} of {operations}, {errno.errorcode[number]}"
            if problem:
                problems.append(f"{where}: {problem}")
            again, _, text = attempt(main, [*arguments, *out], folder)
            if again or text:
                problems.append(f"{where}: afterwards {again or text}")
            elif (found := outcome(folder)) != expected:
                different = [n for n in {*found, *expected} if found.get(n) != expected.get(n)]
                problems.append(f"{where}: in the end other files: {different[:5]}")
    return operations, tried, problems


def main():
    p = argument_parser("tests.hardening.faults", __doc__)
    p.add_argument("--only", nargs="+", help="these commands (default all)")
    p.add_argument("--every", type=int, default=1, help="try only every N-th k (default 1: all)")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name, few_textures():
        place, failed, total = Path(name), 0, 0
        if not args.only or "imagenet" in args.only:
            write_pictures(place / "pictures", of_textures(60, 20))
        for command, (run, arguments, target) in commands(place).items():
            if args.only and command not in args.only:
                continue
            start = time.monotonic()
            operations, tried, problems = check(command, run, arguments, target, place, ERRORS, args.every)
            print(f"{command:18}{operations:5} operations, {tried:5} faults, {len(problems)} problems"
                  f"  ({time.monotonic() - start:.0f} s)", flush=True)  # fmt: skip
            print("".join(f"    {problem}\n" for problem in problems[:8]), end="", flush=True)
            failed, total = failed + len(problems), total + tried
        print(f"{total} faults, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
