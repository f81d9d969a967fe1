"""Try everything on a GPU, and write one text to paste into an issue.

    python -m experiments.gpu_check                         about half an hour
    python -m experiments.gpu_check --epochs 1 --out runs/gpu-check.txt
    python -m experiments.gpu_check --speed                 images per second, and nothing else

The text has what `python -m minicnn` says of the machine, the tests for a GPU (if pytest is installed), how many images
per second each network trains on, beside PyTorch where that is installed, and a short training of the paper's main
pair.
A step that fails is in the text as well, and the next is tried.  `make gpu-check` installs what is needed, and runs it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.benchmarks.gpu import images_per_second
from experiments.cli.app import argument_parser, run_main
from experiments.cli.environment import ROOT, commit
from minicnn import __version__, device
from minicnn.backend import gpu_problem

MODULE = "experiments.gpu_check"
LAST_LINES = 60  # of what a step printed
PAIR = {"relu": "base", "crelu": "half"}  # the paper's main pair: activation, width


@dataclass(frozen=True)
class Step:
    """A program to try: its arguments, for this Python."""

    title: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    step: Step
    code: int
    seconds: float
    output: str

    @property
    def verdict(self) -> str:
        return "passed" if self.code == 0 else f"FAILED (exit code {self.code})"


MACHINE = Step("The machine", ("-m", "minicnn"))


def steps(epochs: int, folder: Path) -> list[Step]:
    """What is tried on a GPU; trainings leave their results in a folder."""
    trainings = [
        Step(
            f"Training: {act}, {width}, epochs: {epochs}",
            ("-m", "experiments.cifar", "--act", act, "--width", width, "--epochs", str(epochs), "--device", "gpu",
             "--out", str(folder / act)),
        )
        for act, width in PAIR.items()
    ]  # fmt: skip
    return [
        Step("The tests for a GPU", ("-m", "pytest", "-q", "-m", "gpu")),
        Step("Images per second", ("-m", MODULE, "--speed")),
        *trainings,
    ]


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--epochs", type=int, default=3, help="of each training (default 3)")
    p.add_argument("--out", type=Path, default=Path("runs/gpu-check.txt"), help="the text (default runs/gpu-check.txt)")
    p.add_argument("--speed", action="store_true", help="print images per second, and nothing else")
    p.add_argument("--dry-run", action="store_true", help="say what would be tried, and stop")
    args = p.parse_args(arguments)
    if args.dry_run:
        planned = (MACHINE, *steps(args.epochs, Path("temporary")))
        print("\n".join(f"{step.title}: python {' '.join(step.arguments)}" for step in planned))
        return 0
    problem = gpu_problem()
    if args.speed:
        print(problem or speed())
        return 0 if problem is None else 1
    with TemporaryDirectory() as folder:
        outcomes = [tried(step) for step in (MACHINE, *([] if problem else steps(args.epochs, Path(folder))))]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(text(problem, outcomes))
    if problem:
        print(f"There is no GPU that minicnn can use: {problem}\nWhat was found is in {args.out}.")
    else:
        print(f"Please open an issue, and paste {args.out} into it, whatever it says.")
    return 0 if problem is None and all(outcome.code == 0 for outcome in outcomes) else 1


def speed() -> str:
    """The table of images per second."""
    lines = []
    for name, batch, rates in images_per_second(device("gpu")):
        found = "".join(f"   {column} {rate:9,.0f}" for column, rate in rates.items())
        lines.append(f"{name:16} batch {batch:4}{found}")
    return "\n".join(["training, images per second, float32", *lines])


def tried(step: Step) -> Outcome:
    """Run a step to its end, whatever becomes of it."""
    print(f"{step.title} ...", flush=True)
    start = time.perf_counter()
    command = [sys.executable, *step.arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    outcome = Outcome(step, done.returncode, time.perf_counter() - start, shortened(done.stdout))
    print(f"  {outcome.verdict}, {outcome.seconds:.0f} s", flush=True)
    return outcome


def shortened(output: str) -> str:
    """The last lines; of a progress bar its last state; and no name of a home folder."""
    lines = [line.rstrip().rpartition("\r")[2] for line in output.replace("\r\n", "\n").split("\n")]
    kept = "\n".join(lines[-LAST_LINES:]).strip("\n")
    return kept.replace(str(Path.home()), "~")


def text(problem: str | None, outcomes: list[Outcome]) -> str:
    """Markdown: a table of what came of the steps, then what each said."""
    lines = [f"minicnn {__version__}, commit {commit(ROOT)}", ""]
    if problem:
        lines += [f"There is no GPU that minicnn can use: {problem}", ""]
    lines += ["| step | result | seconds |", "| --- | --- | --- |"]
    lines += [f"| {o.step.title} | {o.verdict} | {o.seconds:.0f} |" for o in outcomes]
    for outcome in outcomes:
        command = f"$ python {' '.join(outcome.step.arguments)}"
        lines += ["", f"### {outcome.step.title}", "", "```", command, outcome.output, "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_main(main, MODULE)
