"""Invariance scores: Figure 4."""

from __future__ import annotations

import math
from collections import defaultdict

from experiments.report.charts import Bar, interval_chart
from experiments.report.context import Context, picture, plus_minus
from experiments.report.repeats import BEHIND, Repeats, Row, differences, each, first_seed, over, value
from experiments.tables.html import Html, note, table

WAYS = {
    "as in the paper": (True, "paper"),
    "both by one side": (True, "one"),
    "both by two sides": (True, "two"),
    "untrained, as in the paper": (False, "paper"),
}


def figure4(context: Context) -> list[Html]:
    def title(networks: Repeats) -> str:
        return f"{context.title(networks.of[0])}, and {networks.of[1].settings.label}"

    def show(networks: Repeats) -> list[Html]:
        relu, crelu = (training.settings.label for training in networks.of)
        head = ["layer", relu, crelu, *(f"difference, {way}" for way in WAYS)]
        layers = {
            layer: [_scores(rows) for rows in of_seeds]
            for layer, of_seeds in networks.by_layer("invariance.csv").items()
        }
        found = {
            way: [[seed[1, *which] - seed[0, *which] for seed in scores] for scores in layers.values()]
            for way, which in WAYS.items()
        }
        columns = [differences(column, 1) for column in found.values()]
        lines = []
        for (layer, scores), *cells in zip(layers.items(), *columns, strict=True):
            own = [plus_minus(over(seed[network, True, "paper"] for seed in scores), 1) for network in (0, 1)]
            lines.append([layer, *own, *cells])
        intervals = zip(layers, map(over, found["as in the paper"]), strict=True)
        bars = [Bar(layer, x.mean, x.low, x.high) for layer, x in intervals if x is not None and x.low is not None]
        words = "Invariance scores by layer, of trained and untrained networks, measured three ways"
        _, folder = networks.done[0]
        chart = f"Invariance score of {crelu} less that of {relu}, as in the paper; right: CReLU is more invariant"
        return [
            picture(folder / "invariance.png", words + first_seed(networks)),
            *([interval_chart(chart, bars, x="difference of the scores")] if bars else []),
            table(f"Invariance scores, {title(networks)}", head, lines),
            note(networks.links(context)),
        ]

    words = (
        "1 is chance, 100 never changes. Differences are CReLU's score less ReLU's. The paper compares one side of "
        "ReLU networks with two sides of CReLU networks, and prints no numbers."
    )
    return [*each(context, "figure4", title, show), note(words), note(BEHIND)]


def _scores(rows: list[Row]) -> dict[tuple[int, bool, str], float]:
    """Of a layer of one pair: by network (0 ReLU, 1 CReLU), whether it was trained, and side; NaN where there is none.

    The side "paper" is the one that the paper takes for a network.
    """
    names = list(dict.fromkeys(row["run"] for row in rows))
    found: dict[tuple[int, bool, str], float] = defaultdict(lambda: math.nan)
    for row in rows:
        which = names.index(row["run"]), row["weights"] == "trained"
        found.setdefault((*which, row["sides"]), value(row["score"]))
        if row["as_in_paper"] == "True":
            found.setdefault((*which, "paper"), value(row["score"]))
    return found
