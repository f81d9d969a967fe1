"""The theorems with their verdicts, learning curves, what was reduced, and how everything was made."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from experiments.cli.app import duration
from experiments.figures.charts import Line, line_chart
from experiments.report.cifar_tables import describe
from experiments.report.context import Context, Parts, absent, chart, read_results, read_rows
from experiments.report.groups import Group, families, groups, test_error
from experiments.reproduction.targets import TARGETS, Target, has_photographs
from experiments.statements.base import GAP, MISPRINT, SEVERITIES
from experiments.tables.html import Html, note, tag
from experiments.tables.table import Column, Links, Table

MODELS = {"convpool": "ConvPool-CNN-C", "vgg": "VGG"}
PROGRAMS = {"minicnn": "minicnn", "python": "Python", "numpy": "NumPy", "cupy": "CuPy"}
PICTURES = {
    "pooling_bounds.png": "Bounds of the reconstruction after max pooling, and what random cases reach",
    "subspace_means.png": "Mean ratio of a projection on a random subspace, by dimension",
    "rademacher.png": "Rademacher complexities of ReLU and CReLU layers, and the bounds",
}


def theory(context: Context) -> Parts:
    (step,) = context.analyses("theory")
    folder = context.records.analysis(step)
    if folder is None:
        return [absent("the statements were not checked.")]
    found = read_results(folder / "results.json").get("statements", [])
    statements = [one for one in found if isinstance(one, dict)]
    counts = Counter(str(one.get("verdict")) for one in statements)
    drawn = [context.picture(folder / name, words) for name, words in PICTURES.items()]
    total = "; ".join(f"{verdict}: {number}" for verdict, number in counts.items())
    parts: Parts = [tag("p", f"{len(statements)} statements were checked. As they are printed, {total}.")]
    for severity, means in {**SEVERITIES, "": ""}.items():  # a file of an older version has no severities
        if group := [one for one in statements if one.get("severity", "") == severity]:
            parts += [
                tag("h3", f"{severity.capitalize()}: {means}" if severity else "Statements"),
                *map(_statement, group),
            ]
    return [*parts, *drawn]


def _statement(one: dict[str, Any]) -> Html:
    """The verdict and the claim; why, and what is true instead, at a click.  A misprint is no false theorem."""
    verdict, mended = str(one.get("verdict", "?")), one.get("severity") in (GAP, MISPRINT)
    words = "false as printed" if verdict == "false" and mended else verdict
    kind = {"holds": "good", "false": "so-so" if mended else "bad"}.get(verdict, "so-so")
    return tag(
        "details",
        tag(
            "summary",
            tag("span", words, class_=f"verdict {kind}"),
            tag("strong", f" {one.get('where', '')}: "),
            one.get("says", ""),
        ),
        tag("p", tag("strong", "Why: "), one.get("witness", "")),
        tag("p", tag("strong", "Corrected: "), one["corrected"]) if one.get("corrected") else None,
        note(one.get("key", ""), *(f", {erratum}" for erratum in one.get("errata", []))),
    )


def curves(context: Context) -> Parts:
    """Training error by epoch, the mean over seeds, and where the test error ended."""
    found: Parts = []
    for family in families(groups(context.scale.trainings, context.records)):
        lines = {group.label: line for group in family if (line := _line(group)) is not None}
        if lines:
            s = family[0].settings
            what = f"All-CNN-B on {context.data_of(s)}" if s.PHOTOGRAPHS else describe(family[0])
            words = (
                f"{what}: error while training, with augmentation and dropout, by epoch; the dot is the test error at "
                "the end, without them. Means over seeds."
            )
            found.append(chart(line_chart(lines, x="epoch", y="error, %"), words))
    return found or [absent("no network is finished.")]


def _line(group: Group) -> Line | None:
    by_epoch: dict[float, list[float]] = {}
    for network in group.networks.values():
        for row in read_rows(network.folder / "metrics.csv"):
            try:
                epoch, error = float(row["epoch"]), float(row["train_error"])
            except ValueError:
                continue
            if math.isfinite(epoch) and math.isfinite(error):
                by_epoch.setdefault(epoch, []).append(error)
    test = group.interval(test_error)
    if not by_epoch or test is None:
        return None
    points = [(epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items())]
    return Line(points, (points[-1][0], test.mean))


def reductions(context: Context, targets: Sequence[Target]) -> Parts:
    """What is smaller than in the paper, and what is missing altogether."""
    lines = []
    for family in families(groups(context.scale.trainings, context.records)):
        finished = sum(len(group.finished) for group in family)
        planned = sum(len(group.trainings) for group in family)
        first = next((run for group in family for run in group.finished.values()), None)
        reduced = first.reduced if first else family[0].settings.reductions
        s = family[0].settings
        lines.append(
            [
                f"{context.data_of(s)}, {'All-CNN-B' if s.PHOTOGRAPHS else MODELS[s.model]}",
                ", ".join(group.label for group in family),
                f"{finished} of {planned}",
                ", ".join(reduced) or "nothing",
            ]
        )
    missing = [tag("li", tag("strong", f"{in_words(name)}: "), why) for name, why in context.scale.missing.items()]
    if not has_photographs(context.scale, context.files):
        missing.append(tag("li", tag("strong", "Table 4, Table 5: "), "not run: ImageNet was not given"))
    left = [target.name for target in TARGETS.values() if target not in targets]
    if left:
        missing.append(tag("li", tag("strong", "not asked for: "), ", ".join(map(in_words, left))))
    heads = [
        Column("data, network"),
        *(Column(w, words=True) for w in ("networks", "finished", "reduced against the paper")),
    ]
    return [
        tag("p", context.scale.meaning),
        Table(heads, lines, "What was reduced"),
        tag("ul", missing) if missing else tag("p", "Nothing is left out."),
    ]


def in_words(target: str) -> str:
    """Table 1 for table1."""
    return re.sub(r"^(table|figure)(?=[S\d])", lambda found: f"{found[0].capitalize()} ", target)


def runs(context: Context) -> Parts:
    """Every run: where, how, how long; and on what machines."""
    made = groups(context.scale.trainings, context.records)
    finished = {training: run for group in made for training, run in group.finished.items()}
    if not finished:
        return [absent("no run is finished.")]
    lines = []
    for training, run in finished.items():
        environment = run.config.get("environment", {})
        device = environment.get("device", "?") if isinstance(environment, dict) else "?"
        name = Links([(training.name, context.address(run.folder))])
        lines.append([name, str(training.settings.seed), device, duration(run.seconds), run.test_error])
    seconds = sum(run.seconds for run in finished.values())
    networks = [network for run in finished.values() for network in run.networks]
    environments = Counter(_environment(network.config.get("environment", {})) for network in networks)
    commands = [context.command(str(run.config.get("command", ""))) for run in finished.values()]
    heads = [*map(Column, ("run", "seed", "device", "training took")), Column("test error %", ".2f")]
    return [
        tag("p", f"{len(finished)} runs, {duration(seconds)} of training in all."),
        Table(heads, lines, "Runs"),
        tag("h3", "Computed with"),
        tag("ul", [tag("li", f"{text} ({count} networks)") for text, count in environments.items()]),
        tag(
            "details",
            tag("summary", "The commands of all runs"),
            tag("ol", [tag("li", tag("code", command)) for command in commands], class_="commands"),
        ),
    ]


def _environment(values: Any) -> str:
    """Programs and machine, in words; the files of a run have everything."""
    if not isinstance(values, dict):
        return "unknown"
    programs = [f"{name} {values[key]}" for key, name in PROGRAMS.items() if key in values]
    system = str(values.get("platform", "an unknown system")).partition("-")[0]
    machine = [system, str(values.get("processor", "an unknown processor")), f"{values.get('cores', '?')} cores"]
    return ", ".join([*programs, *machine, f"device {values.get('device', '?')}"])
