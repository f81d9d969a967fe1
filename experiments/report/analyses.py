"""What the analyses found in CReLU networks: Tables 6 and S1, and Figure 5."""

from __future__ import annotations

from typing import Any

from experiments.report.context import DATASETS, Context, number, picture, plus_minus
from experiments.report.html import Html, note, table
from experiments.report.repeats import BEHIND, Repeats, Row, difference, each, first_seed, over, repeats, value
from reference.paper import TABLE_6, TABLE_S1


def table6(context: Context) -> list[Html]:
    head = ["layer", "|pair|", "|non-pair|", "difference", "random", "pair, signed"]
    head += ["paper: |pair|", "paper: |non-pair|"]

    def title(networks: Repeats) -> str:
        return context.title(networks.of[0])

    def show(networks: Repeats) -> list[Html]:
        layers = networks.by_layer("correlation.csv").items()
        lines = [_correlations(layer, [row for rows in of_seeds for row in rows]) for layer, of_seeds in layers]
        _, folder = networks.done[0]
        words = f"Signed cosines of the outgoing weights of pairs, by layer{first_seed(networks)}"
        return [
            table(f"Table 6: cosines of outgoing weights, {title(networks)}", head, lines),
            picture(folder / "correlation.png", words),
            note(networks.links(context)),
        ]

    words = (
        "Difference: pairs less non-pairs, which the paper finds marginally higher; both far below 1. The paper's are "
        "of CReLU (conv1-7) on ImageNet, and not comparable with other networks; its ± is over filters."
    )
    return [*each(context, "table6", title, show), note(BEHIND), note(words)]


def _correlations(layer: str, rows: list[Row]) -> list[Any]:
    """A line of Table 6: ours, and the paper's for a layer of that name."""
    own = next((paper for paper in TABLE_6 if paper.label == layer), None)
    pair, other, signed = (
        [value(row[name]) for row in rows] for name in ("pair_absolute", "non_pair_absolute", "pair_signed")
    )
    return [
        layer,
        plus_minus(over(pair), 3),
        plus_minus(over(other), 3),
        difference((a - b for a, b in zip(pair, other, strict=True)), 3),
        number(rows[0]["random_absolute"]),
        difference(signed, 3),
        f"{own.pair:.3f} ± {own.pair_error:.3f}" if own else "",
        f"{own.non_pair:.3f} ± {own.non_pair_error:.3f}" if own else "",
    ]


def table_s1(context: Context) -> list[Html]:
    """One table of all networks, and what is missing in it."""
    lines: list[list[Any]] = []
    missing: list[Html] = []
    for networks in repeats(context, "tableS1"):
        for layer, of_seeds in networks.by_layer("ratios.csv").items():
            lines.append(_ratios(layer, [row for rows in of_seeds for row in rows], networks.of[0].settings.label))
        missing += networks.missing()
    head = ["layer", "data", "learned", "random filters", "difference", "simulated", "paper: learned", "paper: random"]
    words = (
        "||x - x'|| / ||x||, x' recovered after CReLU and max pooling by Algorithm 2. The ratios depend on the widths: "
        "those of reduced networks are not comparable with the paper's."
    )
    made = [table("Table S1: reconstruction ratios", head, lines, text=(1,)), note(words), note(BEHIND)]
    return [*(made if lines else []), *missing]


def _ratios(layer: str, rows: list[Row], network: str) -> list[Any]:
    """A line of Table S1: ours, and the paper's for a layer of that name on the same data."""
    dataset = rows[0]["dataset"]
    own = next((paper for paper in TABLE_S1 if (paper.label, paper.dataset) == (layer, dataset)), None)
    learned, random = ([value(row[name]) for row in rows] for name in ("learned", "random"))
    return [
        f"{layer}, {network}",
        DATASETS.get(dataset, dataset),
        plus_minus(over(learned), 4),
        plus_minus(over(random), 4),
        difference((a - b for a, b in zip(learned, random, strict=True)), 4),
        number(rows[0]["simulated"]),
        f"{own.learned:.2f}" if own else "",
        f"{own.random:.2f}" if own else "",
    ]


def figure5(context: Context) -> list[Html]:
    words = "Images and their reconstructions from the features of conv1 to conv4, with relative errors and PSNR"

    def show(networks: Repeats) -> list[Html]:
        step, folder = networks.done[0]
        return [picture(folder / step.makes[0], words + first_seed(networks))]

    return each(context, "figure5", lambda networks: context.title(networks.of[0]), show)
