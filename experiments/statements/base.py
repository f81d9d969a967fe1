"""A statement of the paper: its words, where it stands, our verdict, and a check that finds the verdict anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isclose

HOLDS, WITH_CONDITIONS, FALSE, UNDECIDED = "holds", "holds with conditions", "false", "undecided"  # verdicts

# How much it matters that a statement does not hold as printed, the worst first.
SEVERITIES = {
    FALSE: "no condition repairs it; another statement takes its place",
    "gap": "it is right with a condition, an input or an argument that is missing",
    "misprint": "the words around it show what is meant, and that is right",
    "sound": "it holds as it stands",
}
GAP, MISPRINT, SOUND = list(SEVERITIES)[1:]

SLACK = 1 + 1e-9  # an inequality a <= b counts as violated if a > SLACK b


@dataclass(frozen=True)
class Evidence:
    """What a check found; the verdict follows from it.

    witness      the numbers, in a sentence or two
    printed      the statement, as the paper makes it, survived every case
    repaired     what we say instead survived every case
    conditions   the repair only adds conditions (or mends a name), and with them the statement survived every case
    by_hand      {quantity: (found, worked out on paper)}: if they differ, nothing is decided
    """

    witness: str
    printed: bool
    repaired: bool
    conditions: bool = False
    by_hand: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def slips(self) -> list[str]:
        """The quantities that differ from those worked out on paper."""
        return [what for what, (found, hand) in self.by_hand.items() if not isclose(found, hand, abs_tol=1e-9)]

    @property
    def verdict(self) -> str:
        if self.slips or not self.repaired:
            return UNDECIDED
        if self.printed:
            return HOLDS
        return WITH_CONDITIONS if self.conditions else FALSE


@dataclass(frozen=True)
class Statement:
    """A definition, theorem, lemma or claim of the text that can be computed."""

    key: str
    where: str  # in the paper; S1 .. S7 are the sections of its supplement
    says: str
    expected: str  # one of the verdicts
    severity: str  # one of SEVERITIES
    corrected: str  # what we say instead
    errata: tuple[str, ...]  # entries of docs/errata.md
    check: Callable[[int], Evidence]  # takes a seed


def statement(
    key: str, *, where: str, says: str, expected: str, corrected: str, severity: str = "", errata: str = ""
) -> Callable[[Callable[[int], Evidence]], Statement]:
    """Turn a check into a Statement, as a decorator.  Without a severity it is sound or false, as the verdict says."""
    severity = severity or (SOUND if expected == HOLDS else FALSE)
    return lambda check: Statement(key, where, says, expected, severity, corrected, tuple(errata.split()), check)
