"""Trainings of one network that differ only in the seed, and comparisons of networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.reproduction.records import Records
from experiments.reproduction.steps import Training
from experiments.train.run import Run
from minicnn.analysis.statistics import Interval, bootstrap, mcnemar, paired_difference, t_interval, verdict

Unit = tuple[int, str]  # a network: its seed, and its fold


@dataclass(frozen=True)
class Group:
    """The trainings of one network, and the runs of those that are finished."""

    trainings: tuple[Training, ...]
    finished: dict[Training, Run]

    @property
    def settings(self) -> Any:
        return self.trainings[0].settings

    @property
    def protocol(self) -> str:
        return self.trainings[0].protocol

    @property
    def label(self) -> str:
        return self.settings.label

    @property
    def unit(self) -> str:
        return "folds" if self.protocol == "folds" else "seeds"

    @property
    def family(self) -> tuple[Any, ...]:
        """Equal for networks that were trained alike and may be compared: only activation and width differ."""
        return self.settings.trained_alike, self.protocol

    @cached_property
    def networks(self) -> dict[Unit, Run]:
        return {
            (training.settings.seed, part): network
            for training, run in self.finished.items()
            for part, network in zip(training.parts, run.networks, strict=True)
        }

    def interval(self, name: str, *, minus: str | None = None) -> Interval | None:
        """The interval over seeds and folds of a number in result.json, or of that number minus another (`minus`)."""
        results = [network.result for network in self.networks.values()]
        values = [float(result[name]) - (float(result[minus]) if minus else 0.0) for result in results]
        return t_interval(values) if values else None


def groups(trainings: Iterable[Training], records: Records) -> list[Group]:
    """Groups, in the order of the trainings."""
    found: dict[Training, list[Training]] = {}
    for training in trainings:
        found.setdefault(training.network, []).append(training)
    return [
        Group(tuple(of_one), {one: run for one in of_one if (run := records.run(one)) is not None})
        for of_one in found.values()
    ]


def families(of: Iterable[Group]) -> list[list[Group]]:
    """Groups that may be compared, together."""
    found: dict[tuple[Any, ...], list[Group]] = {}
    for group in of:
        found.setdefault(group.family, []).append(group)
    return list(found.values())


@dataclass(frozen=True)
class Comparison:
    """The test error of one network minus that of another: over seeds, and over test images where predictions exist."""

    one: Group
    other: Group
    seeds: Interval
    images: Interval | None
    p: float | None  # of McNemar's test, for one pair of networks

    @property
    def verdict(self) -> str:
        """In words, with a claim only where the interval over seeds allows one."""
        return verdict(self.one.label, self.other.label, self.seeds, f"paired {self.one.unit}")


def compare(one: Group, other: Group) -> Comparison | None:
    """By the seeds and folds that both have; None if they share none."""
    units = [unit for unit in one.networks if unit in other.networks]
    if not units:
        return None
    errors, others = ([float(g.networks[unit].result["test_error"]) for unit in units] for g in (one, other))
    found = [group.networks[unit].predictions() for group in (one, other) for unit in units]
    wrong = [predicted != right for predicted, right in (both for both in found if both is not None)]
    images = p = None
    if len(wrong) == len(found) and len({w.shape for w in wrong}) == 1:
        a, b = np.array(wrong[: len(units)]), np.array(wrong[len(units) :])
        images = bootstrap(a, b)
        p = mcnemar(a[0], b[0]) if len(units) == 1 else None
    return Comparison(one, other, paired_difference(errors, others), images, p)
