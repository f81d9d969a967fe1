"""Cosines of the outgoing weights of CReLU layers, run by run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from experiments.analyses.runner import Columns, Finding, PlusMinus, Request, not_comparable, table
from experiments.cli.app import UsageError
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_correlations
from experiments.tables.table import Column
from minicnn.analysis.correlation import Correlation, outgoing_correlation, random_absolute_cosine
from minicnn.analysis.layers import outgoing_weights
from reference.paper import TABLE_6

PAPER = {row.label: f"{row.pair:.3f} / {row.non_pair:.3f}" for row in TABLE_6}


class Row(NamedTuple):
    """One layer of one run: means over filters, some with their standard deviation."""

    run: str
    layer: str
    filters: int
    dimensions: int
    pair_absolute: PlusMinus
    non_pair_absolute: PlusMinus
    random_absolute: float
    pair_signed: PlusMinus
    pair_positive_share: float | None
    non_pair_signed: float | None

    @property
    def paper(self) -> str | None:
        return PAPER.get(self.layer)


COLUMNS: Columns = {
    "layer": "layer",
    "d": "dimensions",
    Column("|pair|", ".3f"): "pair_absolute",
    Column("|non-pair|", ".3f"): "non_pair_absolute",
    Column("random", ".3f"): "random_absolute",
    Column("pair, signed", "+.3f"): "pair_signed",
    Column("non-pair, signed", "+.3f"): "non_pair_signed",
    "paper |pair| / |non-pair|": "paper",
}
BEHIND = "± is the standard deviation over filters.  The paper's numbers are of CReLU (conv1-7) on ImageNet."


def findings(request: Request) -> Iterator[Finding]:
    tables, rows, cosines, drawn = [], [], [], {}
    with Progress(len(request.runs), "outgoing weights", "network") as progress:
        for run in request.runs:
            weights = outgoing_weights(run.model(request.device))
            if not weights:
                raise UsageError(f"{run.folder} is a network without CReLU ({run.label}); choose one with CReLU")
            found = {layer: outgoing_correlation(*of_layer) for layer, of_layer in weights.items()}
            of_run = [measured(run.name, layer, c) for layer, c in found.items()]
            title = f"{run.label}, {run.name}"
            tables.append(table(of_run, COLUMNS, title))
            rows += of_run
            cosines += [{"run": run.name, "layer": k, "pair": float(x)} for k, c in found.items() for x in c.pair]
            drawn[title if len(request.runs) > 1 else run.label] = found
            progress()
    draw = partial(draw_correlations, runs=drawn)
    files = {"correlation.csv": rows, "cosines.csv": cosines, "correlation.png": draw}
    yield Finding([*tables, BEHIND, not_comparable(request.runs)], files)


def measured(run: str, layer: str, c: Correlation) -> Row:
    absolute = (_over(np.abs(c.pair)), _over(np.abs(c.non_pair)), random_absolute_cosine(c.dimensions))
    signed = (_over(c.pair), _over(c.pair > 0).value, _over(c.non_pair).value)
    return Row(run, layer, len(c.pair), c.dimensions, *absolute, *signed)


def _over(filters: np.ndarray) -> PlusMinus:
    return PlusMinus(float(filters.mean()), float(filters.std())) if filters.size else PlusMinus(None, None)
