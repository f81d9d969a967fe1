"""Trainings of one network that differ only in the seed, and comparisons of networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.reproduction.records import Records
from experiments.reproduction.steps import Training
from experiments.train.run import Run
from minicnn.analysis.statistics import Interval, bootstrap, mcnemar, t_interval, verdict

Unit = tuple[int, str]  # a network: its seed, and its fold


# What is measured on a network; errors in percent, without augmentation and dropout.


def train_error(network: Run) -> float:
    return float(network.result["train_error"])


def test_error(network: Run) -> float:
    return float(network.result["test_error"])


def gap(network: Run) -> float:
    return test_error(network) - train_error(network)


def minutes(network: Run) -> float:
    return network.seconds / 60


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

    def interval(self, measure: Callable[[Run], float]) -> Interval | None:
        """What is measured on each network, over seeds and folds."""
        values = [measure(network) for network in self.networks.values()]
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
        """In words, with a claim only where the interval over seeds allows one; folds share images, and allow none."""
        if self.one.unit == "folds":
            here = f"{self.one.label} minus {self.other.label}: {self.seeds.mean:+.2f} points over {self.seeds.n} folds"
            return f"No claim from folds, which share most of their images ({here})."
        return verdict(self.one.label, self.other.label, self.seeds, "paired seeds")


def shared(one: Group, other: Group) -> list[Unit]:
    """The seeds and folds that both have."""
    return [unit for unit in one.networks if unit in other.networks]


def planned_pairs(one: Group, other: Group) -> int:
    """How many networks of both will share their seed, and their fold, once all are trained."""
    seeds = {training.settings.seed for training in one.trainings} & {t.settings.seed for t in other.trainings}
    return len(seeds) * len(one.trainings[0].parts)


def differences(one: Group, other: Group, measure: Callable[[Run], float]) -> list[float]:
    """What is measured on each network of one group, minus the same for its partner in the other."""
    return [measure(one.networks[unit]) - measure(other.networks[unit]) for unit in shared(one, other)]


def compare(one: Group, other: Group) -> Comparison | None:
    """By the seeds and folds that both have; None if they share none."""
    units = shared(one, other)
    if not units:
        return None
    found = [group.networks[unit].predictions() for group in (one, other) for unit in units]
    wrong = [predicted != right for predicted, right in (both for both in found if both is not None)]
    images = p = None
    if len(wrong) == len(found) and len({w.shape for w in wrong}) == 1:
        a, b = np.array(wrong[: len(units)]), np.array(wrong[len(units) :])
        images = bootstrap(a, b)
        p = mcnemar(a[0], b[0]) if len(units) == 1 else None
    return Comparison(one, other, t_interval(differences(one, other, test_error)), images, p)
