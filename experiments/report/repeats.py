"""The same analysis of networks that differ in the seed alone: what it found in each, as means with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.report.context import Context, absent, plus_minus, read_rows
from experiments.reproduction.steps import Step, Training
from experiments.tables.html import Html, join, link, tag
from minicnn.analysis.statistics import Interval, holm, t_interval, t_test

Row = dict[str, str]  # of a CSV file


@dataclass(frozen=True)
class Repeats:
    """steps: one for each seed; done: those that are finished, with their folders."""

    steps: tuple[Step, ...]
    done: tuple[tuple[Step, Path], ...]

    @property
    def of(self) -> tuple[Training, ...]:
        """The trainings of the first seed; the others differ in the seed."""
        return self.steps[0].of

    def by_layer(self, name: str) -> dict[str, list[list[Row]]]:
        """The rows of a CSV file that each of them wrote: by layer, and for each seed that has it."""
        found: dict[str, list[list[Row]]] = {}
        for _, folder in self.done:
            of_seed: dict[str, list[Row]] = {}
            for row in read_rows(folder / name):
                of_seed.setdefault(row["layer"], []).append(row)
            for layer, rows in of_seed.items():
                found.setdefault(layer, []).append(rows)
        return found

    def missing(self) -> list[Html]:
        """A word about what is not finished."""
        finished = {step.name for step, _ in self.done}
        names = [step.name for step in self.steps if step.name not in finished]
        words = f"the analys{'is' if len(names) == 1 else 'es'} {', '.join(names)} {'is' if len(names) == 1 else 'are'}"
        return [absent(f"{words} not done.")] if names else []

    def links(self, context: Context) -> Html:
        """To all numbers of each seed."""
        found: list[Any] = []
        for step, folder in self.done:
            found += [", " if found else None, link(step.name, context.href(folder))]
        return join(["All numbers: ", found, "."])


def repeats(context: Context, target: str) -> list[Repeats]:
    """The analyses of a target; those of networks that differ in the seed alone together."""
    found: dict[Any, list[Step]] = {}
    for step in context.analyses(target):
        found.setdefault(tuple(training.network for training in step.of), []).append(step)
    made = []
    for steps in found.values():
        folders = ((step, context.folder(step)) for step in steps)
        made.append(Repeats(tuple(steps), tuple((step, folder) for step, folder in folders if folder is not None)))
    return made


def each(
    context: Context, target: str, title: Callable[[Repeats], str], show: Callable[[Repeats], list[Html]]
) -> list[Html]:
    """For the networks of a target a heading, and what `show` makes of those that are done."""
    found: list[Html] = []
    for networks in repeats(context, target):
        found += [tag("h3", title(networks)), *(show(networks) if networks.done else []), *networks.missing()]
    return found


def first_seed(networks: Repeats) -> str:
    """Behind the words of a picture: of which seed it is, where there are several."""
    step, _ = networks.done[0]
    return f", seed {step.of[0].settings.seed}" if len(networks.steps) > 1 else ""


def value(cell: Any) -> float:
    """A cell of a file; NaN where it holds no number."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def over(values: Iterable[float]) -> Interval | None:
    """The mean over seeds with its interval; a network without a number does not count."""
    known = [x for x in values if math.isfinite(x)]
    return t_interval(known) if known else None


def differences(column: Iterable[Iterable[float]], digits: int) -> list[Html | str]:
    """Such means with their signs, one for each layer; in bold what is not 0 by Holm's test of the whole column."""
    known = [[x for x in values if math.isfinite(x)] for values in column]
    tested = [i for i, values in enumerate(known) if len(values) > 1]
    shown = holm([t_test(known[i]) for i in tested])
    bold = {i for i, found in zip(tested, shown, strict=True) if found}
    cells = [plus_minus(over(values), digits, "+") for values in known]
    return [tag("strong", cell) if i in bold else cell for i, cell in enumerate(cells)]


BEHIND = (
    "± is half the 95 % interval of the mean over networks that differ in the seed; (1): one network, no interval. "
    "Differences in bold are shown not to be 0, allowing for the number of layers (Holm's method, 5 % for a column); "
    "others whose interval has no 0 in it are hints."
)
