"""The documents and the tables behind them, for the tests in this folder."""

import collections
import contextlib
import csv
import json
import re
from pathlib import Path

from experiments.tables.table import file_name

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/README.md")])


def prose(name):
    """A document in one line, so that its sentences are found wherever they are broken."""
    return " ".join((ROOT / name).read_text().split())


def code(document, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)


def section(document, title):
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", document.read_text(), re.M | re.S)
    return found


def cells(text):
    """The rows of the tables of a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")
    ][1:]


RESULTS, HOURS = ROOT / "docs" / "results", ROOT / "docs" / "hours"
SPEED = ROOT / "docs" / "speed"  # what experiments.bench --tables wrote
BESIDE = ("ablation", "gpu", "imagenet", "speed/zen4", "speed/zen4-compiled", "speedrun")
TABLES = (RESULTS / "tables", SPEED, *(ROOT / "docs" / name for name in BESIDE))


def runs_of(archive):
    """The settings and results of the runs of docs/results or docs/hours, by file."""
    return json.loads((archive / "runs.json").read_text())


def tables():
    """The tables below docs/ by the names that documents give them: rows as dicts.

    Those of docs/hours have "hours/" in front: some have the same captions as those of docs/results.
    """
    found = collections.defaultdict(list)
    for path in (path for folder in (*TABLES, HOURS / "tables") for path in folder.glob("*.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                name = file_name(row.pop("table", path.stem))
                found[f"hours/{name}" if path.is_relative_to(HOURS) else name].append(row)
    return found


def shown(cell, row):
    """Whether a cell of a document is a number, mean ± half or range of a row of a table, rounded as it is written."""

    def rounded(text, value):
        digits, _, power = text.partition(".")[2].partition("e") if "." in text else ("", "", text.partition("e")[2])
        form = f".{len(digits)}{'e' if power else 'f'}"
        return value not in (None, "") and f"{float(value):{form}}" == text.replace(",", "").lstrip("+")

    if cell in {(value or "").strip(" *%") for value in row.values()}:  # words
        return True
    mean, _, half = cell.partition(" ± ")
    low, _, high = cell.partition(" to ")
    for head, value in row.items():
        with contextlib.suppress(ValueError):  # a column of words
            if half and rounded(mean, value) and rounded(half, row.get(f"{head} ±")):
                return True
            start = head.removesuffix(", low")
            if high and start != head and rounded(low, value) and rounded(high, row[f"{start}, high"]):
                return True
            if not half and not high and rounded(cell, value):
                return True
    return False
