"""Training and test errors of runs, and the gaps between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from experiments.analyses.runner import Columns, Finding, PlusMinus, Request, not_comparable, table
from experiments.cli.app import UsageError, counted
from experiments.figures.analyses import draw_gaps
from experiments.tables.table import Column, Table
from experiments.train.run import Run
from minicnn.analysis.statistics import Interval, t_interval
from minicnn.data.catalogue import CATALOGUE
from reference.paper import cifar_result


class Row(NamedTuple):
    """One run: errors in percent, the gap in points; and the paper's, where Table 1 has this network."""

    run: str
    network: str
    seed: int
    train_error: float
    test_error: float
    gap: float
    test_standard_error: float
    paper_train_error: float | None
    paper_test_error: float | None
    paper_gap: float | None

    @property
    def gap_and_error(self) -> PlusMinus:
        return PlusMinus(self.gap, self.test_standard_error)


class Means(NamedTuple):
    """Runs that differ only in the seed or the fold: means with their 95 % intervals."""

    label: str
    train_error: Interval
    test_error: Interval
    gap: Interval


COLUMNS: Columns = {
    "network": "network",
    "run": "run",
    Column("train error %", ".2f"): "train_error",
    Column("test error %", ".2f"): "test_error",
    Column("gap", "+.2f"): "gap_and_error",
    Column("paper's gap", "+.2f"): "paper_gap",
}
MEANS: Columns = {
    "network": "label",
    Column("train error %", ".2f"): "train_error",
    Column("test error %", ".2f"): "test_error",
    Column("gap", ".2f"): "gap",
}
EXPLAINED = """Gap: test error - training error, in points; ± is the standard error of the test error.
A seed is one draw of the network too: a difference between single runs is no evidence."""


def findings(request: Request) -> Iterator[Finding]:
    if any(run.settings.PHOTOGRAPHS for run in request.runs):
        raise UsageError("ImageNet runs have no training error without augmentation; this needs runs of CIFAR")
    rows = [measured(run) for run in request.runs]
    text: list[str | Table] = [table(rows, COLUMNS), EXPLAINED, not_comparable(request.runs)]
    repeated, drawn = [], {}
    for label, same in by_network(request.runs, rows).items():
        train, test, gaps = ([getattr(row, name) for row in same] for name in ("train_error", "test_error", "gap"))
        means = Means(label.replace("\n", ", "), *map(t_interval, (train, test, gaps)))
        drawn[label] = train, test, f"{PlusMinus(means.gap.mean, means.gap.half):+.2f}"
        if len(same) > 1:
            repeated.append(means)
    if repeated:
        text.append(table(repeated, MEANS, "Means over seeds and folds; ± is half a 95 % interval over networks:"))
    yield Finding(text, {"gaps.csv": rows, "gaps.png": partial(draw_gaps, networks=drawn)})


def measured(run: Run) -> Row:
    settings, (train, test) = run.settings, (float(run.result[f"{which}_error"]) for which in ("train", "test"))
    error = math.sqrt(test * (100 - test) / CATALOGUE[settings.dataset].test)
    paper = None if settings.model == "vgg" else cifar_result(settings.act, settings.width, settings.dataset)
    papers = (paper.train, paper.single, round(paper.single - paper.train, 2)) if paper else (None, None, None)
    return Row(run.name, run.label, settings.seed, train, test, test - train, error, *papers)


def by_network(runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows that differ only in the seed or the fold together, under a label of their own."""
    found: dict[Any, list[Row]] = {}
    for run, row in zip(runs, rows, strict=True):
        found.setdefault(replace(run.settings, seed=0), []).append(row)
    named: dict[str, list[Row]] = {}
    for settings, same in found.items():
        count = counted(len(same), "network")
        label = f"{settings.label}\n{settings.dataset}, {counted(settings.epochs, 'epoch')}, {count}"
        if label in named:  # they differ in a setting that the label does not show
            label += f": {same[0].run}"
        named[label] = same
    return named
