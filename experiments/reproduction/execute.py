"""Run the steps of a plan, one after the other or several at a time.

Each step runs in its own process, started by a thread of a pool: a step that crashes, or is killed for lack of memory,
takes nothing else down; its memory is freed when it ends; and what runs is the very command that the summary shows.
With a pool of ranks (docs/cluster.md), the process starts there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures import Executor as Pool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from experiments.cli.app import duration
from experiments.cli.environment import own_program
from experiments.cli.files import write_json
from experiments.cli.ranks import run_program
from experiments.reproduction.commands import Resources
from experiments.reproduction.plan import BLOCKED, DONE, FAILED, INTERRUPTED, NOT_STARTED, Status
from experiments.reproduction.records import Records
from experiments.reproduction.steps import LOGS, STAMP, Step, Training

CHILD, PLACE = own_program("experiments.reproduction.child")
SAVED = 130  # exit code of a training that was stopped
POLL = 0.2  # seconds


@dataclass
class Executor:
    """Runs steps; `stop()` says whether the user wants to stop; running steps are then interrupted."""

    records: Records
    resources: Resources
    workers: int
    stop: Callable[[], bool]
    pool: Pool | None = None  # `workers` ranks that do the work; None: this machine does it
    _outcomes: dict[str, Status] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _shown: dict[str, int] = field(default_factory=dict)  # by step: how many bytes of its log were shown

    def run(self, steps: Sequence[Step], blocked: Sequence[str] = ()) -> list[Status]:
        """Do each step after those that it needs; `blocked` names steps that cannot be done."""
        (self.records.root / LOGS).mkdir(parents=True, exist_ok=True)
        left, busy = list(steps), dict[Future[Status], Step]()
        unfinished, bad, stopping = {step.name for step in steps}, set(blocked), False
        slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(self.workers):
            slots.put(slot)
        with ThreadPoolExecutor(self.workers) as pool, self._killing():
            while left or busy:
                if self.stop() and not stopping:
                    stopping, left = True, self._give_up(left)
                    self._signal(signal.SIGINT)
                left = self._without_blocked(left, bad)
                ready = [step for step in left if not unfinished.intersection(step.needs)]
                for step in ready[: self.workers - len(busy)]:
                    left.remove(step)
                    number = f"[{len(steps) - len(left)}/{len(steps)}]"
                    busy[pool.submit(self._do, step, slots, number)] = step
                done, _ = wait(busy, POLL, FIRST_COMPLETED)
                for step in busy.values():
                    self._show_log(step)
                for future in done:
                    step, outcome = busy.pop(future), future.result()
                    unfinished.discard(step.name)
                    if outcome.state != DONE:
                        bad.add(step.name)
                    self._note(outcome)
        return list(self._outcomes.values())

    def _without_blocked(self, left: Sequence[Step], bad: set[str]) -> list[Step]:
        """The steps that may still be done; those that need a bad one become bad themselves."""
        remaining = []
        for step in left:
            if waits := [name for name in step.needs if name in bad]:
                bad.add(step.name)
                self._note(Status(step, NOT_STARTED, f"needs {', '.join(waits)}"))
            else:
                remaining.append(step)
        return remaining

    def _give_up(self, left: Sequence[Step]) -> list[Step]:
        for step in left:
            self._outcomes[step.name] = Status(step, NOT_STARTED, "interrupted before it began")
        return []

    @contextmanager
    def _killing(self) -> Iterator[None]:
        """A second Ctrl-C, or an error here, leaves nothing running."""
        try:
            yield
        except BaseException:
            self._signal(signal.SIGKILL)
            raise

    def _note(self, outcome: Status) -> None:
        self._outcomes[outcome.step.name] = outcome
        why = f": {outcome.why}" if outcome.why else ""
        took = f", {duration(outcome.seconds)}" if outcome.seconds else ""
        print(f"{outcome.state}  {outcome.step.name}{took}{why}", file=sys.stderr, flush=True)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to every running step; SIGINT asks it to save and stop."""
        for process in list(self._running.values()):
            if process.poll() is None:
                process.send_signal(number)

    def _do(self, step: Step, slots: SimpleQueue[int], number: str) -> Status:
        """In a thread: run one step in a process, to its end."""
        slot, start = slots.get(), time.monotonic()
        try:
            print(f"{number}  {step.name}", file=sys.stderr, flush=True)
            code, why = self._process(step, slot)
            how, why = self._finished(step) if code == 0 else (FAILED, why)
        except OSError as error:  # no space for the log or the stamp, no memory for a process
            code, how, why = 1, FAILED, str(error)
        finally:
            slots.put(slot)
        if code != 0 and self.stop():
            how, why = INTERRUPTED, "saved" if isinstance(step, Training) and code == SAVED else ""
        return Status(step, how, why, time.monotonic() - start)

    def _log(self, step: Step, kind: str) -> Path:
        return self.records.root / LOGS / f"{step.name}.{kind}"

    def _process(self, step: Step, slot: int) -> tuple[int, str]:
        """(exit code, the last line of its log)"""
        out, err = self._log(step, "out"), self._log(step, "err")
        err.unlink(missing_ok=True)  # so that the log of an earlier attempt is not shown again
        command = [*CHILD, step.module, *self.resources.arguments(step, self.records, slot)]
        if self.pool is None:
            code = self._here(step, command, out, err)
        else:  # the launcher's signals reach the ranks by themselves
            code = self.pool.submit(run_program, command, self.resources.settings() | PLACE, out, err).result()
        said = [line for line in err.read_text(errors="replace").splitlines() if line.strip()]
        why = said[-1] if said else "it printed nothing"
        return code, f"ended by signal {-code}" if code < 0 else why.removeprefix("error: ")

    def _here(self, step: Step, command: Sequence[str], out: Path, err: Path) -> int:
        """The exit code of a process on this machine."""
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # closed when we are gone: see child.py
                stdout=stdout,
                stderr=stderr,
                env=self.resources.environment() | PLACE,
                start_new_session=True,  # Ctrl-C comes to us, and we pass it on
            )
            self._running[step.name] = process
            if self.stop():  # the user asked while the process started
                process.send_signal(signal.SIGINT)
            code = process.wait()
        del self._running[step.name]
        assert process.stdin is not None
        process.stdin.close()
        return code

    def _finished(self, step: Step) -> tuple[str, str]:
        """("done" or "failed", why): check that the result exists; record what an analysis was made from."""
        if isinstance(step, Training):
            run = self.records.run(step)
            if run is None:
                return FAILED, self.records.problems.get(step.name, "it ended without a result")
            return DONE, f"test error {run.test_error:.2f} %"
        if step.makes:
            write_json(step.folder(self.records.root) / STAMP, self.records.stamp(step))
        return DONE, ""

    def _show_log(self, step: Step) -> None:
        """Print the complete lines that a step has logged since the last call."""
        try:
            with open(self._log(step, "err"), "rb") as file:
                file.seek(self._shown.get(step.name, 0))
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._shown[step.name] = self._shown.get(step.name, 0) + len(whole)
        for line in whole.decode(errors="replace").splitlines():
            print(f"  {step.name}: {line}", file=sys.stderr, flush=True)


def summary(plan: Sequence[Status], outcomes: Sequence[Status], records: Records, resources: Resources) -> str:
    """What was done, and why each other step was not; failed steps with their commands."""
    states = [outcome.state for outcome in outcomes]
    counts = ", ".join(f"{states.count(word)} {word}" for word in dict.fromkeys(states))
    counts = counts or ("nothing was left to do" if plan else "nothing was run")
    seconds = sum(outcome.seconds for outcome in outcomes)
    lines = [f"\n{counts}" + (f"; {duration(seconds)} of work" if seconds else "")]
    for outcome in outcomes:
        if outcome.state == FAILED:
            lines.append(f"FAILED {outcome.step.name}: {outcome.why}\n  {resources.command(outcome.step, records)}")
        elif outcome.state == NOT_STARTED and outcome.why.startswith("needs"):
            lines.append(f"NOT DONE {outcome.step.name}: {outcome.why}")
    lines += [f"BLOCKED {status.step.name}: {status.why}" for status in plan if status.state == BLOCKED]
    lines += [f"UNUSABLE {name}: {why}" for name, why in records.problems.items()]
    return "\n".join(lines)
