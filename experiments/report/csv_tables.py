"""The tables of the report once more, as CSV files: what is there to read is there to compute with."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

from experiments.cli.app import UsageError
from experiments.report.context import NOT_RUN
from experiments.tables.html import Html
from minicnn.checkpoint import atomic_write_text

FOLDER = "tables"
NUMBER = r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?"
MEASURED = re.compile(rf"({NUMBER})(?: ± ({NUMBER})| \(1\))?")  # with half an interval, or of one network


class _Tables(HTMLParser):
    """Collects the cells of each table, by its caption."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("caption", "th", "td"):
            self._text = []

    def handle_endtag(self, tag: str) -> None:
        if self._text is None or tag not in ("caption", "th", "td"):
            return
        text, self._text = "".join(self._text).strip(), None
        if tag == "caption":
            self.found[text] = self._rows
        else:
            self._rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)


def write_tables(page: Html, folder: Path, *, keep: bool = False) -> None:
    """Every table of a page, as folder/<its caption>.csv; those of an earlier page go, or with `keep` are an error."""
    reader = _Tables()
    reader.feed(page)
    reader.close()
    tables = {folder / f"{_file_name(caption)}.csv": rows for caption, rows in reader.found.items()}
    old = set(folder.glob("*.csv")) - tables.keys()
    if keep and old:
        raise UsageError(
            f"{folder} has tables that this report lacks, and nothing of the report there was changed: "
            f"{', '.join(sorted(path.name for path in old))}.  Name their targets too (--report runs nothing), or "
            "remove them"
        )
    for path, rows in tables.items():
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\n").writerows(as_numbers(rows))
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, file.getvalue())
    for path in old:
        path.unlink(missing_ok=True)


def _file_name(caption: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", caption.lower()).strip("-")


def as_numbers(rows: list[list[str]]) -> list[list[str]]:
    """The head and the rows of a table; a column of "mean ± half" becomes two, with "" for what is not there."""
    columns: list[list[str]] = []
    for head, *cells in zip(*rows, strict=True):
        known = ["" if cell in (NOT_RUN, "-") else cell for cell in cells]
        found = [MEASURED.fullmatch(cell) for cell in known]
        if not all(match or not cell for match, cell in zip(found, known, strict=True)):  # a column of words
            columns.append([head, *cells])
            continue
        columns.append([head, *(match[1].replace(",", "") if match else "" for match in found)])
        if any("±" in cell for cell in known):
            columns.append([f"{head} ±", *((match[2] or "") if match else "" for match in found)])
    return [list(row) for row in zip(*columns, strict=True)]
