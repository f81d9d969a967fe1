"""What is left to do, and what it will cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.cli.app import counted, duration, get_device
from experiments.reproduction.records import Records, epochs_done
from experiments.reproduction.steps import Step, Training
from experiments.tables.table import Table
from experiments.train.estimate import seconds_per_image
from minicnn.data.catalogue import CATALOGUE
from minicnn.nn import describe

# How a step stands: before it is done, and after.
IMPORTED, RESUME, NEW, UNUSABLE, BLOCKED = "imported", "to resume", "to do", "unusable", "blocked"
DONE, FAILED, INTERRUPTED, NOT_STARTED = "done", "failed", "interrupted", "not started"
ANALYSIS_SECONDS = {"pairing": 20, "correlation": 10, "invariance": 30, "reconstruction": 60, "theory": 40}
OVERHEAD = 5  # seconds to start a process and read the data


@dataclass(frozen=True)
class Status:
    """A step and how it stands; seconds and bytes that it will take, or seconds that it took."""

    step: Step
    state: str
    why: str = ""
    seconds: float = 0.0
    bytes: int = 0

    @property
    def open(self) -> bool:
        return self.state in (NEW, RESUME)

    @property
    def closed(self) -> bool:
        """Neither done nor possible."""
        return self.state in (UNUSABLE, BLOCKED)


class Estimator:
    """Costs of trainings on a device; each network is tried out once, however many seeds it has.

    photographs    how many there are to train ImageNet's networks on
    """

    def __init__(self, device: str, photographs: int):
        self.device, self.photographs = get_device(device), photographs
        self._known: dict[Training, tuple[float, int]] = {}

    def network(self, training: Training) -> tuple[float, int]:
        """(seconds per image, parameters)"""
        key = replace(training.network, protocol="plain")
        if key not in self._known:
            s = training.settings
            summary = describe(s.build_model(), s.input)
            self._known[key] = seconds_per_image(s, summary, self.device), summary.parameters
        return self._known[key]

    def training(self, training: Training, folder: Path) -> tuple[float, int]:
        """(seconds, bytes) that it still needs."""
        each, parameters = self.network(training)
        s, networks = training.settings, training.trainings
        photos = s.PHOTOGRAPHS
        images = (s.subset or self.photographs) if photos else s.images
        left = max(0.0, 1 - epochs_done(folder) / (s.epochs * networks))
        copies = 6 if photos and s.recipe == "adam" else 4  # two checkpoints: weights, moments
        tested = 0 if photos else 4 * s.classes * CATALOGUE[s.dataset].test
        size = networks * (4 * copies * parameters + tested + 100_000)
        return left * each * images * s.epochs * networks + OVERHEAD, size

    def step(self, step: Step, folder: Path) -> tuple[float, int]:
        if isinstance(step, Training):
            return self.training(step, folder)
        return float(ANALYSIS_SECONDS.get(step.module.rpartition(".")[2], OVERHEAD)), 1_000_000


def make_plan(steps: Sequence[Step], records: Records, estimator: Estimator) -> list[Status]:
    """How each step stands, and the cost of what is left."""
    plan: list[Status] = []
    for step in steps:
        closed = {status.step.name for status in plan if status.closed}
        status = Status(step, *_state(step, records, closed))
        if status.open:
            seconds, size = estimator.step(step, step.folder(records.root))
            status = replace(status, seconds=seconds, bytes=size)
        plan.append(status)
    return plan


def _state(step: Step, records: Records, closed: set[str]) -> tuple[str, str]:
    if isinstance(step, Training) and (run := records.run(step)) is not None:
        source = records.source(run.folder)
        return (DONE, "") if source is None else (IMPORTED, f"from {source}")
    if records.done(step):
        return DONE, ""
    if step.name in records.problems:
        return UNUSABLE, re.sub(r"\s*\n\s*", "; ", records.problems[step.name])
    if waits := [name for name in step.needs if name in closed]:
        return BLOCKED, f"needs {', '.join(waits)}"
    if isinstance(step, Training):
        done = epochs_done(step.folder(records.root))
        return (
            (RESUME, f"{done} of {counted(step.settings.epochs * step.trainings, 'epoch')} done") if done else (NEW, "")
        )
    for training in step.of:
        run = records.run(training)
        if run is not None and not run.has_weights:
            return BLOCKED, f"needs the weights of {training.name}, which was exported without them"
    return NEW, ""


def without_training(plan: Sequence[Status]) -> list[Status]:
    """What can be done with the networks trained so far."""
    left_out = {status.step.name for status in plan if status.open and isinstance(status.step, Training)}
    return [status for status in plan if not left_out.intersection((status.step.name, *status.step.needs))]


def show(plan: Sequence[Status], workers: int | str) -> str:
    """The plan as a table, and its cost."""
    rows = [[s.step.name, s.state, duration(s.seconds) if s.open else "", "" if s.closed else s.why] for s in plan]
    lines = [Table(["step", "state", "time", ""], rows).text()] if rows else []
    lines += [f"{status.state}: {status.step.name}: {status.why}" for status in plan if status.closed]
    left = [status for status in plan if status.open]
    size = sum(status.bytes for status in left)
    unit = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
    seconds = sum(status.seconds for status in left)
    several = f" with {workers} at a time" if isinstance(workers, int) and workers > 1 else ""
    lines.append(
        f"{len(left)} of {len(plan)} steps to do, about {duration(seconds)} and {unit} of disk; estimated from trial "
        f"steps of each network on all cores, so{several} it is a rough guess"
    )
    return "\n\n".join(lines)
