"""The tables of a document from the results of experiments.bench: so that no number is copied by hand.

Each group of networks gives two, "Inference, 32x32, batch 8" and "Inference, 32x32, batch 8: errors".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import OURS, RIVALS, Result, best_of, groups, mean_ratios
from experiments.tables.table import Column, Table, file_name, write_csv
from minicnn.analysis.statistics import Interval
from minicnn.checkpoint import atomic_write_text

KINDS = ("training", "inference")


def network_tables(results: Sequence[Result], machine: str = "") -> Iterator[Table]:
    """Of the rows of the section "models"; the machine, if it has a name, stands in their captions."""
    for kind in KINDS:
        for title, own in groups([result for result in results if result["kind"] == kind]).items():
            caption = f"{kind.capitalize()}{f' on {machine}' if machine else ''}, {title}"
            yield _times(caption, kind, own)
            yield _errors(f"{caption}: errors", kind, own)


def _times(caption: str, kind: str, results: Sequence[Result]) -> Table:
    """The best time of every family, our ratios to the best in float32 and to the best of all, and who that was."""
    columns = [Column("network"), *(Column(f"{family}, ms", ".1f") for family in _families(results))]
    for rival in RIVALS:
        columns += [Column(f"x {rival}", ".2f"), Column(f"x {rival}, quartiles", ".2f", ends=True)]
        columns += [Column(f"the best: {rival}", words=True)]
    rows = []
    for result in results:
        best = best_of(result)
        row = [result["model"], *(_value(best, family, "seconds", 1e3) for family in _families(results))]
        rows.append(row + [cell for rival in RIVALS for cell in _ratio(result, rival)])
    means = mean_ratios(results)
    empty = [None] * len(_families(results))
    rows.append(
        ["geometric mean", *empty, *(c for rival in RIVALS for c in (means.get(rival, (None,))[0], None, None))]
    )
    return Table(columns, rows, caption, series=kind)


def _errors(caption: str, kind: str, results: Sequence[Result]) -> Table:
    """Beside the best times: the largest error against float64, over the largest value."""
    columns = [Column("network"), *(Column(f"{family}, error", ".0e") for family in _families(results))]
    rows = [
        [result["model"], *(_value(best_of(result), family, "error") for family in _families(results))]
        for result in results
    ]
    return Table(columns, rows, caption, series=f"{kind}-errors")


def _families(results: Sequence[Result]) -> list[str]:
    found = dict.fromkeys(family for result in results for family in best_of(result))
    return [OURS, *(family for family in found if family != OURS)]


def _value(best: dict[str, dict[str, Any]], family: str, key: str, scale: float = 1.0) -> float | None:
    return best[family][key] * scale if family in best else None


def _ratio(result: Result, rival: str) -> list[Any]:
    found = result[rival]
    if not found:
        return [None, None, None]
    rounds = len(result["contenders"][OURS]["rounds"])
    return [found["median"], Interval(found["median"], found["low"], found["high"], rounds), found["rival"]]


def write_tables(folder: Path, tables: Sequence[Table]) -> list[Path]:
    """One CSV file per series, as the tests of the documents read them."""
    paths = []
    for series in dict.fromkeys(table.series for table in tables):
        paths.append(folder / f"{file_name(series)}.csv")
        atomic_write_text(paths[-1], write_csv([table for table in tables if table.series == series]))
    return paths


def markdown(table: Table) -> str:
    """With the comment by which the tests of the documents find the table again."""
    return f"{table.caption}\n\n<!-- from {file_name(table.caption)} -->\n\n{table.markdown()}"
