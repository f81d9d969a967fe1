"""Filters and their pairing filters: Figures 1 to 3."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.report.context import Context, absent, number, picture, plus_minus, read_results
from experiments.report.repeats import BEHIND, Repeats, differences, each, first_seed, over, value
from experiments.reproduction.steps import Step
from experiments.reproduction.targets import ALEXNET
from experiments.tables.html import Html, note, table

HISTOGRAMS = "histograms of the cosine of each filter with its pairing filter (blue) and of random filters (red)"


def figure1(context: Context) -> list[Html]:
    words = "conv1 filters, each beside its pairing filter, the most opposed first"

    def show(networks: Repeats, title: str) -> list[Html]:
        step, folder = networks.done[0]
        return [picture(_source(step, folder, 0) / "filters.png", f"{title}: {words}{first_seed(networks)}")]

    return _alexnet(context, show)


def figure2(context: Context) -> list[Html]:
    return [*_alexnet(context, lambda networks, title: _histograms(networks, 0, title)), note(BEHIND)]


def _alexnet(context: Context, show: Callable[[Repeats, str], list[Html]]) -> list[Html]:
    """AlexNet, where its filters were given; and our ReLU networks."""

    def title(networks: Repeats) -> str:
        return "AlexNet" if networks.steps[0].name == ALEXNET else context.title(networks.of[0])

    why = "AlexNet's filters were not given (--alexnet FILE). Our own ReLU networks instead."
    given = context.files.alexnet is not None
    return [
        *([] if given else [absent(why)]),
        *each(context, "figure1", title, lambda networks: show(networks, title(networks))),
    ]


def _source(step: Step, folder: Path, which: int) -> Path:
    """Where the pairs of the first network of a step are, or of the second."""
    return folder / Path(step.makes[which]).parent


def _histograms(networks: Repeats, which: int, title: str) -> list[Html]:
    """The picture, and the means behind it; of CReLU networks (the second) also how they differ from ReLU networks."""
    found = [_summaries(networks, network) for network in range(which + 1)]
    excess = [{layer: [*map(_excess, seeds)] for layer, seeds in of_network.items()} for of_network in found]
    columns = [differences(excess[which].values(), 3)]
    if which:
        pairs = (zip(own, excess[0].get(layer, [math.nan] * len(own)), strict=True) for layer, own in excess[1].items())
        columns.append(differences(([a - b for a, b in both] for both in pairs), 3))
    head = ["layer", "mean cosine", "of random filters", "difference"]
    head += [*(["difference less that of ReLU"] if which else []), f"KS test: p{first_seed(networks)}"]
    lines = []
    for (layer, seeds), *cells in zip(found[which].items(), *columns, strict=True):
        mean, random = plus_minus(over(value(of.get("mean")) for of in seeds), 3), number(seeds[0].get("null_mean"))
        lines.append([layer, mean, random, *cells, _p(seeds[0].get("p_value"))])
    file = _source(*networks.done[0], which) / "histograms.png"
    return [
        picture(file, f"{title}: {HISTOGRAMS}{first_seed(networks)}"),
        table(f"Cosines of pairs, {title}", head, lines),
    ]


def _summaries(networks: Repeats, which: int) -> dict[str, list[dict[str, Any]]]:
    """By layer, what each seed has in its summary.json, which may be nothing."""
    seeds = [read_results(_source(step, folder, which) / "summary.json") for step, folder in networks.done]
    known = [{layer: numbers for layer, numbers in seed.items() if isinstance(numbers, dict)} for seed in seeds]
    layers = dict.fromkeys(layer for seed in known for layer in seed)
    return {layer: [seed.get(layer, {}) for seed in known] for layer in layers}


def _excess(numbers: dict[str, Any]) -> float:
    """How much more opposed the filters of a layer are than random ones: negative."""
    return value(numbers.get("mean")) - value(numbers.get("null_mean"))


def _p(found: Any) -> str:
    return "-" if not isinstance(found, float) else "< 1e-300" if found < 1e-300 else f"{found:.1g}"


def figure3(context: Context) -> list[Html]:
    def title(networks: Repeats) -> str:
        return context.title(networks.of[1])

    words = "The paper shows conv1 to conv4 of an ImageNet network: no more pairs than random filters have."
    return [
        *each(context, "figure3", title, lambda networks: _histograms(networks, 1, title(networks))),
        note(BEHIND),
        note(words),
    ]
