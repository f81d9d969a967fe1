"""Tables 4 and 5: errors on ImageNet, the paper's beside ours."""

from __future__ import annotations

from typing import Any

from experiments.report.context import NOT_HERE, NOT_RUN, Context, not_comparable, number
from experiments.report.groups import Group, groups
from experiments.tables.html import Html, note, table
from reference.paper import TABLE_4, TABLE_5, parameter_counts

TOPS = {"top1": "top-1", "top5": "top-5", "top1_ten": "top-1, ten crops", "top5_ten": "top-5, ten crops"}


def table4(context: Context) -> list[Html]:
    made = {group.settings.variant: group for group in groups(context.scale.table4, context.records)}
    head = ["network", "runs", *(f"{who}: {text} %" for text in TOPS.values() for who in ("ours", "paper"))]
    lines: list[list[Any]] = []
    for row in TABLE_4:
        group = made.get(row.model)
        cells = [text for name in TOPS for text in (_top(group, name), f"{getattr(row, name):.2f}")]
        lines.append([row.label, NOT_HERE if group is None else context.runs_of(group), *cells])
    reduced = sorted({word for group in made.values() for record in group.records for word in record.reduced})
    words = "One network each: no interval, no claim. The paper trained (all) and (conv1,4,7) otherwise (E29)."
    own = context.data_of(context.scale.photo_pair.relu.settings)
    title = "Table 4: validation errors on ImageNet" + ("" if own == "ImageNet" else f" in the paper, {own} in ours")
    return [table(title, head, lines, text=(1,)), note(words, not_comparable(reduced))]


def _top(group: Group | None, name: str) -> str:
    values = [record.result[name] for record in (group.records if group else ()) if name in record.result]
    return number(values[0], 2) if values else NOT_RUN


def table5(context: Context) -> list[Html]:
    made = {group.settings.variant: group for group in groups(context.scale.table4, context.records)}
    head = [
        "method",
        "paper: parameters",
        "ours, counted",
        *(f"paper: {text} %" for text in TOPS.values()),
        "ours: top-1 %",
    ]
    lines = []
    for row in TABLE_5:
        counts = parameter_counts("imagenet", row.model, "imagenet")
        printed = [number(getattr(row, name), 2) for name in TOPS]
        ours = _top(made[row.model], "top1") if row.model in made else "others' work"
        lines.append(
            [row.label, f"{row.params_millions:g} M", f"{counts.corrected:,}" if counts else "", *printed, ours]
        )
    words = "Counts are of the full networks with the tables corrected; the errors are those of Table 4."
    return [table("Table 5: comparison on ImageNet", head, lines), note(words)]
