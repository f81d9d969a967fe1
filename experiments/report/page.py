"""The page: a section for every target, in the paper's order; written to report.html as one file with all in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import minicnn
from experiments.report import analyses, appendix, cifar_tables, imagenet_tables, invariance, networks, pairs
from experiments.report.context import Context
from experiments.report.csv_tables import FOLDER, write_tables
from experiments.reproduction.commands import Resources
from experiments.reproduction.records import Records
from experiments.reproduction.scales import Scale
from experiments.reproduction.targets import Target
from experiments.tables.html import Html, join, link, tag
from minicnn.checkpoint import atomic_write_text

NAME = "report.html"
PAPER = "Understanding and Improving Convolutional Neural Networks via Concatenated Rectified Linear Units"
SECTIONS: dict[str, tuple[str, Callable[[Context], list[Html]]]] = {
    "table1": ("Table 1: CIFAR-10 and CIFAR-100", cifar_tables.table1),
    "table2": ("Table 2: CIFAR with VGG", cifar_tables.table2),
    "table3": ("Table 3: comparison on CIFAR", cifar_tables.table3),
    "table4": ("Table 4: ImageNet", imagenet_tables.table4),
    "table5": ("Table 5: comparison on ImageNet", imagenet_tables.table5),
    "table6": ("Table 6: outgoing weights", analyses.table6),
    "tableS1": ("Table S1: reconstruction ratios", analyses.table_s1),
    "networks": ("Tables S2 to S13: the networks", networks.networks),
    "gap": ("Section 4.1: training and test error", cifar_tables.gap),
    "figure1": ("Figure 1: filters and their pairs", pairs.figure1),
    "figure2": ("Figure 2: histograms of pairs", pairs.figure2),
    "figure3": ("Figure 3: histograms with CReLU", pairs.figure3),
    "figure4": ("Figure 4: invariance", invariance.figure4),
    "figure5": ("Figures 5 and S2: reconstructions", analyses.figure5),
    "theory": ("Theorems and claims", appendix.theory),
}


def write_report(
    home: Path,
    targets: Sequence[Target],
    scale: Scale,
    records: Records,
    means: Resources,
    command: str,
    *,
    keep: bool = False,
) -> Path:
    """Write home/report.html, whole or not at all, and its tables; give its path.

    keep    do not replace a report by one that lacks some of its tables
    """
    made = page(Context(home, scale, records, means.data, means.files), targets, command)
    home.mkdir(parents=True, exist_ok=True)
    write_tables(made, home / FOLDER, keep=keep)
    atomic_write_text(home / NAME, made)
    return home / NAME


def page(context: Context, targets: Sequence[Target], command: str) -> Html:
    parts = {
        "brief": ("In brief", cifar_tables.brief(context)),
        "reduced": ("What was reduced", appendix.reductions(context, targets)),
    }
    for target in targets:
        title, make = SECTIONS[target.name]
        parts[target.name] = (title, make(context))
    parts["curves"] = ("Learning curves", appendix.curves(context))
    parts["runs"] = ("How it was made", [tag("pre", tag("code", command)), *appendix.runs(context)])
    links = [tag("li", link(title.split(":")[0], f"#{name}")) for name, (title, _) in parts.items()]
    body = join(
        [
            tag("a", "To the results", href="#results", class_="skip"),
            header(context),
            tag("nav", tag("ul", links), aria_label="Contents"),
            tag(
                "main",
                [tag("section", tag("h2", title, id=name), content) for name, (title, content) in parts.items()],
                id="results",
            ),
            tag("footer", "Made by minicnn. Intervals are 95 %; errors are in percent, differences in points."),
        ]
    )
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"CReLU reproduced, scale {context.scale.name}"),
            tag("style", Html(Path(__file__).with_name("style.css").read_text())),
        ]
    )
    return join([Html("<!DOCTYPE html>\n"), tag("html", tag("head", head), tag("body", body), lang="en"), "\n"])


def header(context: Context) -> Html:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return tag(
        "header",
        tag("p", "minicnn ", minicnn.__version__, class_="kicker"),
        tag("h1", "The CReLU paper, reproduced"),
        tag("p", tag("cite", PAPER), " (Shang, Sohn, Almeida, Lee; ICML 2016)"),
        tag("p", tag("strong", f"Scale {context.scale.name}: "), f"{context.scale.what}. Written {made}."),
    )
