"""Pairs of opposite filters in the convolutions of runs and of files with weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.runner import Columns, Finding, Request, table
from experiments.analyses.weights import read_filters
from experiments.cli.app import UsageError
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_pairing_histograms
from experiments.figures.sheets import draw_pairs
from experiments.tables.table import Column
from minicnn.analysis.layers import convolutions
from minicnn.analysis.pairing import (
    QUANTILES,
    Comparison,
    Pairing,
    compare,
    cosine_of_halves,
    cosine_with,
    effective_dimensions,
    expected_mu,
    pairing,
    random_mu,
    repeats_itself,
)
from minicnn.backend import to_host
from minicnn.nn import Sequential
from minicnn.random import Stream

RANDOM, OPPOSITES, PATTERNS = "random", "opposites", "patterns"


class Source(NamedTuple):
    """Filters (kh, kw, C, K) by layer; for a run, also as they were before training.

    patterns    layers that started as patterns of the training images, perhaps with both signs, and not at random
    """

    label: str
    name: str
    layers: dict[str, np.ndarray]
    start: Mapping[str, np.ndarray] = {}
    patterns: tuple[str, ...] = ()

    def start_of(self, name: str) -> str:
        """How a layer started: RANDOM; OPPOSITES (init.looks_linear); or PATTERNS."""
        if name in self.patterns:
            return PATTERNS
        return OPPOSITES if name in self.start and repeats_itself(self.start[name]) else RANDOM

    def left_of_opposites(self, name: str) -> float | None:
        """The negative correlation that is left of a start as OPPOSITES; a positive one was learned, and leaves 0."""
        return min(0.0, cosine_of_halves(self.layers[name])) if self.start_of(name) == OPPOSITES else None


class Layer(NamedTuple):
    """What is measured on one layer."""

    name: str
    filters: np.ndarray
    pairs: Pairing
    null: np.ndarray  # (draws, K): mu of random filters
    comparison: Comparison
    expected: float  # E mu of such random directions
    halves: float | None  # the correlation that the halves of their channels have, if the layer started as opposites
    start: str
    kept: float | None  # the mean cosine of a filter with its start, where that is known

    @property
    def shape(self) -> str:
        return "x".join(map(str, self.filters.shape))

    @property
    def median(self) -> float:
        return self.comparison.quantiles[QUANTILES.index(0.5)]

    def summary(self) -> dict[str, Any]:
        """For summary.json: the comparison, with quantiles by their share."""
        values = self.comparison._asdict()
        for key in ("quantiles", "null_quantiles"):
            values[key] = {f"{q:g}": value for q, value in zip(QUANTILES, values[key], strict=True)}
        return values | {"start": self.start, "halves": self.halves, "cosine_with_start": self.kept}

    def rows(self) -> list[dict[str, Any]]:
        """For pairing.csv: one row per filter."""
        return [
            {"layer": self.name, "filter": i, "pairing_filter": int(j), "mu": None if np.isnan(mu) else float(mu)}
            for i, (j, mu) in enumerate(zip(*self.pairs, strict=True))
        ]


COLUMNS: Columns = {
    "layer": "name",
    "filters": "shape",
    Column("mean mu", ".3f"): "comparison.mean",
    Column("random", ".3f"): "comparison.null_mean",
    Column("expected", ".3f"): "expected",
    Column("median", ".3f"): "median",
    Column("KS", ".2f"): "comparison.ks",
    Column("p", ".1g"): "comparison.p_value",
    "start": "start",
    Column("halves", ".2f"): "halves",
    Column("cosine with start", ".2f"): "kept",
}
BEHIND = {
    OPPOSITES: "Layers that start as opposites have, on the second half of their channels, minus the weights of the "
    "first. What is left of that, as the negative correlation of the two halves, their random filters have, too.",
    PATTERNS: "A layer that starts as patterns has them with both signs if its activation drops one: its pairs need "
    "not be learned, and random filters say nothing about it.",
}


def findings(request: Request) -> Iterator[Finding]:
    sources = []
    for run in request.runs:
        trained, start = (_filters(run.model(request.device, untrained=seed)) for seed in (None, run.settings.seed))
        known = {name: w for name, w in start.items() if name not in run.settings.prepared}
        sources.append(Source(run.label, run.name, trained, known, run.settings.prepared))
    for file in request.foreign:
        if file.stem in [source.name for source in sources]:
            raise UsageError(f"two networks are called {file.stem}, and each gets a folder: rename {file}")
        sources.append(Source(file.stem, file.stem, read_filters(file, request.args.layout)))
    names = list(dict.fromkeys(name for source in sources for name in source.layers))
    if unknown := set(request.args.groups) - set(names):
        raise UsageError(f"--groups names {', '.join(sorted(unknown))}; the layers are {', '.join(names)}")
    request.make_folder()
    for source in sources:
        yield finding(source, request)


def _filters(model: Sequential) -> dict[str, np.ndarray]:
    return {name: to_host(conv.weight.data) for name, conv in convolutions(model).items()}


def finding(source: Source, request: Request) -> Finding:
    """All layers of one network, and the pairs of the first if its filters can be shown as pictures."""
    layers = []
    with Progress(len(source.layers), source.label, "layer") as progress:
        for name in source.layers:
            layers.append(measure(source, name, request))
            progress()
    files = {
        "summary.json": {layer.name: layer.summary() for layer in layers},
        "pairing.csv": [row for layer in layers for row in layer.rows()],
        "histograms.png": partial(
            draw_pairing_histograms,
            layers={layer.name: (layer.pairs.mu, layer.null, layer.comparison.p_value) for layer in layers},
            label=source.label,
        ),
    }
    first = layers[0]
    if first.filters.shape[2] in (1, 3):
        title = f"{source.label}, {first.name}: each filter (left) and its pairing filter (right), by their cosine"
        files["filters.png"] = partial(draw_pairs, w=first.filters, pairs=first.pairs, title=title)
    in_folder = {f"{source.name}/{name}": content for name, content in files.items()}
    notes = [words for start, words in BEHIND.items() if any(layer.start == start for layer in layers)]
    return Finding([table(layers, COLUMNS, source.label), *notes], in_folder)


def measure(source: Source, name: str, request: Request) -> Layer:
    """One layer beside random filters of its shape.

    Where the second half of the channels started as minus the first, cosines were those of half as many dimensions.
    The random filters have what is left of that.
    """
    w, groups, halves = source.layers[name], request.args.groups.get(name, 1), source.left_of_opposites(name)
    stream = Stream(request.args.seed).child("random filters", name)
    correlation = halves or 0.0
    try:
        pairs = pairing(request.device.put(w), groups=groups)
        drawn = {"draws": request.args.draws, "stream": stream, "device": request.device}
        null = random_mu(w.shape, halves=correlation, groups=groups, **drawn)
        comparison = compare(pairs.mu, null)
    except ValueError as error:
        raise UsageError(f"{name} {w.shape}: {error}") from None
    kept = float(np.nanmean(cosine_with(w, source.start[name]))) if name in source.start else None
    expected = expected_mu(w.shape[3] // groups, effective_dimensions(w.shape, correlation))
    return Layer(name, w, pairs, null, comparison, expected, halves, source.start_of(name), kept)
