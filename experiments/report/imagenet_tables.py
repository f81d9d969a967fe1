"""Tables 4 and 5: errors on ImageNet, the paper's beside ours."""

from __future__ import annotations

from experiments.report.context import NOT_HERE, Context, Parts, not_comparable
from experiments.report.groups import Group, groups
from experiments.tables.html import note
from experiments.tables.table import Column, Table
from reference.paper import METHODS, TABLE_4, TABLE_5, parameter_counts

TOPS = {"top1": "top-1", "top5": "top-5", "top1_ten": "top-1, ten crops", "top5_ten": "top-5, ten crops"}


def table4(context: Context) -> Parts:
    made = {group.settings.variant: group for group in groups(context.scale.table4, context.records)}
    heads = [Column("network"), Column("runs", words=True)]
    heads += [Column(f"{who}: {text} %", ".2f") for text in TOPS.values() for who in ("ours", "paper")]
    lines = []
    for row in TABLE_4:
        group = made.get(row.model)
        runs = NOT_HERE if group is None else context.runs_of(group)
        lines.append([row.label, runs, *(x for name in TOPS for x in (_top(group, name), getattr(row, name)))])
    reduced = sorted({word for group in made.values() for run in group.finished.values() for word in run.reduced})
    words = "One network each: no interval, no claim. The paper trained (all) and (conv1,4,7) differently (E29)."
    own = context.data_of(context.scale.photo_pair.relu.settings)
    title = "Table 4: validation errors on ImageNet" + ("" if own == "ImageNet" else f" in the paper, {own} in ours")
    return [Table(heads, lines, title), note(words, not_comparable(reduced))]


def _top(group: Group | None, name: str) -> float | None:
    found = [run.result[name] for run in (group.finished.values() if group else ()) if name in run.result]
    return found[0] if found else None


def table5(context: Context) -> Parts:
    made = {group.settings.variant: group for group in groups(context.scale.table4, context.records)}
    heads = [Column("method"), Column("paper: parameters"), Column("ours, counted", ",")]
    heads += [*(Column(f"paper: {text} %", ".2f") for text in TOPS.values()), Column("ours: top-1 %", ".2f")]
    lines = []
    for row in TABLE_5:
        counts = parameter_counts("imagenet", row.model, "imagenet")
        ours = _top(made[row.model], "top1") if row.model in made else "others' work"
        printed = [getattr(row, name) for name in TOPS]
        name = METHODS.get(row.model, "CReLU " + row.label.removeprefix("CReLU "))
        lines.append([name, f"{row.params_millions:g} M", counts and counts.corrected, *printed, ours])
    words = "Our counts are for the full networks, with the tables corrected; the errors are those of Table 4."
    return [Table(heads, lines, "Table 5: comparison on ImageNet"), note(words)]
