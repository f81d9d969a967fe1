"""The page: a section for every target, in the paper's order; written to report.html as one file with all in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import minicnn
from experiments.report import appendix, figures, more_tables, tables
from experiments.report.context import Context
from experiments.report.groups import compare, families, groups
from experiments.report.html import Html, join, note, tag
from experiments.reproduction.commands import Resources
from experiments.reproduction.records import Records
from experiments.reproduction.scales import BASE, HALF, Scale
from experiments.reproduction.targets import Target
from minicnn.analysis.statistics import verdict
from minicnn.checkpoint import atomic_write_text

NAME = "report.html"
PAPER = "Understanding and Improving Convolutional Neural Networks via Concatenated Rectified Linear Units"
SECTIONS: dict[str, tuple[str, Callable[[Context], list[Html]]]] = {
    "table1": ("Table 1: CIFAR-10 and CIFAR-100", tables.table1),
    "table2": ("Table 2: CIFAR with VGG", tables.table2),
    "table3": ("Table 3: comparison on CIFAR", tables.table3),
    "table4": ("Table 4: ImageNet", more_tables.table4),
    "table5": ("Table 5: comparison on ImageNet", more_tables.table5),
    "table6": ("Table 6: outgoing weights", more_tables.table6),
    "tableS1": ("Table S1: reconstruction ratios", more_tables.table_s1),
    "networks": ("Tables S2 to S13: the networks", more_tables.networks),
    "gap": ("Section 4.1: training and test error", tables.gap),
    "figure1": ("Figure 1: filters and their pairs", figures.figure1),
    "figure2": ("Figure 2: histograms of pairs", figures.figure2),
    "figure3": ("Figure 3: histograms with CReLU", figures.figure3),
    "figure4": ("Figure 4: invariance", figures.figure4),
    "figure5": ("Figures 5 and S2: reconstructions", figures.figure5),
    "theory": ("Theorems and claims", appendix.theory),
}


def write_report(
    home: Path, targets: Sequence[Target], scale: Scale, records: Records, means: Resources, command: str
) -> Path:
    """Write home/report.html, whole or not at all; give its path."""
    context = Context(home, scale, records, means.data, means.files)
    home.mkdir(parents=True, exist_ok=True)
    atomic_write_text(home / NAME, str(page(context, targets, command)))
    return home / NAME


def page(context: Context, targets: Sequence[Target], command: str) -> Html:
    parts = {
        "brief": ("In brief", brief(context)),
        "reduced": ("What was reduced", appendix.reductions(context, targets)),
    }
    for target in targets:
        title, make = SECTIONS[target.name]
        parts[target.name] = (title, make(context))
    parts["curves"] = ("Learning curves", appendix.curves(context))
    parts["runs"] = ("How it was made", [tag("pre", tag("code", command)), *appendix.runs(context)])
    links = [tag("li", tag("a", title.split(":")[0], href=f"#{name}")) for name, (title, _) in parts.items()]
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


def brief(context: Context) -> list[Html]:
    """The paper's main comparison in words, with nothing said that has no interval."""
    found: list[Html] = []
    for family in families(groups(context.scale.table1, context.records)):
        by_key = {tables.settings_key(group.settings): group for group in family}
        if BASE in by_key and HALF in by_key:
            made = compare(by_key[HALF], by_key[BASE], context.data)
            words = "No pair of these networks is finished."
            if made is not None:
                words = verdict(made.one.label, made.other.label, made.seeds, f"paired {made.one.unit}")
            sign = made.seeds.sign if made else 0
            kind = {-1: "good", 1: "bad", 0: "so-so"}[sign]
            found.append(
                tag("li", tag("strong", tables.describe(family[0])), tag("span", words), class_=f"card {kind}")
            )
    words = (
        "CReLU with half the filters against the ReLU baseline, which has twice as many parameters: the paper's main "
        "comparison, by test error. A claim is made only where an interval over seeds allows one."
    )
    reduced = any(training.settings.reductions for training in context.scale.table1)
    warning = note("These runs are smaller than the paper's: ", tag("a", "what that means", href="#reduced"), ".")
    return [tag("p", words), tag("ul", found, class_="cards"), *([warning] if reduced else [])]
