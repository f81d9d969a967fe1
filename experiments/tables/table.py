"""A table is data first; text, HTML, CSV and Markdown are renderings of it.

    Table(["network", Column("error, %", ".2f")], [["ReLU", Interval(22.3, 21.5, 23.1, 5)], ["CReLU", None]], "Errors")

A cell is

    None, NaN     nothing is known: "-" in text, "" in CSV
    a number      shown as its column says, whole in CSV
    an Interval   "22.30 ± 0.80", or "22.30 (1)" for one network, and "22.30 (2)" for two with equal results, which have
                  no interval either; two columns in CSV, so that one can compute with them
    words         as they are
    Bold, Links   a cell with emphasis, or words with links; HTML shows both, Markdown only the emphasis
    Badge         words whose colour says how good the news is; only HTML has colours
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.tables.html import Html, join, link, tag
from minicnn.analysis.statistics import Interval


class Column(NamedTuple):
    """A heading, and how the cells below it are shown.

    form     how numbers are shown, as in format(): ".2f", "+.3f", ","
    words    whether it is aligned to the left in HTML; the first column always is
    ends     whether intervals are shown by their ends, "+1.66 to +3.41"
    """

    head: str
    form: str = ""
    words: bool = False
    ends: bool = False


class Bold(NamedTuple):
    """A cell that is emphasised."""

    cell: Any


class Badge(NamedTuple):
    """Words in the colour `kind`: good, bad or so-so."""

    words: str
    kind: str


class Links(NamedTuple):
    """Words with links, as pairs (words, address or None), and more words after them.

    fold    what they are, such as "seeds": then several are shown at a click, so that a table stays small
    """

    to: Sequence[tuple[str, str | None]]
    rest: str = ""
    fold: str = ""

    def html(self) -> Html:
        found: list[Any] = []
        for words, address in self.to:
            found += [", " if found else None, link(words, address) if address else words]
        if not self.fold or len(self.to) < 2:
            return join([*found, self.rest])
        return tag("details", tag("summary", f"{len(self.to)} {self.fold}{self.rest}"), found)


@dataclass(frozen=True)
class Table:
    """Rows with one cell per column; a column that needs only a heading may be given as a string.

    series    a name for tables of the same kind, which are written into one CSV file
    """

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    series: str = ""

    @property
    def heads(self) -> list[Column]:
        return [column if isinstance(column, Column) else Column(column) for column in self.columns]

    def text(self) -> str:
        """Columns of text, the first aligned to the left, the others to the right."""
        lines = [[column.head for column in self.heads], *self._shown()]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(text_line(line, widths) for line in lines)

    def markdown(self) -> str:
        lines = [[column.head for column in self.heads], ["---"] * len(self.columns)]
        lines += [
            [f"**{shown}**" if isinstance(cell, Bold) else shown for shown, cell in zip(*cells, strict=True)]
            for cells in zip(self._shown(missing=""), self.rows, strict=True)
        ]
        escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
        return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)

    def values(self) -> list[list[Any]]:
        """The heads and the rows of a CSV file: numbers in full, however their column shows them."""
        made: list[list[Any]] = []
        for i, column in enumerate(self.heads):
            head, bare = column.head, [_bare(row[i]) for row in self.rows]
            intervals = [cell if isinstance(cell, Interval) else None for cell in bare]
            if column.ends:
                made.append([f"{head}, low", *(_number(x and x.low) for x in intervals)])
                made.append([f"{head}, high", *(_number(x and x.high) for x in intervals)])
                continue
            made.append([head, *(_number(cell.mean if isinstance(cell, Interval) else cell) for cell in bare)])
            if any(x is not None and x.half is not None for x in intervals):
                made.append([f"{head} ±", *(_number(x and x.half) for x in intervals)])
        return [list(line) for line in zip(*made, strict=True)]

    def html(self) -> Html:
        """In a box of its own that scrolls if it is too wide; the first cell of a row is its heading."""

        def style(i: int) -> str | None:
            return "text" if i == 0 or self.heads[i].words else None

        heads = [tag("th", column.head, scope="col", class_=style(i)) for i, column in enumerate(self.heads)]
        lines = [
            tag(
                "tr",
                tag("th", _html(row[0], self.heads[0]), scope="row", class_="text"),
                [tag("td", _html(cell, self.heads[i]), class_=style(i)) for i, cell in enumerate(row[1:], 1)],
            )
            for row in self.rows
        ]
        content = tag("table", tag("caption", self.caption), tag("thead", tag("tr", heads)), tag("tbody", lines))
        return tag("div", content, class_="box", tabindex="0", role="region", aria_label=self.caption)

    def _shown(self, missing: str = "-") -> list[list[str]]:
        return [[_text(cell, c, missing) for cell, c in zip(row, self.heads, strict=True)] for row in self.rows]


def write_csv(tables: Sequence[Table]) -> str:
    """Tables below each other; if they form a series, a first column names the table of each row."""
    values = [table.values() for table in tables]
    heads = list(dict.fromkeys(head for own, *_ in values for head in own))
    named = any(table.series for table in tables)
    lines = [["table", *heads] if named else heads]
    for table, (own, *rows) in zip(tables, values, strict=True):
        for row in rows:
            cells = dict(zip(own, row, strict=True))
            lines.append([*([table.caption] if named else []), *(cells.get(head, "") for head in heads)])
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def file_name(words: str) -> str:
    """A name for a file: lower case, without spaces."""
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")


def text_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of a table as text, for tables that are printed line by line as they are made."""
    first, *others = cells
    return "  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))])


def _bare(cell: Any) -> Any:
    """The value of a cell, without its formatting; None for NaN."""
    if isinstance(cell, Bold):
        return _bare(cell.cell)
    if isinstance(cell, Badge):
        return cell.words
    if isinstance(cell, Links):
        return ", ".join(words for words, _ in cell.to) + cell.rest
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _number(cell: Any) -> Any:
    """A cell for a CSV file; NumPy's numbers must look like numbers too."""
    return "" if cell is None else float(cell) if isinstance(cell, float) else cell


def _text(cell: Any, column: Column, missing: str) -> str:
    cell, form = _bare(cell), column.form
    if cell is None:
        return missing
    if isinstance(cell, Interval):
        if column.ends:
            return missing if cell.low is None else f"{cell.low:{form}} to {cell.high:{form}}"
        spread = f"({cell.n})" if cell.half is None else f"± {cell.half:{form.removeprefix('+')}}"
        return f"{cell.mean:{form}} {spread}"
    return str(cell) if isinstance(cell, str | bool) else format(cell, form)


def _html(cell: Any, column: Column) -> Html:
    if isinstance(cell, Bold):
        return tag("strong", _html(cell.cell, column))
    if isinstance(cell, Badge):
        return tag("span", cell.words, class_=f"verdict {cell.kind}")
    if isinstance(cell, Links):
        return cell.html()
    if isinstance(cell, Interval) and cell.half is None and not column.ends:
        why = "one network: no interval" if cell.n == 1 else f"{cell.n} networks with equal results: no interval"
        return join([f"{cell.mean:{column.form}} ", tag("abbr", f"({cell.n})", title=why)])
    return join([_text(cell, column, missing="–")])  # noqa: RUF001
