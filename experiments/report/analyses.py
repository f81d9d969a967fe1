"""What the analyses found in CReLU networks: Tables 6 and S1, and Figure 5."""

from __future__ import annotations

from typing import Any

from experiments.figures.charts import Bar, depth_chart
from experiments.report.context import Context, Parts, chart, data_name, value
from experiments.report.repeats import BEHIND, Repeats, bars, each, minus, over, repeats, tested
from experiments.tables.html import Html, note
from experiments.tables.table import Column, Table
from minicnn.analysis.statistics import Interval
from reference.paper import TABLE_6, TABLE_S1

CORRELATION = ("correlation.csv", "pair_absolute", "non_pair_absolute", "pair_signed")  # a file, and its columns
RATIOS = ("ratios.csv", "learned", "random")


def table6(context: Context) -> Parts:
    heads = [Column("layer"), Column("|pair|", ".3f"), Column("|non-pair|", ".3f"), Column("difference", "+.3f")]
    heads += [Column("random", ".3f"), Column("pair, signed", "+.3f")]
    heads += [Column(f"paper: {which}", ".3f") for which in ("|pair|", "|non-pair|")]

    def title(networks: Repeats) -> str:
        return context.title(networks.of[0])

    def show(networks: Repeats) -> Parts:
        words = f"Signed cosines of the outgoing weights of pairs, by layer{networks.seed}"
        linear = getattr(networks.of[0].settings, "looks_linear", False)
        start = [note("By the recipe, the two phases of a filter start with opposite weights: signed cosines of -1.")]
        caption = f"Table 6: cosines of outgoing weights, {title(networks)}"
        return [
            Table(heads, _correlations(networks), caption, "Table 6"),
            _by_depth(networks),
            context.picture(networks.first[1] / "correlation.png", words),
            *(start if linear else []),
        ]

    words = (
        "Difference: pairs minus non-pairs. The paper finds pairs marginally higher, and both far below 1. Its numbers "
        "are for CReLU (conv1-7) on ImageNet and not comparable with other networks; its ± is over filters."
    )
    return [*each(context, "table6", title, show), note(BEHIND), note(words)]


def _by_depth(networks: Repeats) -> Html:
    """The cosines of Table 6, layer by layer."""
    layers, (pair, other, _) = networks.columns(*CORRELATION)
    random = {layer: value(row["random_absolute"]) for layer, row in layers.items()}
    label = networks.of[0].settings.label
    lines = {
        f"{label}: pairs": bars(layers, pair),
        f"{label}: non-pairs": bars(layers, other),
        "random directions": [Bar(layer, mean, None, None) for layer, mean in random.items() if mean is not None],
    }
    words = "By depth: the mean |cosine| of outgoing weights, with 95 % intervals over seeds"
    return chart(depth_chart(lines, y="|cosine|"), words)


def _correlations(networks: Repeats) -> list[list[Any]]:
    """The lines of Table 6: ours, and the paper's for layers of the same name."""
    layers, (pair, other, signed) = networks.columns(*CORRELATION)
    differences, signs = tested(minus(pair, other)), tested(signed)
    lines = []
    for i, (layer, row) in enumerate(layers.items()):
        own = next((paper for paper in TABLE_6 if paper.label == layer), None)
        printed = [(own.pair, own.pair_error), (own.non_pair, own.non_pair_error)] if own else []
        paper: list[Any] = [Interval(mean, mean - error, mean + error, 1) for mean, error in printed] or ["", ""]
        ours = [over(pair[i]), over(other[i]), differences[i], value(row["random_absolute"]), signs[i]]
        lines.append([layer, *ours, *paper])
    return lines


def table_s1(context: Context) -> Parts:
    """One table of all networks, and notes on what it lacks."""
    lines: list[list[Any]] = []
    missing: Parts = []
    for networks in repeats(context, "tableS1"):
        lines += _ratios(context, networks)
        missing += networks.missing()
    heads = [Column("layer"), Column("data", words=True), Column("learned", ".4f"), Column("random filters", ".4f")]
    heads += [Column("difference", "+.4f"), Column("simulated", ".3f")]
    heads += [Column(f"paper: {which}", ".2f") for which in ("learned", "random")]
    words = (
        "||x - x'|| / ||x||, where Algorithm 2 recovers x' after CReLU and max pooling. The ratios depend on the "
        "widths: those of reduced networks are not comparable with the paper's."
    )
    made: Parts = [Table(heads, lines, "Table S1: reconstruction ratios"), note(words), note(BEHIND)]
    return [*(made if lines else []), *missing]


def _ratios(context: Context, networks: Repeats) -> list[list[Any]]:
    """Lines of Table S1: ours, and the paper's for layers of the same name on the same data."""
    layers, (learned, random) = networks.columns(*RATIOS)
    differences = tested(minus(learned, random))
    lines = []
    for i, (layer, row) in enumerate(layers.items()):
        dataset = row["dataset"]
        own = next((paper for paper in TABLE_S1 if (paper.label, paper.dataset) == (layer, dataset)), None)
        ours = [over(learned[i]), over(random[i]), differences[i], value(row["simulated"])]
        name = f"{layer}, {networks.of[0].settings.label}{context.recipe(networks.of[0])}"
        printed = [own.learned, own.random] if own else ["", ""]
        lines.append([name, data_name(dataset), *ours, *printed])
    return lines


def figure5(context: Context) -> Parts:
    words = "Images and their reconstructions from the features of conv1 to conv4, with relative errors and PSNR"

    def show(networks: Repeats) -> Parts:
        step, folder = networks.first
        return [context.picture(folder / step.makes[0], words + networks.seed)]

    return each(context, "figure5", lambda networks: context.title(networks.of[0]), show)
