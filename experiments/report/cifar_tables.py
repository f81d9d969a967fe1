"""Errors on CIFAR: the main comparison, Tables 1 to 3 and section 4.1, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.report.charts import Bar, interval_chart
from experiments.report.context import DATASETS, NOT_HERE, NOT_RUN, Context, absent, not_comparable, plus_minus
from experiments.report.groups import Comparison, Group, Unit, compare, families, groups
from experiments.reproduction.scales import BASE, HALF
from experiments.reproduction.steps import Training
from experiments.tables.html import Html, join, link, note, table, tag
from experiments.train.cifar import settings
from minicnn.analysis.statistics import Interval, paired_difference
from reference.paper import TABLE_1, TABLE_2, TABLE_3


def paper_key(row: Any) -> Any:
    """What a row of the paper and the settings of its network have in common."""
    return row.at if hasattr(row, "at") else (row.act, row.width)


def settings_key(settings: Any) -> Any:
    return settings.at if settings.model == "vgg" else (settings.act, settings.width)


def paper_dataset(group: Group) -> str:
    """The data set whose rows of the paper stand beside it."""
    return "cifar10" if group.settings.dataset == "textures" else group.settings.dataset


def brief(context: Context) -> list[Html]:
    """The paper's main comparison in words, with nothing said that has no interval."""
    cards: list[Html] = []
    for family in families(groups(context.scale.table1, context.records)):
        by_key = {settings_key(group.settings): group for group in family}
        if BASE in by_key and HALF in by_key:
            made = compare(by_key[HALF], by_key[BASE], context.data)
            words = made.verdict if made else "No pair of these networks is finished."
            kind = {-1: "good", 1: "bad", 0: "so-so"}[made.seeds.sign if made else 0]
            cards.append(tag("li", tag("strong", describe(family[0])), tag("span", words), class_=f"card {kind}"))
    words = (
        "CReLU with half the filters against the ReLU baseline, which has twice as many parameters: the paper's main "
        "comparison, by test error. A claim is made only where an interval over seeds allows one."
    )
    reduced = any(training.settings.reductions for training in context.scale.table1)
    warning = note("These runs are smaller than the paper's: ", link("what that means", "#reduced"), ".")
    return [tag("p", words), tag("ul", cards, class_="cards"), *([warning] if reduced else [])]


def table1(context: Context) -> list[Html]:
    return error_tables(context, TABLE_1, context.scale.table1, "Table 1")


def table2(context: Context) -> list[Html]:
    return error_tables(context, TABLE_2, context.scale.table2, "Table 2")


def error_tables(context: Context, paper: Sequence[Any], trainings: Sequence[Training], name: str) -> list[Html]:
    """For each data set of the paper, the networks that were trained alike; or that there are none."""
    found: list[Html] = []
    made = families(groups(trainings, context.records))
    for dataset in ("cifar10", "cifar100"):
        rows = [row for row in paper if row.dataset == dataset]
        here = [family for family in made if paper_dataset(family[0]) == dataset]
        title = f"{name}, {DATASETS[dataset]}"
        if not here:
            found.append(tag("h3", DATASETS[dataset]))
            found.append(absent("no network is trained on it at this scale."))
            found.append(_table(context, title, rows, []))
        for family in here:
            how, own = describe(family[0]), family[0].settings.dataset == dataset
            caption = f"{name}: {how}" if own else f"{title} in the paper, ours: {how}"
            found += [tag("h3", how), _table(context, caption, rows, family)]
            found += comparisons(context, family, rows)
    return found


def describe(group: Group) -> str:
    """How its networks were trained, in words."""
    s, folds = group.settings, len(group.trainings[0].parts)
    width = "full width" if s.scale == 1 else f"widths x{s.scale:g}"
    some = f" of {s.subset} images" if s.subset else ""
    protocol = {"plain": "", "single": ", protocol Single", "folds": f", {folds} folds"}[group.protocol]
    model = "VGG, " if s.model == "vgg" else ""
    return f"{DATASETS[s.dataset]}, {model}{width}, recipe {s.recipe}, {s.epochs} epochs{some}{protocol}"


def _table(context: Context, title: str, rows: Sequence[Any], family: Sequence[Group]) -> Html:
    by_key = {settings_key(group.settings): group for group in family}
    train = hasattr(rows[0], "train")
    head = ["network", "parameters", "runs", "ours: train %", "ours: test %"]
    head += [*(["paper: train %"] if train else []), "paper: Single %", "paper: Average %", "paper: Vote %"]
    lines = []
    for row in rows:
        group = by_key.get(paper_key(row))
        lines.append(
            [
                _name(row) if group is None else group.label,
                f"{group.parameters:,}" if group is not None and group.records else "",
                NOT_HERE if group is None else context.runs_of(group),
                NOT_RUN if group is None else plus_minus(group.interval("train_error")),
                NOT_RUN if group is None else _test(group),
                *([f"{row.train:.2f}"] if train else []),
                f"{row.single:.2f}",
                f"{row.average:.2f} ± {row.average_error:.2f}",
                f"{row.vote:.2f}",
            ]
        )
    reduced = family[0].settings.reductions if family else []
    behind = "Ours: ± is half the 95 % interval of the mean over networks; the paper's ± is a standard error."
    return join([table(title, head, lines, text=(2,)), note(behind, not_comparable(reduced))])


def _name(row: Any) -> str:
    """As we call the network of a row of the paper."""
    return settings(act=row.act, width=row.width).label if hasattr(row, "act") else row.label


def _test(group: Group) -> Html | str:
    """Of folds also the vote."""
    votes = [f"{record.result['vote']:.2f}" for record in group.records if "vote" in record.result]
    return join([plus_minus(group.interval("test_error")), f"; vote {', '.join(votes)}" if votes else None])


def comparisons(context: Context, family: Sequence[Group], rows: Sequence[Any]) -> list[Html]:
    """Each network against the baseline, which is the first row of the paper's table."""
    order = [paper_key(row) for row in rows]
    ordered = sorted(family, key=lambda group: order.index(settings_key(group.settings)))
    base = next((group for group in ordered if settings_key(group.settings) == order[0]), None)
    if base is None:
        return []
    found = [compare(group, base, context.data) for group in ordered if group is not base]
    made = [comparison for comparison in found if comparison is not None]
    if not made:
        return [absent("no comparison: the baseline and another network, with the same seed, must be finished.")]
    bars = [Bar(c.one.label, c.seeds.mean, c.seeds.low, c.seeds.high) for c in made]
    title = f"Test error less that of {base.label}, in points, with 95 % intervals over {base.unit}; left is better"
    p = any(c.p is not None for c in made)
    lines = [[c.one.label, *_cells(c, p)] for c in made]
    head = ["network", "difference, points", f"95 % over {base.unit}", "95 % over test images"]
    head += ["McNemar: p"] if p else []
    verdicts = [tag("li", c.verdict) for c in made]
    caption = f"Against {base.label}: {describe(base)}"
    folds = " Folds share most of their images, which makes their interval too short." if base.unit == "folds" else ""
    explained = (
        f"Over {base.unit}: Student's t on paired differences, what a new training may give. Over test images: paired "
        "bootstrap of these networks, what other images may give. Each interval covers with 95 % by itself; of twenty, "
        f"one misses.{folds}"
    )
    chart = [interval_chart(title, bars, x="points")] if any(bar.low is not None for bar in bars) else []
    return [tag("ul", verdicts), *chart, table(caption, head, lines), note(explained)]


def _cells(c: Comparison, p: bool) -> list[str]:
    """The last, where it is asked for: of one pair of networks, how likely such a difference is by chance."""
    last = "-" if c.p is None else f"{c.p:.2g}"
    return [f"{c.seeds.mean:+.2f}", _range(c.seeds), _range(c.images), *([last] if p else [])]


def _range(interval: Interval | None) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return "none"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"


def table3(context: Context) -> list[Html]:
    """Others' numbers are the paper's; ours are those of Table 2, the vote where there are folds."""
    made = groups(context.scale.table2, context.records)
    at: dict[tuple[str, str], tuple[int, ...]] = {("vgg", "cifar10"): (), ("vgg", "cifar100"): ()}
    at |= {("vgg-crelu", "cifar10"): (1, 3), ("vgg-crelu", "cifar100"): (1, 3, 5)}

    def ours(model: str, dataset: str) -> Any:
        if (model, dataset) not in at:
            return "others' work"
        fitting = [g for g in made if g.settings.at == at[model, dataset] and paper_dataset(g) == dataset]
        best = max(fitting, key=lambda g: (bool(g.records), g.protocol == "folds"), default=None)
        return NOT_HERE if best is None else _test(best)

    head = ["method", "paper: CIFAR-10 %", "ours: CIFAR-10 %", "paper: CIFAR-100 %", "ours: CIFAR-100 %"]
    lines = [
        [r.label, f"{r.cifar10:.2f}", ours(r.model, "cifar10"), f"{r.cifar100:.2f}", ours(r.model, "cifar100")]
        for r in TABLE_3
    ]
    words = (
        "The paper's VGG rows are votes of ten networks, the others single networks, and its VGG + CReLU row is two "
        "networks: CReLU at conv1, 3 for CIFAR-10 and at conv1, 3, 5 for CIFAR-100 (E26)."
    )
    reduced = made[0].settings.reductions if made else []
    return [table("Table 3: comparison on CIFAR", head, lines), note(words, not_comparable(reduced))]


def gap(context: Context) -> list[Html]:
    """Training and test error of all finished networks of Table 1, and what lies between them."""
    papers = {(paper_key(row), row.dataset): row for row in TABLE_1}
    lines: list[list[Any]] = []
    reduced: dict[str, None] = {}
    for family in families(groups(context.scale.table1, context.records)):
        base = next((group for group in family if settings_key(group.settings) == BASE), None)
        for group in family:
            row = papers[settings_key(group.settings), paper_dataset(group)]
            train, test = group.interval("train_error"), group.interval("test_error")
            ours = [plus_minus(found) for found in (train, test, group.interval("test_error", less="train_error"))]
            less = "" if group is base or base is None else plus_minus(_gap_less(group, base), sign="+")
            name = f"{group.label}, {DATASETS[group.settings.dataset]}"
            lines.append([name, *ours, less, f"{row.single - row.train:.2f}"])
        reduced |= dict.fromkeys(family[0].settings.reductions)
    head = ["network", "train %", "test %", "gap, points", "less ReLU (base)", "paper's gap"]
    words = (
        "Gap: test error less training error, of the same network, both without augmentation and dropout; ± as in "
        "Table 1. Less ReLU (base): how much larger it is than the baseline's, by networks of the same seed. The paper "
        "finds a smaller gap for CReLU, with as many filters and twice the parameters."
    )
    return [table("Section 4.1: training and test error", head, lines), note(words, not_comparable([*reduced]))]


def _gap_less(group: Group, base: Group) -> Interval | None:
    """The gap of a network less that of the baseline, over what both have."""

    def gap(of: Group, unit: Unit) -> float:
        result = of.runs[unit].result
        return float(result["test_error"]) - float(result["train_error"])

    units = [unit for unit in group.runs if unit in base.runs]
    own, others = ([gap(of, unit) for unit in units] for of in (group, base))
    return paired_difference(own, others) if units else None
