"""Filters and their pairing filters: Figures 1 to 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.report.context import Context, absent, number, picture, plus_minus, read_results
from experiments.report.html import Html, note, table
from experiments.report.repeats import BEHIND, Repeats, difference, each, first_seed, over, value
from experiments.reproduction.steps import Step
from experiments.reproduction.targets import ALEXNET

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
    """The picture, and the means behind it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for step, folder in networks.done:
        for layer, numbers in read_results(_source(step, folder, which) / "summary.json").items():
            if isinstance(numbers, dict):
                found.setdefault(layer, []).append(numbers)
    head = ["layer", "mean cosine", "of random filters", "difference", f"KS test: p{first_seed(networks)}"]
    lines = [
        [
            layer,
            plus_minus(over(value(of.get("mean")) for of in seeds), 3),
            number(seeds[0].get("null_mean")),
            difference((value(of.get("mean")) - value(of.get("null_mean")) for of in seeds), 3),
            _p(seeds[0].get("p_value")),
        ]
        for layer, seeds in found.items()
    ]
    file = _source(*networks.done[0], which) / "histograms.png"
    return [
        picture(file, f"{title}: {HISTOGRAMS}{first_seed(networks)}"),
        table(f"Cosines of pairs, {title}", head, lines),
    ]


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
