"""One analysis of networks that differ only in the seed: its results as means with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.figures.charts import Bar
from experiments.report.context import Context, Parts, absent, read_rows, value
from experiments.reproduction.steps import Analysis, Training
from experiments.tables.html import note, tag
from experiments.tables.table import Bold, Links
from minicnn.analysis.statistics import Interval, holm, t_interval, t_test

Row = dict[str, str]  # of a CSV file


@dataclass(frozen=True)
class Repeats:
    """steps: one per seed; done: the folders of those that are finished."""

    steps: tuple[Analysis, ...]
    done: dict[Analysis, Path]

    @property
    def of(self) -> tuple[Training, ...]:
        """The trainings of the first seed; the others differ in the seed."""
        return self.steps[0].of

    @property
    def first(self) -> tuple[Analysis, Path]:
        """The analysis whose pictures are shown."""
        return next(iter(self.done.items()))

    @property
    def seed(self) -> str:
        """The end of a caption: the seed of a picture, where there are several."""
        step, _ = self.first
        return f", seed {step.of[0].settings.seed}" if len(self.steps) > 1 else ""

    def by_layer(self, name: str) -> dict[str, list[list[Row]]]:
        """The rows of a CSV file that each analysis wrote, by layer: one list per seed, empty if it lacks the layer."""
        found: dict[str, list[list[Row]]] = {}
        for i, folder in enumerate(self.done.values()):
            for row in read_rows(folder / name):
                found.setdefault(row["layer"], [[] for _ in self.done])[i].append(row)
        return found

    def columns(self, name: str, *heads: str) -> tuple[dict[str, Row], list[list[list[float]]]]:
        """A CSV file with one line per layer: a line of each layer, and numbers by column, layer and seed."""
        layers = self.by_layer(name)
        numbers = [
            [[_number(rows[0][head]) if rows else math.nan for rows in seeds] for seeds in layers.values()]
            for head in heads
        ]
        return {layer: next(rows[0] for rows in seeds if rows) for layer, seeds in layers.items()}, numbers

    def links(self, context: Context) -> Parts:
        """To all numbers of each seed; an archive has no folders to link to."""
        links = [(_name(step), context.address(at)) for step, at in self.done.items()]
        return [note("All numbers: ", Links(links).html())] if any(address for _, address in links) else []

    def missing(self) -> Parts:
        """A note about what is not finished."""
        names = [_name(step) for step in self.steps if step not in self.done]
        return [absent(f"not analysed: {', '.join(names)}.")] if names else []


def _name(step: Analysis) -> str:
    """Which of several analyses it is; one of other people's filters has no seed."""
    return f"seed {step.of[0].settings.seed}" if step.of else "these filters"


def repeats(context: Context, target: str) -> list[Repeats]:
    """The analyses of a target, grouped by networks that differ only in the seed."""
    found: dict[Any, list[Analysis]] = {}
    for step in context.analyses(target):
        found.setdefault(tuple(training.network for training in step.of), []).append(step)
    made = []
    for steps in found.values():
        folders = {step: context.records.analysis(step) for step in steps}
        made.append(Repeats(tuple(steps), {step: folder for step, folder in folders.items() if folder is not None}))
    return made


def each(context: Context, target: str, title: Callable[[Repeats], str], show: Callable[[Repeats], Parts]) -> Parts:
    """Per network of a target: a heading, what `show` makes of the finished analyses, and a note on the others."""
    found: Parts = []
    for networks in repeats(context, target):
        made = [*show(networks), *networks.links(context)] if networks.done else []
        found += [tag("h3", title(networks)), *made, *networks.missing()]
    return found


def _number(cell: Any) -> float:
    found = value(cell)
    return math.nan if found is None else found


def over(values: Iterable[float | None]) -> Interval | None:
    """The mean over seeds with its interval; a network without a number does not count."""
    known = [x for x in values if x is not None and math.isfinite(x)]
    return t_interval(known) if known else None


def bars(layers: Iterable[str], column: Iterable[Iterable[float | None]]) -> list[Bar]:
    """The means of a column with their intervals, for a chart; a layer without a number is left out."""
    found = zip(layers, map(over, column), strict=True)
    return [Bar(layer, one.mean, one.low, one.high) for layer, one in found if one is not None]


def minus(column: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> list[list[float]]:
    """The differences of two columns, seed by seed."""
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(column, other, strict=True)]


def signs(column: Iterable[Iterable[float]], null: float = 0.0) -> list[int]:
    """One per layer: 1 or -1 where Holm's test of the column shows that its mean is above or below `null`, else 0."""
    known = [[x - null for x in values if math.isfinite(x)] for values in column]
    several = [i for i, values in enumerate(known) if len(values) > 1]
    shown = holm([t_test(known[i]) for i in several])
    found = {i for i, one in zip(several, shown, strict=True) if one}
    return [0 if i not in found else 1 if sum(values) > 0 else -1 for i, values in enumerate(known)]


def tested(column: Iterable[Iterable[float]]) -> list[Any]:
    """The mean differences, one per layer; bold where Holm's test of the whole column shows that they are not 0."""
    known = [[x for x in values if math.isfinite(x)] for values in column]
    return [Bold(over(values)) if sign else over(values) for values, sign in zip(known, signs(known), strict=True)]


BEHIND = (
    "± is half the 95 % interval of the mean over networks that differ in the seed; (1): one network, no interval. "
    "Differences in bold differ significantly from 0, allowing for the number of layers (Holm's method, 5 % per "
    "column); others whose interval does not contain 0 are hints."
)
