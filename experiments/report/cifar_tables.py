"""Errors on CIFAR: Tables 1 to 3 and section 4.1, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.cli.app import counted
from experiments.figures.charts import Bar, interval_chart
from experiments.report.context import (
    DATASETS,
    NOT_HERE,
    Context,
    Fold,
    Parts,
    absent,
    chart,
    data_name,
    not_comparable,
)
from experiments.report.groups import (
    Group,
    compare,
    differences,
    families,
    gap,
    groups,
    minutes,
    test_error,
    train_error,
)
from experiments.report.repeats import over
from experiments.reproduction.scales import BASE
from experiments.reproduction.steps import Training
from experiments.tables.html import note, tag
from experiments.tables.table import Column, Table
from experiments.train.cifar import PAPERS, CifarSettings
from minicnn.analysis.statistics import Interval
from minicnn.nn import describe as summarise
from reference.paper import METHODS, TABLE_1, TABLE_2, TABLE_3

BEHIND = "Ours: ± is half the 95 % interval of the mean over networks; the paper's ± is a standard error."


def paper_key(row: Any) -> Any:
    """What a row of the paper and the settings of its network have in common."""
    return row.at if hasattr(row, "at") else (row.act, row.width)


def settings_key(settings: Any) -> Any:
    return settings.at if settings.model == "vgg" else (settings.act, settings.width)


def paper_dataset(group: Group) -> str:
    """The data set whose rows in the paper stand beside it; CIFAR-10 for data that the paper does not use."""
    return group.settings.dataset if group.settings.dataset in PAPERS else "cifar10"


def table1(context: Context) -> Parts:
    return error_tables(context, TABLE_1, context.scale.table1, "Table 1")


def table2(context: Context) -> Parts:
    return error_tables(context, TABLE_2, context.scale.table2, "Table 2")


def error_tables(context: Context, paper: Sequence[Any], trainings: Sequence[Training], name: str) -> Parts:
    """Per data set of the paper: the networks that were trained alike, or a note that there are none."""
    found: Parts = []
    made = families(groups(trainings, context.records))
    for dataset in ("cifar10", "cifar100"):
        rows = [row for row in paper if row.dataset == dataset]
        here = [family for family in made if paper_dataset(family[0]) == dataset]
        title = f"{name}, {DATASETS[dataset]}"
        if not here:
            found.append(tag("h3", DATASETS[dataset]))
            found.append(absent("no network is trained on it at this scale."))
            found += _errors(context, title, rows, [], name)
        for family in here:
            how, own = describe(family[0]), family[0].settings.dataset == dataset
            caption = f"{name}: {how}" if own else f"{title} in the paper, ours: {how}"
            found += [tag("h3", how), *_errors(context, caption, rows, family, name)]
            found += comparisons(family, rows)
    return found


def describe(group: Group) -> str:
    """How its networks were trained, in words."""
    s, folds = group.settings, len(group.trainings[0].parts)
    width = "full width" if s.scale == 1 else f"widths x{s.scale:g}"
    how_long = counted(s.epochs, "epoch") + (f" of {counted(s.subset, 'image')}" if s.subset else "")
    protocol = {"plain": "", "single": ", protocol Single", "folds": f", {folds} folds"}[group.protocol]
    model = "VGG, " if s.model == "vgg" else ""
    return f"{data_name(s.dataset)}, {model}{width}, {s.how_trained}, {how_long}{protocol}"


def _errors(context: Context, title: str, rows: Sequence[Any], family: Sequence[Group], series: str) -> Parts:
    by_key = {settings_key(group.settings): group for group in family}
    train, votes = hasattr(rows[0], "train"), any(group.protocol == "folds" for group in family)
    heads = [Column("network"), Column("ours: test %", ".2f"), Column("ours: train %", ".2f")]
    heads += [Column("ours: vote %", ".2f")] if votes else []
    heads += [Column(f"paper: {name} %", ".2f") for name in ("Single", "Average", "Vote")]
    heads += [Column("paper: train %", ".2f")] if train else []
    heads += [Column("parameters", ","), Column("runs", words=True)]
    lines = []
    for row in rows:
        group = by_key.get(paper_key(row))
        average = Interval(row.average, row.average - row.average_error, row.average + row.average_error, 10)
        lines.append(
            [
                _name(row) if group is None else group.label,
                group and group.interval(test_error),
                group and group.interval(train_error),
                *([group and vote(group)] if votes else []),
                row.single,
                average,
                row.vote,
                *([row.train] if train else []),
                group.settings.parameters if group is not None and group.finished else None,
                NOT_HERE if group is None else context.runs_of(group),
            ]
        )
    reduced = family[0].settings.reductions if family else []
    return [Table(heads, lines, title, series), note(BEHIND, not_comparable(reduced))]


def _name(row: Any) -> str:
    """Our name for the network in a row of the paper."""
    if hasattr(row, "act"):
        return CifarSettings.of(act=row.act, width=row.width).label
    return f"VGG + CReLU {row.label}" if row.at else row.label


def vote(group: Group) -> float | None:
    """The vote of its first finished run with folds."""
    return next((float(run.result["vote"]) for run in group.finished.values() if "vote" in run.result), None)


def comparisons(family: Sequence[Group], rows: Sequence[Any]) -> Parts:
    """Each network against the baseline, which is the first row of the paper's table."""
    order = [paper_key(row) for row in rows]
    ordered = sorted(family, key=lambda group: order.index(settings_key(group.settings)))
    base = next((group for group in ordered if settings_key(group.settings) == order[0]), None)
    if base is None:
        return []
    found = [compare(group, base) for group in ordered if group is not base]
    made = [comparison for comparison in found if comparison is not None]
    if not made:
        return [absent("no comparison: it takes the baseline and another network with the same seed, both finished.")]
    heads = [Column("network"), Column("difference, points", "+.2f")]
    heads += [Column(f"95 % over {base.unit}", "+.2f", ends=True), Column("95 % over test images", "+.2f", ends=True)]
    heads.append(Column("pairs"))
    lines = [[c.one.label, c.seeds.mean, c.seeds, c.images, c.seeds.n] for c in made]
    if any(c.p is not None for c in made):
        heads.append(Column("McNemar: p", ".2g"))
        lines = [[*line, c.p] for line, c in zip(lines, made, strict=True)]
    folds = " Folds share most of their images, which makes their interval too short." if base.unit == "folds" else ""
    explained = (
        f"Over {base.unit}: Student's t on paired differences shows what a new training may give. Over test images: a "
        "paired bootstrap of these networks shows what other images may give. Each is a 95 % interval by itself: about "
        f"one in twenty misses. Differences are taken over the {base.unit} that both networks have: pairs.{folds}"
    )
    bars = [Bar(c.one.label, c.seeds.mean, c.seeds.low, c.seeds.high) for c in made]
    title = f"Test error minus that of {base.label}, in points, with 95 % intervals over {base.unit}"
    table = Table(heads, lines, f"Against {base.label}: {describe(base)}", "Against the baseline")
    words = tag("ul", [tag("li", c.verdict) for c in made])
    if all(bar.low is None for bar in bars):
        return [words, table, note(explained)]
    drawn = chart(interval_chart(bars, x="points", left="better", right="worse"), title)
    return [drawn, Fold("In words and numbers", [words, table, note(explained)])]


def table3(context: Context) -> Parts:
    """Others' numbers come from the paper; ours are those of Table 2, the vote where there are folds."""
    made = groups(context.scale.table2, context.records)
    at: dict[tuple[str, str], tuple[int, ...]] = {("vgg", "cifar10"): (), ("vgg", "cifar100"): ()}
    at |= {("vgg-crelu", "cifar10"): (1, 3), ("vgg-crelu", "cifar100"): (1, 3, 5)}

    def ours(model: str, dataset: str) -> Any:
        if (model, dataset) not in at:
            return "others' work"
        fitting = [g for g in made if g.settings.at == at[model, dataset] and paper_dataset(g) == dataset]
        best = max(fitting, key=lambda g: (bool(g.finished), g.protocol == "folds"), default=None)
        return NOT_HERE if best is None else vote(best) or best.interval(test_error)

    heads = [Column("method")]
    heads += [Column(f"{who}: {data} %", ".2f") for data in ("CIFAR-10", "CIFAR-100") for who in ("paper", "ours")]
    lines = [
        [METHODS.get(r.model, r.label), r.cifar10, ours(r.model, "cifar10"), r.cifar100, ours(r.model, "cifar100")]
        for r in TABLE_3
    ]
    words = (
        "The paper's VGG rows are votes of ten networks, the others single networks, and its VGG + CReLU row is two "
        "networks: CReLU at conv1, 3 for CIFAR-10 and at conv1, 3, 5 for CIFAR-100 (E26)."
    )
    reduced = made[0].settings.reductions if made else []
    return [Table(heads, lines, "Table 3: comparison on CIFAR"), note(words, not_comparable(reduced))]


def section_41(context: Context) -> Parts:
    """Training and test error of all finished networks of Table 1, and the gap between them."""
    papers = {(paper_key(row), row.dataset): row for row in TABLE_1}
    lines: list[list[Any]] = []
    reduced: dict[str, None] = {}
    for family in families(groups(context.scale.table1, context.records)):
        base = next((group for group in family if settings_key(group.settings) == BASE), None)
        for group in family:
            row = papers[settings_key(group.settings), paper_dataset(group)]
            ours = [group.interval(train_error), group.interval(test_error)]
            ours.append(group.interval(gap))
            against = "" if group is base or base is None else over(differences(group, base, gap))
            folds = f", {len(group.trainings[0].parts)} folds" if group.unit == "folds" else ""
            name = f"{context.title(group.trainings[0])}{folds}"
            lines.append([name, *ours, against, row.single - row.train])
        if any(group.finished for group in family):
            reduced |= dict.fromkeys(family[0].settings.reductions)
    heads = [Column("network"), Column("train %", ".2f"), Column("test %", ".2f"), Column("gap, points", ".2f")]
    heads += [Column("minus ReLU (base)", "+.2f"), Column("paper's gap", ".2f")]
    words = (
        "Gap: test error minus training error of the same network, both without augmentation and dropout; ± as in "
        "Table 1. Minus ReLU (base): how much larger the gap is than the baseline's, over the seeds or folds that both "
        "have. The paper finds a smaller gap for CReLU with as many filters and twice the parameters."
    )
    return [Table(heads, lines, "Section 4.1: training and test error"), note(words, not_comparable([*reduced]))]


def controls(context: Context) -> Parts:
    """Networks that differ in one thing from others, with what they cost."""
    made = {control.words: groups(control.trainings, context.records)[0] for control in context.scale.controls}
    if not made:
        return [absent("no control is trained at this scale.")]
    lines = []
    for control in context.scale.controls:
        group, reference = made[control.words], made.get(control.against)
        summary = summarise(group.settings.build_model(), group.settings.input)
        measured = [group.interval(measure) for measure in (minutes, train_error, test_error)]
        against = "" if reference is None else over(differences(group, reference, test_error))
        cost = [summary.parameters, summary.multiply_adds / 1e6, group.settings.epochs]
        lines.append([control.words, *cost, context.runs_of(group), *measured, control.against, against])
    heads = [Column("network"), Column("parameters", ","), Column("million multiply-adds", ".0f"), Column("epochs")]
    heads += [Column("runs", words=True), Column("minutes", ".0f")]
    heads += [Column("train %", ".2f"), Column("test %", ".2f"), Column("compared with", words=True)]
    heads.append(Column("difference, points", "+.2f"))
    words = (
        "All are trained by one recipe, but for what their names say. Multiply-adds are those of one image, forwards. "
        "Minutes are as they were, also where other work shared the machine. Differences are of test errors, over the "
        "seeds that both have."
    )
    first = next(iter(made.values()))
    reduced = first.settings.reductions
    return [Table(heads, lines, f"Controls: {describe(first)}", "Controls"), note(words, not_comparable(reduced))]
