"""The questions of the paper, each with an answer: what it claims, what we measured, a verdict, and how sure that is.

Every question comes down to one number per pair of networks of the same seed, such as the difference of their test
errors.  Its mean has a 95 % interval over seeds, and the verdict follows from where that interval is:

    shown           all of it is where the claim puts it
    the opposite    all of it is on the other side
    not shown       it reaches both sides: there may be an effect, too small for these networks to show
    undecided       one pair of networks has no interval, and pairs with equal values have none

A claim that something is no more than something else cannot be shown in this way; it is contradicted, or not.

While some of the planned pairs are missing, a verdict is interim: who looks after every pair, and stops at the first
verdict, is wrong more often than 95 % say.

What is measured layer by layer enters as the mean over layers.  Such a mean can hide that layers differ, so the board
also counts the layers that are by themselves above and below; the sections after it have every layer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.report import analyses, invariance, pairs
from experiments.report.cifar_tables import describe, paper_dataset, settings_key
from experiments.report.context import Context, Fold, Parts, absent
from experiments.report.groups import Group, differences, families, gap, groups, planned_pairs, test_error
from experiments.report.repeats import Repeats, minus, repeats, signs
from experiments.reproduction.scales import AVR, BASE, HALF
from experiments.tables.html import Html, link, note, tag
from experiments.tables.table import Badge, Column, Table
from minicnn.analysis.statistics import Interval, holm, t_interval, t_test
from reference.paper import TABLE_6, TABLE_S1, CifarRow, cifar_result

FULL = ("crelu", "base")
LARGE = 0.5  # a cosine that is not "far below 1"
SHOWN, OPPOSITE, NOT_SHOWN, UNDECIDED, OPEN = "shown", "the opposite", "not shown", "undecided", "not measured yet"
CONTRADICTED, NOT_CONTRADICTED = "contradicted", "not contradicted"
KINDS = {SHOWN: "good", OPPOSITE: "bad", CONTRADICTED: "bad"}  # colours; the others are so-so


@dataclass(frozen=True)
class Question:
    """`values` has one number per pair of networks that is finished; `planned` is how many there will be.

    sign      where the claim puts their mean: above `null` (1), below it (-1), or not below it (0)
    layers    the numbers of which `values` are the means, by layer and pair; NaN where a layer has none
    """

    ask: str
    claim: str
    measured: str
    sign: int
    values: Sequence[float]
    planned: int
    null: float = 0.0
    layers: Sequence[Sequence[float]] = ()
    interval: Interval | None = field(init=False)
    p: float | None = field(init=False)

    def __post_init__(self) -> None:
        known = [value for value in self.values if math.isfinite(value)]
        object.__setattr__(self, "interval", t_interval(known) if known else None)
        object.__setattr__(self, "p", t_test([x - self.null for x in known]) if len(known) > 1 else None)

    @classmethod
    def of_layers(
        cls,
        ask: str,
        claim: str,
        measured: str,
        sign: int,
        layers: Iterable[Sequence[float]],
        planned: int,
        null: float = 0.0,
    ) -> Question:
        """About a mean over layers; a layer that no pair has does not count."""
        known = [row for row in layers if any(map(math.isfinite, row))]
        return cls(ask, claim, measured, sign, over_layers(known), planned, null, known)

    @property
    def by_layer(self) -> str:
        """How many layers are by themselves above and below `null`."""
        if len(self.layers) < 2 or len(self.values) < 2:
            return ""
        found = Counter(signs(self.layers, self.null))
        return f"{found[1]} above {self.null:g}, {found[-1]} below, of {len(self.layers)}"

    @property
    def interim(self) -> bool:
        """Whether some pairs are measured, and others are still to come."""
        return self.interval is not None and self.interval.n < self.planned

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return OPEN
        if self.interval.low is None or self.interval.high is None:
            return UNDECIDED
        above, below = self.interval.low > self.null, self.interval.high < self.null
        if self.sign == 0:
            return CONTRADICTED if below else NOT_CONTRADICTED
        if not above and not below:
            return NOT_SHOWN
        return SHOWN if above == (self.sign > 0) else OPPOSITE


def board(context: Context) -> Parts:
    """One table of questions per set of networks that were trained alike."""
    words = (
        "What the paper claims, question by question, and what these networks show. A verdict is given only where "
        "a 95 % interval over seeds allows one; 'at once' means that it stands when Holm's method allows for the "
        "number of questions. Where layers are measured, the answer is about their mean; 'layers' counts those that "
        "are by themselves above and below 0, or the limit that is named (Holm's method allows for their number)."
    )
    found: Parts = [tag("p", words)]
    made = families(groups(context.scale.table1, context.records))
    asked = [family for family in made if family[0].protocol != "folds"]  # folds share images: no interval over seeds
    of_families = [[*questions(context, family)] for family in asked]
    tables = [table(describe(family[0]), own) for family, own in zip(asked, of_families, strict=True)]
    found += tables[:1] or [absent("no network of Table 1 is trained at this scale.")]
    found += [Fold(one.caption, [one]) for one in tables[1:]]
    if any(question.interim for own in of_families for question in own):
        found.append(note("Interim: some of the planned pairs are not trained or not analysed yet."))
    if any(training.settings.reductions for training in context.scale.table1):
        found.append(note("These runs are not the paper's: ", link("what that means", "#reduced"), "."))
    return found


def tally(parts: Parts) -> Html | None:
    """How often each verdict is given in the first table of the board: its result in one line."""
    first = next((part for part in parts if isinstance(part, Table)), None)
    if first is None:
        return None
    counts = Counter(badge for _, badge, *_ in first.rows)
    found = [
        tag("span", f"{number} {words}", class_=f"verdict {kind}") for (words, kind), number in counts.most_common()
    ]
    interim = " (some answers are interim)" if any("interim" in str(sure) for *_, sure in first.rows) else ""
    asked = f"{len(first.rows)} questions of the paper{interim}: "
    return tag("p", asked, *found, link("the board", "#brief"), class_="tally")


def table(how: str, asked: Sequence[Question]) -> Table:
    ps = [1.0 if question.p is None else question.p for question in asked]  # what is not measured yet was asked, too
    safe = {p for p, shown in zip(ps, holm(ps), strict=True) if shown}
    heads = [Column("question"), *(Column(head, words=True) for head in ("verdict", "the paper", "measured"))]
    heads += [Column("ours", "+.3f"), Column("95 % interval", "+.3f", ends=True)]
    heads += [Column(head, words=True) for head in ("layers", "how sure")]
    lines = [
        [
            q.ask,
            Badge(q.verdict, KINDS.get(q.verdict, "so-so")),
            q.claim,
            q.measured,
            q.interval and q.interval.mean,
            q.interval,
            q.by_layer,
            sure(q, safe, len(ps)),
        ]
        for q in asked
    ]
    return Table(heads, lines, f"The paper's questions: {how}", "Board")


def sure(question: Question, safe: set[float], asked: int) -> str:
    """`safe` are the p-values that still show something when Holm's method allows for all that were asked."""
    if question.interval is None:
        return ""
    n, p = question.interval.n, question.p
    pairs = f"{n} of {question.planned} pairs, interim" if question.interim else "one pair" if n == 1 else f"{n} pairs"
    if p is None:
        return pairs
    if question.interval.half is None:
        return f"{pairs}, all alike: no interval"
    allowed = f"; also for all {asked} at once" if p in safe else f"; not for all {asked} at once" if p <= 0.05 else ""
    return f"{pairs}, p {'< 0.0001' if p < 1e-4 else f'= {p:.2g}'}{allowed}"


def questions(context: Context, family: Sequence[Group]) -> Iterator[Question]:
    """Those that networks of this family, trained or planned, can answer."""
    by_key = {settings_key(group.settings): group for group in family}
    yield from _errors(by_key)
    alike = family[0].settings.trained_alike

    def analysed(target: str) -> Repeats | None:
        """The analyses of this family's pairs."""
        return next((one for one in repeats(context, target) if one.of and _alike(one, alike)), None)

    if (networks := analysed("figure3")) is not None:
        yield from _pairs(networks)
    if (networks := analysed("table6")) is not None:
        yield _phases(networks)
    if (networks := analysed("figure4")) is not None:
        yield from _invariance(networks)
    if (networks := analysed("tableS1")) is not None:
        yield _pooling(networks)


def _alike(networks: Repeats, alike: object) -> bool:
    first = networks.of[0].settings
    return not first.PHOTOGRAPHS and first.trained_alike == alike


def _errors(by_key: dict[Any, Group]) -> Iterator[Question]:
    """Tables 1 and section 4.1: each network that is planned, against the ReLU baseline."""
    base = by_key.get(BASE)
    if base is None:
        return
    data = paper_dataset(base)
    names = {
        HALF: "CReLU (half) better than ReLU (base), with half of its parameters",
        FULL: "CReLU (base) better than ReLU (base), with the same filters",
        AVR: "AVR (base) better than ReLU (base)",
    }
    for key, name in names.items():
        if key in by_key:
            ours, relu = _paper(key, data), _paper(BASE, data)
            claim = f"yes: {ours.single:.2f} % against {relu.single:.2f} %"
            values, planned = differences(by_key[key], base, test_error), planned_pairs(by_key[key], base)
            yield Question(f"Is {name}?", claim, "test error minus ReLU's, points", -1, values, planned)
    for key, name in ((FULL, "CReLU (base)"), (HALF, "CReLU (half)")):
        if key in by_key:
            wide, narrow = (row.single - row.train for row in (_paper(BASE, data), _paper(key, data)))
            values, planned = differences(by_key[key], base, gap), planned_pairs(by_key[key], base)
            claim = f"yes: {narrow:.2f} points against {wide:.2f}"
            ask = f"Is the gap between training and test error smaller with {name}?"
            yield Question(ask, claim, "gap minus ReLU's, points", -1, values, planned)


def _paper(key: tuple[str, str], dataset: str) -> CifarRow:
    found = cifar_result(*key, dataset)
    assert found is not None
    return found


def over_layers(rows: Iterable[Sequence[float]]) -> list[float]:
    """By layer and seed: the mean over layers, one per seed, NaN for one that lacks a layer which others have."""
    return [sum(of_seed) / len(of_seed) for of_seed in zip(*rows, strict=True)]


def _pairs(networks: Repeats) -> Iterator[Question]:
    measured, planned = "mean cosine of pairs minus that of random filters", len(networks.steps)
    if any(training.settings.prepared for training in networks.of):
        measured += "; without conv1, which did not start at random"
    relu, crelu = ([*pairs.excess_by_layer(networks, which).values()] for which in (0, 1))
    ask = "Are the filters of ReLU networks more opposed than random ones?"
    yield Question.of_layers(ask, "yes, most of all in the first layers", measured, -1, relu, planned)
    ask = "Are those of CReLU networks less opposed than ReLU's?"
    more = pairs.more_than_relu(networks)
    yield Question.of_layers(ask, "yes", "the same, minus ReLU's", 1, more, planned)
    ask = "Are those of CReLU networks no more opposed than random ones?"
    yield Question.of_layers(ask, "yes", measured, 0, crelu, planned)


def _phases(networks: Repeats) -> Question:
    _, (pair, _, _) = networks.columns(*analyses.CORRELATION)
    low, high = min(row.pair for row in TABLE_6), max(row.pair for row in TABLE_6)
    ask = "Are the two phases of a filter used differently?"
    claim = f"yes: |cosine| far below 1 ({low:.2f} to {high:.2f})"
    measured = f"|cosine| of their outgoing weights; far below 1: below {LARGE}"
    if getattr(networks.of[0].settings, "looks_linear", False):
        measured += "; by the recipe they start at 1"
    return Question.of_layers(ask, claim, measured, -1, pair, len(networks.steps), LARGE)


def _invariance(networks: Repeats) -> Iterator[Question]:
    layers = invariance.scores_by_layer(networks)
    for way, words in (
        ("as in the paper", "as the paper measures it"),
        ("both by one side", "with one side of both networks"),
        ("both by two sides", "with both sides of both networks"),
    ):
        ask, measured = f"Is CReLU more invariant, {words}?", "invariance score minus ReLU's"
        found = invariance.differences(layers, way)
        yield Question.of_layers(ask, "yes", measured, 1, found, len(networks.steps))


def _pooling(networks: Repeats) -> Question:
    _, (learned, random) = networks.columns(*analyses.RATIOS)
    low, high = min(row.learned for row in TABLE_S1), max(row.learned for row in TABLE_S1)
    ask = "Do learned filters survive max pooling better than random ones?"
    claim = f"yes: errors of {low:.2f} to {high:.2f} of the norm against {min(row.random for row in TABLE_S1):.2f}"
    measured = "relative error minus that of random filters"
    found = minus(learned, random)
    return Question.of_layers(ask, claim, measured, -1, found, len(networks.steps))
