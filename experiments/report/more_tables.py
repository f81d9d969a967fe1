"""Tables 4 and 5 (ImageNet), 6 (correlations), S1 (ratios), and the networks of the supplement with their counts."""

from __future__ import annotations

from typing import Any

from experiments.report.context import DATASETS, NOT_HERE, NOT_RUN, Context, absent, number, read_rows
from experiments.report.figures import picture
from experiments.report.groups import Group, groups
from experiments.report.html import Html, link, note, table, tag
from experiments.reproduction.steps import Step
from experiments.reproduction.targets import TARGETS
from experiments.settings import settings
from minicnn.models import allcnn_b
from reference import paper

TOPS = {"top1": "top-1", "top5": "top-5", "top1_ten": "top-1, ten crops", "top5_ten": "top-5, ten crops"}


def table4(context: Context) -> list[Html]:
    made = {group.settings.variant: group for group in groups(context.scale.table4, context.records)}
    head = ["network", "runs", *(f"{who}: {text} %" for text in TOPS.values() for who in ("ours", "paper"))]
    lines: list[list[Any]] = []
    for row in paper.TABLE_4:
        group = made.get(row.model)
        cells = [text for name in TOPS for text in (_top(group, name), f"{getattr(row, name):.2f}")]
        lines.append([row.label, NOT_HERE if group is None else context.runs_of(group), *cells])
    reduced = sorted({word for group in made.values() for record in group.records for word in record.reduced})
    words = "One network each: no interval, no claim. The paper trained (all) and (conv1,4,7) otherwise (E29)."
    if reduced:
        words += f" Not comparable with the paper: {', '.join(reduced)}."
    own = context.data_of(context.scale.photo_pair.relu.settings)
    title = "Table 4: validation errors on ImageNet" + ("" if own == "ImageNet" else f" in the paper, {own} in ours")
    return [table(title, head, lines, text=(1,)), note(words)]


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
    for row in paper.TABLE_5:
        counts = paper.parameter_counts("imagenet", row.model, "imagenet")
        printed = [number(getattr(row, name), 2) for name in TOPS]
        ours = _top(made[row.model], "top1") if row.model in made else "others' work"
        lines.append(
            [row.label, f"{row.params_millions:g} M", f"{counts.corrected:,}" if counts else "", *printed, ours]
        )
    words = "Counts are of the full networks with the tables corrected; the errors are those of Table 4."
    return [table("Table 5: comparison on ImageNet", head, lines), note(words)]


def table6(context: Context) -> list[Html]:
    papers = {row.label: row for row in paper.TABLE_6}
    head = ["layer", "|pair|", "|non-pair|", "random", "pair, signed", "paper: |pair|", "paper: |non-pair|"]
    found: list[Html] = []
    for step in _analyses(context, "table6"):
        found.append(tag("h3", context.title(step.of[0])))
        folder = context.folder(step)
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        lines = []
        for row in read_rows(folder / "correlation.csv"):
            own = papers.get(row["layer"])
            lines.append(
                [
                    row["layer"],
                    f"{number(row['pair_absolute'])} ± {number(row['pair_absolute_sd'])}",
                    f"{number(row['non_pair_absolute'])} ± {number(row['non_pair_absolute_sd'])}",
                    number(row["random_absolute"]),
                    f"{number(row['pair_signed'], sign='+')} ± {number(row['pair_signed_sd'])}",
                    f"{own.pair:.3f} ± {own.pair_error:.3f}" if own else "",
                    f"{own.non_pair:.3f} ± {own.non_pair_error:.3f}" if own else "",
                ]
            )
        found.append(table(f"Table 6: cosines of outgoing weights, {step.of[0].name}", head, lines))
        found.append(picture(folder / "correlation.png", "Signed cosines of the outgoing weights of pairs, by layer"))
        found.append(note("± is the standard deviation over filters; ", link("all numbers", context.href(folder)), "."))
    words = "The paper's are of CReLU (conv1-7) on ImageNet, and not comparable with other networks."
    return [*found, note(words)]


def table_s1(context: Context) -> list[Html]:
    papers = {(row.label, row.dataset): row for row in paper.TABLE_S1}
    head = ["layer", "data", "learned", "random filters", "simulated", "paper: learned", "paper: random"]
    lines: list[list[Any]] = []
    found: list[Html] = []
    for step in _analyses(context, "tableS1"):
        folder = context.folder(step)
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        for row in read_rows(folder / "ratios.csv"):
            own = papers.get((row["layer"], row["dataset"]))
            lines.append(
                [
                    f"{row['layer']}, {step.of[0].settings.label}",
                    DATASETS.get(row["dataset"], row["dataset"]),
                    f"{number(row['learned'], 4)} ± {number(row['learned_se'], 4)}",
                    f"{number(row['random'], 4)} ± {number(row['random_se'], 4)}",
                    number(row["simulated"]),
                    f"{own.learned:.2f}" if own else "",
                    f"{own.random:.2f}" if own else "",
                ]
            )
    words = (
        "||x - x'|| / ||x||, x' recovered after CReLU and max pooling by Algorithm 2; ± is the standard error over "
        "images, for random filters over banks. The ratios depend on the widths: those of reduced networks are not "
        "comparable with the paper's."
    )
    made = [table("Table S1: reconstruction ratios", head, lines, text=(1,)), note(words)] if lines else []
    return [*made, *found]


def _analyses(context: Context, target: str) -> list[Step]:
    return [step for step in TARGETS[target].steps(context.scale, context.files) if step.makes]


def networks(context: Context) -> list[Html]:
    """Every network of the supplement is built, and its parameters are counted."""
    families = {"convpool": paper.CONVPOOL, "vgg": paper.VGG, "imagenet": paper.IMAGENET}
    lines = []
    for row in paper.PARAMETERS:
        if row.family in families and row.dataset != "cifar100":
            known = families[row.family][row.key]  # type: ignore[index]
            ours = _count(row.family, row.key)
            lines.append(
                [
                    known.label,
                    known.table,
                    DATASETS[row.dataset],
                    f"{row.printed:,}" if row.printed else "",
                    f"{row.corrected:,}",
                    f"{ours:,}",
                    "" if row.published_millions is None else f"{row.published_millions:g} M",
                    "yes" if ours == row.corrected else "NO",
                ]
            )
    head = ["network", "table", "data", "as printed", "corrected", "ours, built", "paper says", "equal"]
    slips = [
        [
            correction.erratum,
            str(key),
            correction.layer,
            str(correction.printed),
            str(correction.corrected),
            correction.reason,
        ]
        for (_, key), corrections in paper.CORRECTIONS.items()
        for correction in corrections
        if correction.erratum != "E33"
    ]
    return [
        table("Tables S2 to S13: parameters of the networks", head, lines, text=(1, 2)),
        table(
            "What is corrected in the tables",
            ["erratum", "network", "layer", "printed", "corrected", "why"],
            slips,
            text=(1, 2, 3, 4, 5),
        ),
    ]


def _count(family: str, key: Any) -> int:
    if family == "imagenet":
        model = allcnn_b(key)
    elif family == "vgg":
        model = settings(model="vgg", act="crelu" if key else "relu", at=key).build_model()
    else:
        model = settings(act=key[0], width=key[1]).build_model()
    return sum(p.data.size for p in model.parameters())
