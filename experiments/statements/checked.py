"""Statements with what their checks found, as text and as JSON."""

from __future__ import annotations

import textwrap
from time import perf_counter
from typing import Any, NamedTuple

from experiments.statements.base import SEVERITIES, Evidence, Statement


class Checked(NamedTuple):
    """A statement, what its check found, and how long that took."""

    statement: Statement
    evidence: Evidence
    seconds: float

    @property
    def surprise(self) -> str:
        """How the verdict differs from the one in docs/errata.md; "" if it does not."""
        expected, found, slips = self.statement.expected, self.evidence.verdict, self.evidence.slips
        if found == expected:
            return ""
        numbers = f" (not as worked out by hand: {', '.join(slips)})" if slips else ""
        return f"{self.statement.key}: expected {expected}, found {found}{numbers}"

    def text(self, width: int) -> str:
        """The statement, its verdict and why, wrapped."""
        one, found = self.statement, self.evidence
        lines = [f"{one.key}: {found.verdict.upper()}" + (f"  ({', '.join(one.errata)})" if one.errata else "")]
        parts = {"where": one.where, "claim": one.says, "witness": found.witness, "corrected": one.corrected}
        for name, words in parts.items():
            lines += textwrap.wrap(words, width, initial_indent=f"  {name:11}", subsequent_indent=" " * 13)
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        one, found = self.statement, self.evidence
        return {
            "key": one.key,
            "where": one.where,
            "says": one.says,
            "expected": one.expected,
            "verdict": found.verdict,
            "severity": one.severity,
            "witness": found.witness,
            "corrected": one.corrected,
            "errata": list(one.errata),
            "by_hand": {what: {"found": f, "by hand": h} for what, (f, h) in found.by_hand.items()},
            "seconds": round(self.seconds, 3),
        }


def grouped(found: list[Checked], width: int) -> str:
    """The text of all of them, the worst first: one group per severity, under a heading."""
    parts = []
    for severity, means in SEVERITIES.items():
        if group := [checked.text(width) for checked in found if checked.statement.severity == severity]:
            parts += [f"=== {severity}: {means} ({len(group)}) ===", *group]
    return "\n\n".join(parts)


def check(one: Statement, seed: int) -> Checked:
    start = perf_counter()
    evidence = one.check(seed)
    return Checked(one, evidence, perf_counter() - start)
