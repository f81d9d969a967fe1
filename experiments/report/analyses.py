"""What the analyses found in CReLU networks: Tables 6 and S1, and Figure 5."""

from __future__ import annotations

from typing import Any

from experiments.report.context import DATASETS, Context, number, picture, plus_minus
from experiments.report.repeats import BEHIND, Repeats, Row, differences, each, first_seed, over, repeats, value
from experiments.tables.html import Html, note, table
from reference.paper import TABLE_6, TABLE_S1


def table6(context: Context) -> list[Html]:
    head = ["layer", "|pair|", "|non-pair|", "difference", "random", "pair, signed"]
    head += ["paper: |pair|", "paper: |non-pair|"]

    def title(networks: Repeats) -> str:
        return context.title(networks.of[0])

    def show(networks: Repeats) -> list[Html]:
        lines = _correlations(networks)
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


def _rows(networks: Repeats, name: str) -> dict[str, list[Row]]:
    """A CSV file with a line for each layer: by layer, the lines of all seeds."""
    return {layer: [row for rows in of_seeds for row in rows] for layer, of_seeds in networks.by_layer(name).items()}


def _values(layers: dict[str, list[Row]], name: str) -> list[list[float]]:
    """A column: by layer, the numbers of all seeds."""
    return [[value(row[name]) for row in rows] for rows in layers.values()]


def _less(column: list[list[float]], other: list[list[float]]) -> list[list[float]]:
    """The differences of two columns, seed by seed."""
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(column, other, strict=True)]


def _correlations(networks: Repeats) -> list[list[Any]]:
    """The lines of Table 6: ours, and the paper's for layers of that name."""
    layers = _rows(networks, "correlation.csv")
    pair, other, signed = (_values(layers, name) for name in ("pair_absolute", "non_pair_absolute", "pair_signed"))
    less, signs = differences(_less(pair, other), 3), differences(signed, 3)
    lines = []
    for i, (layer, rows) in enumerate(layers.items()):
        own = next((paper for paper in TABLE_6 if paper.label == layer), None)
        ours = [plus_minus(over(pair[i]), 3), plus_minus(over(other[i]), 3), less[i]]
        printed = [(own.pair, own.pair_error), (own.non_pair, own.non_pair_error)] if own else []
        paper = [f"{mean:.3f} ± {error:.3f}" for mean, error in printed] or ["", ""]
        lines.append([layer, *ours, number(rows[0]["random_absolute"]), signs[i], *paper])
    return lines


def table_s1(context: Context) -> list[Html]:
    """One table of all networks, and what is missing in it."""
    lines: list[list[Any]] = []
    missing: list[Html] = []
    for networks in repeats(context, "tableS1"):
        lines += _ratios(networks)
        missing += networks.missing()
    head = ["layer", "data", "learned", "random filters", "difference", "simulated", "paper: learned", "paper: random"]
    words = (
        "||x - x'|| / ||x||, x' recovered after CReLU and max pooling by Algorithm 2. The ratios depend on the widths: "
        "those of reduced networks are not comparable with the paper's."
    )
    made = [table("Table S1: reconstruction ratios", head, lines, text=(1,)), note(words), note(BEHIND)]
    return [*(made if lines else []), *missing]


def _ratios(networks: Repeats) -> list[list[Any]]:
    """Lines of Table S1: ours, and the paper's for layers of that name on the same data."""
    layers = _rows(networks, "ratios.csv")
    learned, random = (_values(layers, name) for name in ("learned", "random"))
    less = differences(_less(learned, random), 4)
    lines = []
    for i, (layer, rows) in enumerate(layers.items()):
        dataset = rows[0]["dataset"]
        own = next((paper for paper in TABLE_S1 if (paper.label, paper.dataset) == (layer, dataset)), None)
        ours = [plus_minus(over(learned[i]), 4), plus_minus(over(random[i]), 4), less[i], number(rows[0]["simulated"])]
        printed = [f"{own.learned:.2f}", f"{own.random:.2f}"] if own else ["", ""]
        name = f"{layer}, {networks.of[0].settings.label}"
        lines.append([name, DATASETS.get(dataset, dataset), *ours, *printed])
    return lines


def figure5(context: Context) -> list[Html]:
    words = "Images and their reconstructions from the features of conv1 to conv4, with relative errors and PSNR"

    def show(networks: Repeats) -> list[Html]:
        step, folder = networks.done[0]
        return [picture(folder / step.makes[0], words + first_seed(networks))]

    return each(context, "figure5", lambda networks: context.title(networks.of[0]), show)
