"""Filters and their pairing filters: Figures 1 to 3."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.analyses.pairing import OPPOSITES, PATTERNS
from experiments.figures.charts import depth_chart
from experiments.report.context import Context, Fold, Parts, absent, chart, read_results, value
from experiments.report.repeats import BEHIND, Repeats, bars, each, minus, over, tested
from experiments.reproduction.steps import Analysis
from experiments.reproduction.targets import ALEXNET
from experiments.tables.html import Html, note
from experiments.tables.table import Column, Table

HISTOGRAMS = "histograms of the cosine of each filter with its pairing filter (in colour) and of random filters (grey)"


def figure1(context: Context) -> Parts:
    words = "conv1 filters, each beside its pairing filter, the most opposed first"

    def show(networks: Repeats, title: str) -> Parts:
        return [context.picture(_source(*networks.first, 0) / "filters.png", f"{title}: {words}{networks.seed}")]

    return _alexnet(context, show)


def figure2(context: Context) -> Parts:
    return [*_alexnet(context, lambda networks, title: [*_histograms(context, networks, 0, title)]), note(BEHIND)]


STARTS = {
    OPPOSITES: "layers behind CReLU start with minus the weights of the first half of their channels on the second; "
    "what is left of that, as a negative correlation, the random filters beside them have, too",
    PATTERNS: "conv1 starts as patterns of the images, with both signs if its activation drops one: its pairs need not "
    "be learned, so it has no difference",
}


def _starts(networks: Repeats) -> Parts:
    """How layers started that did not start at random."""
    of_layers = [numbers for which in (0, 1) for seeds in _summaries(networks, which).values() for numbers in seeds]
    found = [words for start, words in STARTS.items() if any(one.get("start") == start for one in of_layers)]
    return [note(f"By the recipe, {'; '.join(found)}.")] if found else []


def figure3(context: Context) -> Parts:
    def title(networks: Repeats) -> str:
        return context.title(networks.of[1])

    def show(networks: Repeats) -> Parts:
        picture, numbers = _histograms(context, networks, 1, title(networks))
        return [picture, _by_depth(networks), Fold("In numbers", [numbers]), *_starts(networks)]

    words = "The paper shows conv1 to conv4 of an ImageNet network, which have no more pairs than random filters."
    made = each(context, "figure3", title, show)
    return [*made, note(BEHIND), note(words)]


def _alexnet(context: Context, show: Callable[[Repeats, str], Parts]) -> Parts:
    """AlexNet, where its filters were given; and our ReLU networks."""

    def title(networks: Repeats) -> str:
        return "AlexNet" if networks.steps[0].name == ALEXNET else context.title(networks.of[0])

    why = "AlexNet's filters were not given (--alexnet FILE). Our own ReLU networks are shown instead."
    given = context.files.alexnet is not None
    made = each(context, "figure1", title, lambda networks: show(networks, title(networks)))
    return [*([] if given else [absent(why)]), *made]


def _source(step: Analysis, folder: Path, which: int) -> Path:
    """The folder with the pairs of a step's first network, or of its second."""
    return folder / Path(step.makes[which]).parent


def _by_depth(networks: Repeats) -> Html:
    """How far the filters of both networks are from random ones, layer by layer."""
    labels = [training.settings.label for training in networks.of]
    found = [excess_by_layer(networks, which) for which in (0, 1)]
    lines = {label: bars(of, of.values()) for label, of in zip(labels, found, strict=True)}
    words = (
        f"By depth, {' and '.join(labels)}: the mean cosine of pairs minus that of random filters, with 95 % intervals "
        "over seeds. Below 0, filters are more opposed than random ones"
    )
    return chart(depth_chart(lines, y="cosine minus random"), words)


def _histograms(context: Context, networks: Repeats, which: int, title: str) -> tuple[Html, Table]:
    """The picture and the means behind it; for CReLU networks (the second), also how they differ from ReLU networks."""
    found = _summaries(networks, which)
    excess = excess_by_layer(networks, which)
    columns = [tested(excess.values())]
    heads = [
        Column("layer"),
        Column("mean cosine", ".3f"),
        Column("of random filters", ".3f"),
        Column("difference", "+.3f"),
    ]
    if which:
        columns.append(tested(more_than_relu(networks)))
        heads.append(Column("difference minus that of ReLU", "+.3f"))
    heads.append(Column(f"KS test: p{networks.seed}"))
    lines = []
    for (layer, seeds), *cells in zip(found.items(), *columns, strict=True):
        mean, random = over(value(of.get("mean")) for of in seeds), value(seeds[0].get("null_mean"))
        lines.append([layer, mean, random, *cells, _p(seeds[0].get("p_value"))])
    file = _source(*networks.first, which) / "histograms.png"
    picture = context.picture(file, f"{title}: {HISTOGRAMS}{networks.seed}")
    return picture, Table(heads, lines, f"Cosines of pairs, {title}", "Cosines of pairs")


def excess_by_layer(networks: Repeats, which: int) -> dict[str, list[float]]:
    """Of the first network or the second: mean cosines of pairs minus those of random filters, one per seed."""
    return {layer: [*map(_excess, seeds)] for layer, seeds in _summaries(networks, which).items()}


def more_than_relu(networks: Repeats) -> list[list[float]]:
    """The excess of the second network, CReLU, minus that of the first, by layer and seed."""
    relu, crelu = (excess_by_layer(networks, which) for which in (0, 1))
    return minus([*crelu.values()], [relu.get(layer, [math.nan] * len(own)) for layer, own in crelu.items()])


def _summaries(networks: Repeats, which: int) -> dict[str, list[dict[str, Any]]]:
    """By layer, the numbers in each seed's summary.json, which may be none."""
    seeds = [read_results(_source(step, folder, which) / "summary.json") for step, folder in networks.done.items()]
    known = [{layer: numbers for layer, numbers in seed.items() if isinstance(numbers, dict)} for seed in seeds]
    layers = dict.fromkeys(layer for seed in known for layer in seed)
    return {layer: [seed.get(layer, {}) for seed in known] for layer in layers}


def _excess(numbers: dict[str, Any]) -> float:
    """The mean cosine minus that of random filters: negative where the filters of a layer are more opposed.

    A layer that did not start at random has none: what it has of pairs need not be learned.
    """
    mean, null = value(numbers.get("mean")), value(numbers.get("null_mean"))
    return math.nan if mean is None or null is None or numbers.get("start") == PATTERNS else mean - null


def _p(found: Any) -> str | None:
    return None if not isinstance(found, float) else "< 1e-300" if found < 1e-300 else f"{found:.1g}"
