"""The theorems with their verdicts, learning curves, what was reduced, and how it was all made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from experiments.cli.app import duration
from experiments.report.charts import Line, line_chart
from experiments.report.cifar_tables import describe
from experiments.report.context import Context, absent, picture, read_results, read_rows
from experiments.report.groups import Group, families, groups
from experiments.reproduction.records import Record
from experiments.reproduction.targets import TARGETS, Target, has_photographs
from experiments.tables.html import Html, link, note, table, tag

PICTURES = {
    "pooling_bounds.png": "Bounds of the reconstruction after max pooling, and what random cases reach",
    "subspace_means.png": "Mean ratio of a projection on a random subspace, by dimension",
    "rademacher.png": "Rademacher complexities of ReLU and CReLU layers, and the bounds",
}


def theory(context: Context) -> list[Html]:
    (step,) = context.analyses("theory")
    folder = context.folder(step)
    if folder is None:
        return [absent("the statements were not checked.")]
    found = read_results(folder / "results.json").get("statements", [])
    statements = [one for one in found if isinstance(one, dict)]
    counts = Counter(str(one.get("verdict")) for one in statements)
    items = [
        tag(
            "details",
            tag("summary", tag("span", one.get("verdict", "?"), class_=_colour(one)), " ", one.get("where", "")),
            tag("p", one.get("says", "")),
            tag("p", tag("strong", "Why: "), one.get("witness", "")),
            tag("p", tag("strong", "Corrected: "), one["corrected"]) if one.get("corrected") else None,
            note(one.get("key", ""), *(f", {erratum}" for erratum in one.get("errata", []))),
        )
        for one in statements
    ]
    drawn = [picture(folder / name, words) for name, words in PICTURES.items()]
    total = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return [tag("p", f"{len(statements)} statements were checked: {total}."), *items, *drawn]


def _colour(one: dict[str, Any]) -> str:
    return "verdict " + {"holds": "good", "false": "bad"}.get(str(one.get("verdict")), "so-so")


def curves(context: Context) -> list[Html]:
    """Training error by epoch, the mean over seeds, and where the test error ended."""
    found = []
    for family in families(groups(context.scale.trainings, context.records)):
        lines = {group.label: line for group in family if (line := _line(group)) is not None}
        if lines:
            photos = not hasattr(family[0].settings, "model")
            what = f"All-CNN-B on {context.data_of(family[0].settings)}" if photos else describe(family[0])
            words = (
                f"{what}: error while training, with augmentation and dropout, by epoch; the dot is the test error at "
                "the end, without them. Means over seeds."
            )
            found.append(line_chart(words, lines, x="epoch", y="error, %"))
    return found or [absent("no network is finished.")]


def _line(group: Group) -> Line | None:
    by_epoch: dict[float, list[float]] = {}
    for run in group.runs.values():
        for row in read_rows(run.folder / "metrics.csv"):
            try:
                epoch, error = float(row["epoch"]), float(row["train_error"])
            except ValueError:
                continue
            if math.isfinite(epoch) and math.isfinite(error):
                by_epoch.setdefault(epoch, []).append(error)
    test = group.interval("test_error")
    if not by_epoch or test is None:
        return None
    points = [(epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items())]
    return Line(points, (points[-1][0], test.mean))


def reductions(context: Context, targets: Sequence[Target]) -> list[Html]:
    """What is smaller than in the paper, and what is not there at all."""
    lines = []
    for family in families(groups(context.scale.trainings, context.records)):
        finished = sum(len(group.records) for group in family)
        planned = sum(len(group.trainings) for group in family)
        first = next((record for group in family for record in group.records), None)
        reduced = first.reduced if first else family[0].settings.reductions
        s = family[0].settings
        lines.append(
            [
                f"{context.data_of(s)}, {getattr(s, 'model', 'All-CNN-B')}",
                ", ".join(group.label for group in family),
                f"{finished} of {planned}",
                ", ".join(reduced) or "nothing",
            ]
        )
    missing = [tag("li", tag("strong", f"{name}: "), why) for name, why in context.scale.missing.items()]
    if not has_photographs(context.scale, context.files):
        missing.append(tag("li", tag("strong", "table4, table5: "), "not run: needs --imagenet DIR"))
    left = [target.name for target in TARGETS.values() if target not in targets]
    if left:
        missing.append(tag("li", tag("strong", "not asked for: "), ", ".join(left)))
    head = ["data, network", "networks", "finished", "reduced against the paper"]
    return [
        tag("p", context.scale.meaning),
        table("What was reduced", head, lines, text=(1, 2, 3)),
        tag("ul", missing) if missing else tag("p", "Nothing is left out."),
    ]


def runs(context: Context) -> list[Html]:
    """Every run: where, how, how long; and on what machines."""
    records = [record for group in groups(context.scale.trainings, context.records) for record in group.records]
    if not records:
        return [absent("no run is finished.")]
    lines = [_run(context, record) for record in records]
    head = ["run", "seed", "device", "training took", "test error %"]
    seconds = sum(record.seconds for record in records)
    environments = Counter(_environment(run.config.get("environment", {})) for r in records for run in r.parts)
    commands = [tag("li", tag("code", record.parts[0].config.get("command", ""))) for record in records]
    return [
        tag("p", f"{len(records)} runs, {duration(seconds)} of training in all."),
        table("Runs", head, lines),
        tag("h3", "Computed with"),
        tag("ul", [tag("li", f"{text} ({count} networks)") for text, count in environments.items()]),
        tag("details", tag("summary", "The commands of all runs"), tag("ol", commands, class_="commands")),
    ]


def _run(context: Context, record: Record) -> list[Any]:
    environment = record.parts[0].config.get("environment", {})
    device = environment.get("device", "?") if isinstance(environment, dict) else "?"
    return [
        link(record.training.name, context.href(record.folder)),
        str(record.training.settings.seed),
        device,
        duration(record.seconds),
        f"{record.test_error:.2f}",
    ]


def _environment(values: Any) -> str:
    if not isinstance(values, dict):
        return "unknown"
    return ", ".join(f"{name} {value}" for name, value in values.items())
