"""The page: one section per target, in the paper's order; report.html, and its tables as CSV files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import minicnn
from experiments.cli.app import UsageError
from experiments.figures.illustration import compute, draw
from experiments.report import analyses, appendix, board, cifar_tables, imagenet_tables, invariance, networks, pairs
from experiments.report.context import Context, Fold, Parts, chart
from experiments.reproduction.targets import Target
from experiments.tables.html import Html, join, link, tag
from experiments.tables.table import Table, file_name, write_csv
from minicnn.checkpoint import atomic_write_text

Part = Html | Table | Fold
Sections = dict[str, tuple[str, Parts]]  # by name: title and content
NAME, TABLES = "report.html", "tables"
IDEA = (
    "The idea: a filter answers with positive and negative numbers. ReLU drops the negative ones; CReLU passes both "
    "halves on, and max pooling keeps the largest of each."
)
PAPER = "Understanding and Improving Convolutional Neural Networks via Concatenated Rectified Linear Units"
SECTIONS: dict[str, tuple[str, Callable[[Context], Parts]]] = {
    "table1": ("Table 1: CIFAR-10 and CIFAR-100", cifar_tables.table1),
    "table2": ("Table 2: CIFAR with VGG", cifar_tables.table2),
    "table3": ("Table 3: comparison on CIFAR", cifar_tables.table3),
    "table4": ("Table 4: ImageNet", imagenet_tables.table4),
    "table5": ("Table 5: comparison on ImageNet", imagenet_tables.table5),
    "table6": ("Table 6: outgoing weights", analyses.table6),
    "tableS1": ("Table S1: reconstruction ratios", analyses.table_s1),
    "networks": ("Tables S2 to S13: the networks", networks.networks),
    "gap": ("Section 4.1: training and test error", cifar_tables.section_41),
    "controls": ("Controls: what explains these comparisons", cifar_tables.controls),
    "figure1": ("Figure 1: filters and their pairs", pairs.figure1),
    "figure2": ("Figure 2: histograms of pairs", pairs.figure2),
    "figure3": ("Figure 3: histograms with CReLU", pairs.figure3),
    "figure4": ("Figure 4: invariance", invariance.figure4),
    "figure5": ("Figures 5 and S2: reconstructions", analyses.figure5),
    "theory": ("Theorems and claims", appendix.theory),
}


def write_report(context: Context, targets: Sequence[Target], command: str, *, keep: bool = False) -> Path:
    """Write report.html, whole or not at all, and its tables into the folder of the context; return its path.

    keep    do not replace a report with one that lacks some of its tables
    """
    sections = sections_of(context, targets, command)
    tables = tables_of(sections)
    if keep and (lost := sorted(old_tables(context) - by_series(tables).keys())):
        raise UsageError(
            f"{context.home / TABLES} has tables that this report lacks, so the report there was left unchanged: "
            f"{', '.join(lost)}.  Name their targets too (--report runs nothing), or remove them"
        )
    context.home.mkdir(parents=True, exist_ok=True)
    write_tables(tables, context)
    atomic_write_text(context.home / NAME, page(context, sections))
    return context.home / NAME


def check_tables(context: Context, targets: Sequence[Target]) -> None:
    """UsageError if a report with `keep` would be refused whatever is still trained: better before that than after."""
    if not (old := old_tables(context)):
        return
    if lost := sorted(old - by_series(tables_of(sections_of(context, targets, ""))).keys()):
        raise UsageError(
            f"{context.home / TABLES} has tables that a report on these targets would lack: {', '.join(lost)}.  "
            "Name their targets too, or export to another folder; nothing was done"
        )


def tables_of(sections: Sections) -> list[Table]:
    return [table for _, parts in sections.values() for table in tables_in(parts)]


def old_tables(context: Context) -> set[str]:
    """The files of the tables that are there."""
    return {path.name for path in (context.home / TABLES).glob("*.csv")}


def by_series(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """By the name of their file."""
    series: dict[str, list[Table]] = {}
    for table in tables:
        series.setdefault(f"{file_name(table.series or table.caption)}.csv", []).append(table)
    return series


def write_tables(tables: Sequence[Table], context: Context) -> None:
    """One CSV file per series of tables, and all as Markdown; old CSV files are removed."""
    folder, series = context.home / TABLES, by_series(tables)
    old = old_tables(context) - series.keys()
    folder.mkdir(parents=True, exist_ok=True)
    for name, of_one in series.items():
        atomic_write_text(folder / name, write_csv(of_one))
    for name in old:
        (folder / name).unlink(missing_ok=True)
    shown = "\n".join(f"## {table.caption}\n\n{table.markdown()}" for table in tables)
    atomic_write_text(folder / "README.md", f"# The tables of the report\n\n{shown}")


def tables_in(parts: Iterable[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Fold):
            yield from tables_in(part.parts)
        elif isinstance(part, Table):
            yield part


def shown(part: Part) -> Html:
    if isinstance(part, Fold):
        return tag("details", tag("summary", part.summary), [shown(inner) for inner in part.parts])
    return part.html() if isinstance(part, Table) else part


def sections_of(context: Context, targets: Sequence[Target], command: str) -> Sections:
    parts: Sections = {
        "brief": ("In brief", board.board(context)),
        "reduced": ("What was reduced", appendix.reductions(context, targets)),
    }
    for target in targets:
        title, make = SECTIONS[target.name]
        parts[target.name] = (title, make(context))
    parts["curves"] = ("Learning curves", appendix.curves(context))
    parts["runs"] = ("How it was made", [tag("pre", tag("code", context.command(command))), *appendix.runs(context)])
    return parts


def page(context: Context, sections: Sections) -> Html:
    links = [tag("li", link(title.split(":")[0], f"#{name}")) for name, (title, _) in sections.items()]
    made = [
        tag("section", tag("h2", title, id=name), [shown(part) for part in parts])
        for name, (title, parts) in sections.items()
    ]
    body = join(
        [
            tag("a", "To the results", href="#results", class_="skip"),
            header(context, board.tally(sections["brief"][1])),
            tag("nav", tag("ul", links), aria_label="Contents"),
            tag("main", made, id="results"),
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


def header(context: Context, result: Html | None) -> Html:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return tag(
        "header",
        tag("p", "minicnn ", minicnn.__version__, class_="kicker"),
        tag("h1", "The CReLU paper, reproduced"),
        tag("p", tag("cite", PAPER), " (Shang, Sohn, Almeida, Lee; ICML 2016)"),
        tag("p", tag("strong", f"Scale {context.scale.name}: "), f"{context.scale.what}. Written {made}."),
        result,
        chart(draw(compute()), IDEA),
    )
