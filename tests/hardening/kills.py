"""kill -9 at random moments and in the middle of writing files; resumed, a training ends in the same bits.

    python -m tests.hardening.kills --count 100

Half of the processes are killed after a random time; the others kill themselves at a random operation on the file
system, with half of a write done.  Each folder is killed up to five times, then runs to its end and is compared with a
run that was never stopped.
"""

import collections
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from experiments import cifar
from experiments.cli.app import argument_parser
from minicnn.checkpoint import TEMPORARY
from tests.hardening.faults import Faults, attempt, outcome
from tests.hardening.workshop import TINY, few_textures

TRAINING = [*TINY, "--subset", "48", "--epochs", "4", "--hold-out", "16", "--resume"]
IN_A_FOLDER = 5


class Kills(Faults):
    """The process ends itself at the chosen operation, as kill -9 would."""

    def strike(self, what):
        os.kill(os.getpid(), signal.SIGKILL)


def start(folder, at=0):
    """Train in a separate process, which kills itself at operation `at`."""
    child = os.fork()
    if child == 0:
        code = 1
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        with contextlib.suppress(BaseException), Kills(folder, at):
            code = cifar.main([*TRAINING, "--out", str(folder / "run")])
        os._exit(code)
    return child


def killed(folder, rng, operations, seconds):
    """Start and kill one process: "after a time", "while writing", or "done" where it was too late."""
    if rng.random() < 0.5:
        child, how = start(folder, rng.randint(1, operations // 2)), "while writing"  # a resumed one has less to do
    else:
        child, how = start(folder), "after a time"
        time.sleep(rng.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"a training ended with code {code}"
    return how if code else "done"


def main():
    p = argument_parser("tests.hardening.kills", __doc__)
    p.add_argument("--count", type=int, default=100, help="processes to kill (default 100)")
    p.add_argument("--seed", type=int, default=0, help="seed of the moments (default 0)")
    args = p.parse_args()
    rng, counts, wrong, folders = random.Random(args.seed), collections.Counter(), [], 0
    with tempfile.TemporaryDirectory() as name, few_textures():
        folder = Path(name) / "out"
        folder.mkdir()
        for _ in range(2):  # the first warms up
            shutil.rmtree(folder)
            folder.mkdir()
            begun = time.monotonic()
            problem, operations, _ = attempt(cifar.main, [*TRAINING, "--out", str(folder / "run")], folder)
            seconds = time.monotonic() - begun
        assert not problem, problem
        expected = outcome(folder)
        while counts.total() - counts["done"] < args.count:
            shutil.rmtree(folder)
            folder.mkdir()
            folders += 1
            for _ in range(IN_A_FOLDER):
                how = killed(folder, rng, operations, seconds)
                counts[how] += 1
                if how == "done":
                    break
            problem, _, text = attempt(cifar.main, [*TRAINING, "--out", str(folder / "run")], folder)
            litter = [path.name for path in folder.rglob(f"{TEMPORARY}*")]
            if problem or text or litter or outcome(folder) != expected:
                wrong.append(problem or text or f"{litter or 'other bits'}")
                print(f"folder {folders}: {wrong[-1]}", flush=True)
    print(f"{dict(counts)}: {folders} trainings of {operations} operations, {len(wrong)} differ from an unstopped run")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
