"""Invariance scores: Figure 4."""

from __future__ import annotations

import math
from collections import defaultdict

from experiments.figures.charts import depth_chart, interval_chart
from experiments.report.context import Context, Fold, Parts, chart, value
from experiments.report.repeats import BEHIND, Repeats, Row, bars, each, over, tested
from experiments.tables.html import note
from experiments.tables.table import Column, Table

Scores = dict[tuple[int, bool, str], float]  # by network, whether it was trained, and side: see _scores

WAYS = {
    "as in the paper": (True, "paper"),
    "both by one side": (True, "one"),
    "both by two sides": (True, "two"),
    "untrained, as in the paper": (False, "paper"),
}


def figure4(context: Context) -> Parts:
    def title(networks: Repeats) -> str:
        return f"{context.title(networks.of[0])}, and {networks.of[1].settings.label}"

    def show(networks: Repeats) -> Parts:
        relu, crelu = (training.settings.label for training in networks.of)
        heads = [Column("layer"), *(Column(name, ".1f") for name in ("ReLU", "CReLU"))]
        heads += [Column(f"difference, {way}", "+.1f") for way in WAYS]
        layers = scores_by_layer(networks)
        found = {way: differences(layers, way) for way in WAYS}
        lines = []
        for (layer, scores), *cells in zip(layers.items(), *map(tested, found.values()), strict=True):
            own = [over(seed[network, True, "paper"] for seed in scores) for network in (0, 1)]
            lines.append([layer, *own, *cells])
        by_depth = {
            label: bars(layers, ([seed[which, True, "paper"] for seed in scores] for scores in layers.values()))
            for which, label in enumerate((relu, crelu))
        }
        apart = [bar for bar in bars(layers, found["as in the paper"]) if bar.low is not None]
        drawn = interval_chart(apart, x="difference", left="less invariant", right="more invariant") if apart else None
        words = "Invariance scores by layer, of trained and untrained networks, measured three ways"
        depth = f"By depth, {relu} and {crelu}: invariance scores as in the paper, with 95 % intervals over seeds"
        caption = f"Invariance score of {crelu} minus that of {relu}, as in the paper, with 95 % intervals over seeds"
        return [
            context.picture(networks.first[1] / "invariance.png", words + networks.seed),
            chart(depth_chart(by_depth, y="invariance score"), depth),
            *([chart(drawn, caption)] if apart else []),
            Fold("In numbers", [Table(heads, lines, f"Invariance scores, {title(networks)}", "Invariance scores")]),
        ]

    words = (
        "1 is chance, 100 means that firing never changes. Differences are CReLU's score minus ReLU's. The paper "
        "compares one side of ReLU networks with two sides of CReLU networks, and prints no numbers."
    )
    return [*each(context, "figure4", title, show), note(words), note(BEHIND)]


def scores_by_layer(networks: Repeats) -> dict[str, list[Scores]]:
    """One per seed; without a number where it lacks the layer."""
    found = networks.by_layer("invariance.csv")
    return {layer: [_scores(rows) for rows in of_seeds] for layer, of_seeds in found.items()}


def differences(layers: dict[str, list[Scores]], way: str) -> list[list[float]]:
    """CReLU's scores minus ReLU's, by layer and seed, measured in one of the WAYS."""
    which = WAYS[way]
    return [[seed[1, *which] - seed[0, *which] for seed in scores] for scores in layers.values()]


def _scores(rows: list[Row]) -> Scores:
    """Scores of a layer of one pair, by network (0 ReLU, 1 CReLU), whether it was trained, and side; NaN if missing.

    The side "paper" is the one that the paper takes for a network.
    """
    names = list(dict.fromkeys(row["run"] for row in rows))
    found: Scores = defaultdict(lambda: math.nan)
    for row in rows:
        which, score = (names.index(row["run"]), row["weights"] == "trained"), value(row["score"])
        if score is not None:
            found.setdefault((*which, row["sides"]), score)
            if row["as_in_paper"] == "True":
                found.setdefault((*which, "paper"), score)
    return found
