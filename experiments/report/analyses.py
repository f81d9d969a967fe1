"""What the analyses found: Tables 6 and S1, Figures 1 to 5, with the pictures that they drew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.report.context import DATASETS, Context, absent, number, picture, read_results, read_rows
from experiments.report.html import Html, link, note, table, tag
from experiments.reproduction.steps import Step
from experiments.reproduction.targets import ALEXNET
from reference.paper import TABLE_6, TABLE_S1

HISTOGRAMS = "histograms of the cosine of each filter with its pairing filter (blue) and of random filters (red)"


def _each(
    context: Context, target: str, title: Callable[[Step], str], show: Callable[[Step, Path], list[Html]]
) -> list[Html]:
    """For every analysis of a target a heading, and what `show` makes of its folder, or that it is not done."""
    found: list[Html] = []
    for step in context.analyses(target):
        folder = context.folder(step)
        found += [tag("h3", title(step)), *(show(step, folder) if folder else [_not_done(step)])]
    return found


def _not_done(step: Step) -> Html:
    return absent(f"the analysis {step.name} is not done.")


def table6(context: Context) -> list[Html]:
    head = ["layer", "|pair|", "|non-pair|", "random", "pair, signed", "paper: |pair|", "paper: |non-pair|"]

    def show(step: Step, folder: Path) -> list[Html]:
        lines = [_correlations(row) for row in read_rows(folder / "correlation.csv")]
        return [
            table(f"Table 6: cosines of outgoing weights, {step.of[0].name}", head, lines),
            picture(folder / "correlation.png", "Signed cosines of the outgoing weights of pairs, by layer"),
            note("± is the standard deviation over filters; ", link("all numbers", context.href(folder)), "."),
        ]

    words = "The paper's are of CReLU (conv1-7) on ImageNet, and not comparable with other networks."
    return [*_each(context, "table6", lambda step: context.title(step.of[0]), show), note(words)]


def _correlations(row: dict[str, str]) -> list[str]:
    """A line of Table 6: ours, and the paper's for a layer of that name."""
    own = next((paper for paper in TABLE_6 if paper.label == row["layer"]), None)
    return [
        row["layer"],
        f"{number(row['pair_absolute'])} ± {number(row['pair_absolute_sd'])}",
        f"{number(row['non_pair_absolute'])} ± {number(row['non_pair_absolute_sd'])}",
        number(row["random_absolute"]),
        f"{number(row['pair_signed'], sign='+')} ± {number(row['pair_signed_sd'])}",
        f"{own.pair:.3f} ± {own.pair_error:.3f}" if own else "",
        f"{own.non_pair:.3f} ± {own.non_pair_error:.3f}" if own else "",
    ]


def table_s1(context: Context) -> list[Html]:
    """One table of all networks, and what is missing in it."""
    lines: list[list[Any]] = []
    missing: list[Html] = []
    for step in context.analyses("tableS1"):
        folder = context.folder(step)
        if folder is None:
            missing.append(_not_done(step))
            continue
        lines += [_ratios(row, step.of[0].settings.label) for row in read_rows(folder / "ratios.csv")]
    head = ["layer", "data", "learned", "random filters", "simulated", "paper: learned", "paper: random"]
    words = (
        "||x - x'|| / ||x||, x' recovered after CReLU and max pooling by Algorithm 2; ± is the standard error over "
        "images, for random filters over banks. The ratios depend on the widths: those of reduced networks are not "
        "comparable with the paper's."
    )
    made = [table("Table S1: reconstruction ratios", head, lines, text=(1,)), note(words)] if lines else []
    return [*made, *missing]


def _ratios(row: dict[str, str], network: str) -> list[str]:
    """A line of Table S1: ours, and the paper's for a layer of that name on the same data."""
    own = next((paper for paper in TABLE_S1 if (paper.label, paper.dataset) == (row["layer"], row["dataset"])), None)
    return [
        f"{row['layer']}, {network}",
        DATASETS.get(row["dataset"], row["dataset"]),
        f"{number(row['learned'], 4)} ± {number(row['learned_se'], 4)}",
        f"{number(row['random'], 4)} ± {number(row['random_se'], 4)}",
        number(row["simulated"]),
        f"{own.learned:.2f}" if own else "",
        f"{own.random:.2f}" if own else "",
    ]


def figure1(context: Context) -> list[Html]:
    words = "conv1 filters, each beside its pairing filter, the most opposed first"
    return _alexnet(context, lambda folder, title: [picture(folder / "filters.png", f"{title}: {words}")])


def figure2(context: Context) -> list[Html]:
    return _alexnet(context, _histograms)


def _alexnet(context: Context, show: Callable[[Path, str], list[Html]]) -> list[Html]:
    """AlexNet, where its filters were given; and our ReLU networks."""

    def title(step: Step) -> str:
        return "AlexNet" if step.name == ALEXNET else context.title(step.of[0])

    why = "AlexNet's filters were not given (--alexnet FILE). Our own ReLU networks instead."
    given = context.files.alexnet is not None
    return [
        *([] if given else [absent(why)]),
        *_each(context, "figure1", title, lambda step, at: show(at / Path(step.makes[0]).parent, title(step))),
    ]


def _histograms(folder: Path, title: str) -> list[Html]:
    """The picture, and the means behind it."""
    layers = read_results(folder / "summary.json")
    head = ["layer", "mean cosine", "of random filters", "KS test: p"]
    lines = [
        [name, number(of.get("mean")), number(of.get("null_mean")), _p(of["p_value"])]
        for name, of in layers.items()
        if isinstance(of, dict) and isinstance(of.get("p_value"), float)
    ]
    cosines = table(f"Cosines of pairs, {title}", head, lines)
    return [picture(folder / "histograms.png", f"{title}: {HISTOGRAMS}"), cosines]


def _p(value: float) -> str:
    return "< 1e-300" if value < 1e-300 else f"{value:.1g}"


def figure3(context: Context) -> list[Html]:
    def title(step: Step) -> str:
        return context.title(step.of[1])

    words = "The paper shows conv1 to conv4 of an ImageNet network: no more pairs than random filters have."
    return [
        *_each(context, "figure3", title, lambda step, at: _histograms(at / Path(step.makes[1]).parent, title(step))),
        note(words),
    ]


def figure4(context: Context) -> list[Html]:
    head = ["network, layer", "one side", "two sides", "untrained, one side", "untrained, two sides"]

    def title(step: Step) -> str:
        return f"{context.title(step.of[0])}, and {step.of[1].settings.label}"

    def show(step: Step, folder: Path) -> list[Html]:
        words = "Invariance scores by layer, of trained and untrained networks, measured three ways"
        return [
            picture(folder / "invariance.png", words),
            table(f"Invariance scores, {step.name}", head, _scores(folder)),
            note(link("all numbers", context.href(folder)), "; 1 is chance, 100 never changes."),
        ]

    words = "The paper compares one side of ReLU networks with two sides of CReLU networks, and prints no numbers."
    return [*_each(context, "figure4", title, show), note(words)]


def _scores(folder: Path) -> list[list[str]]:
    """A line for each network and layer: trained and untrained, by both sides."""
    found: dict[tuple[str, str], dict[tuple[bool, str], str]] = {}
    for row in read_rows(folder / "invariance.csv"):
        cells = found.setdefault((row["run"], row["layer"]), {})
        cells.setdefault((row["weights"] == "trained", row["sides"]), number(row["score"], 1))
    columns = [(True, "one"), (True, "two"), (False, "one"), (False, "two")]
    return [
        [f"{layer}, {run}", *(cells.get(column, "-") for column in columns)] for (run, layer), cells in found.items()
    ]


def figure5(context: Context) -> list[Html]:
    words = "Images and their reconstructions from the features of conv1 to conv4, with relative errors and PSNR"
    return _each(
        context,
        "figure5",
        lambda step: context.title(step.of[0]),
        lambda step, folder: [picture(folder / step.makes[0], words)],
    )
