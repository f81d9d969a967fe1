"""What is left to do, and what it will cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.cli.app import duration, get_device
from experiments.reproduction.records import Records, epochs_done
from experiments.reproduction.steps import Step, Training
from experiments.tables.table import Table
from experiments.train.cifar import TEST_IMAGES
from experiments.train.estimate import seconds_per_image
from experiments.train.imagenet import ImagenetSettings
from minicnn.nn import describe

# What is known of a step.
DONE, IMPORTED, RESUME, NEW, UNUSABLE, BLOCKED = "done", "imported", "to go on", "to do", "unusable", "blocked"
ANALYSIS_SECONDS = {"pairing": 20, "correlation": 10, "invariance": 30, "reconstruction": 60, "theory": 40}
OVERHEAD = 5  # seconds to start a process and read the data


@dataclass(frozen=True)
class Item:
    """A step, what is known of it, and what is left of it: seconds and bytes to be written."""

    step: Step
    state: str
    note: str = ""
    seconds: float = 0.0
    bytes: int = 0

    @property
    def open(self) -> bool:
        return self.state in (NEW, RESUME)

    @property
    def closed(self) -> bool:
        """Neither done nor possible; the note says why."""
        return self.state in (UNUSABLE, BLOCKED)


class Estimator:
    """Costs of trainings on a device; a network is tried out once, whatever the number of its seeds.

    photographs    how many there are to train ImageNet's networks on
    """

    def __init__(self, device: str, photographs: int):
        self.device, self.photographs = get_device(device), photographs
        self._known: dict[object, tuple[float, int]] = {}

    def network(self, training: Training) -> tuple[float, int]:
        """(seconds for an image, parameters)"""
        key = training.network[0]
        if key not in self._known:
            s = training.settings
            side = s.crop if isinstance(s, ImagenetSettings) else 32
            summary = describe(s.build_model(), (side, side, 3))
            self._known[key] = seconds_per_image(s, summary, self.device), summary.parameters
        return self._known[key]

    def training(self, training: Training, folder: Path) -> tuple[float, int]:
        """(seconds, bytes) that are left of it."""
        each, parameters = self.network(training)
        s, networks = training.settings, training.trainings
        images = (s.subset or self.photographs) if isinstance(s, ImagenetSettings) else s.images
        left = max(0.0, 1 - epochs_done(folder) / (s.epochs * networks))
        copies = 6 if isinstance(s, ImagenetSettings) and s.recipe == "adam" else 4  # two checkpoints: weights, moments
        tested = 4 * s.classes * TEST_IMAGES.get(s.dataset, 0)
        size = networks * (4 * copies * parameters + tested + 100_000)
        return left * each * images * s.epochs * networks + OVERHEAD, size

    def step(self, step: Step, folder: Path) -> tuple[float, int]:
        if step.training is not None:
            return self.training(step.training, folder)
        return float(ANALYSIS_SECONDS.get(step.module.rpartition(".")[2], OVERHEAD)), 1_000_000


def make_plan(steps: Sequence[Step], records: Records, estimator: Estimator) -> list[Item]:
    """What is known of each step, and the cost of what is left."""
    items: list[Item] = []
    bad: set[str] = set()
    for step in steps:
        state, note = _state(step, records, bad)
        item = Item(step, state, note)
        if item.closed:
            bad.add(step.name)
        if item.open:
            seconds, size = estimator.step(step, step.folder(records.root))
            item = replace(item, seconds=seconds, bytes=size)
        items.append(item)
    return items


def _state(step: Step, records: Records, bad: set[str]) -> tuple[str, str]:
    if step.training is not None:
        record = records.training(step.training)
        if record is not None:
            own = record.folder.is_relative_to(records.root)
            return (DONE, "") if own else (IMPORTED, f"from {record.folder.parents[1]}")
        if step.name in records.problems:
            return UNUSABLE, re.sub(r"\s*\n\s*", "; ", records.problems[step.name])
    elif records.done(step):
        return DONE, ""
    if waits := [name for name in step.needs if name in bad]:
        return BLOCKED, f"needs {', '.join(waits)}"
    for training in step.of:
        record = records.training(training)
        if record is not None and not record.has_weights:
            return BLOCKED, f"needs the weights of {training.name}, which was exported without"
    if step.training is not None and (done := epochs_done(step.folder(records.root))):
        return RESUME, f"{done} of {step.training.settings.epochs * step.training.trainings} epochs done"
    return NEW, ""


def show(items: Sequence[Item], workers: int | str) -> str:
    """The plan as a table, and its cost."""
    rows = [
        [item.step.name, item.state, duration(item.seconds) if item.open else "", "" if item.closed else item.note]
        for item in items
    ]
    lines = [Table(["step", "state", "time", ""], rows).text()] if rows else []
    lines += [f"{item.state}: {item.step.name}: {item.note}" for item in items if item.closed]
    left = [item for item in items if item.open]
    size = sum(item.bytes for item in left)
    unit = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
    seconds = sum(item.seconds for item in left)
    several = f" with {workers} at a time" if isinstance(workers, int) and workers > 1 else ""
    lines.append(
        f"{len(left)} of {len(items)} steps to do, about {duration(seconds)} and {unit} of disk; from trial steps "
        f"of each network on all cores, so{several} take it as a rough guess"
    )
    return "\n\n".join(lines)
