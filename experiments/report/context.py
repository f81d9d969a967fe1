"""What all parts of the report need: where it is, what was found, and how to show it."""

from __future__ import annotations

import base64
import csv
import math
import os
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.report.groups import Group
from experiments.reproduction.records import Records
from experiments.reproduction.scales import Scale
from experiments.reproduction.steps import Analysis, Training
from experiments.reproduction.targets import TARGETS, Files
from experiments.tables.html import Html, escape, tag
from experiments.tables.table import Links, Table
from experiments.train.archive import portable


class Fold(NamedTuple):
    """Parts that open at a click on the summary."""

    summary: str
    parts: Sequence[Html | Table]


Parts = list[Html | Table | Fold]  # of a section
NOT_YET, NOT_HERE = "not run yet", "not at this scale"
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "textures": "Textures", "imagenet": "ImageNet"}
LINE = 1000  # characters of an embedded picture per line, so that tools for text can cope with the page


def data_name(dataset: str) -> str:
    return DATASETS.get(dataset, dataset)


@dataclass(frozen=True)
class Context:
    """home: the folder of the report; embed: whether pictures are in the page itself, or in files beside it."""

    home: Path
    scale: Scale
    records: Records
    files: Files
    embed: bool = True

    def address(self, folder: Path) -> str | None:
        """A relative link to the folder of a run or analysis; None if it is in an archive, which has no folders.

        A report that travels links to nothing outside of its own folder.
        """
        source = self.records.source(folder)
        if not self.embed and not folder.resolve().is_relative_to(self.home.resolve()):
            return None
        if source is None or folder.is_relative_to(source):
            return quote(os.path.relpath(folder, self.home).replace(os.sep, "/")) + "/"
        return None

    def command(self, line: str) -> str:
        """A command as it was; in a report that travels, without paths of the machine."""
        return line if self.embed else portable(line)

    def data_of(self, settings: Any) -> str:
        """What a network was trained on; generated pictures are not ImageNet."""
        if settings.PHOTOGRAPHS and self.scale.generated:
            return "generated pictures"
        return data_name(settings.dataset)

    def title(self, training: Training) -> str:
        return f"{training.settings.label}, {self.data_of(training.settings)}{self.recipe(training)}"

    def recipe(self, training: Training) -> str:
        """The end of a title: the recipe, where networks like it are also trained in another way."""
        settings = training.settings
        if settings.PHOTOGRAPHS:
            return ""
        cifar = (one.settings for one in (*self.scale.table1, *self.scale.table2))
        like = (settings.model, settings.dataset, settings.scale)
        ways = {one.how_trained for one in cifar if (one.model, one.dataset, one.scale) == like}
        return f", {settings.how_trained}" if len(ways) > 1 else ""

    def analyses(self, target: str) -> list[Analysis]:
        """The analyses that a target shows besides trainings."""
        steps = TARGETS[target].steps(self.scale, self.files)
        return [step for step in steps if isinstance(step, Analysis) and step.makes]

    def runs_of(self, group: Group) -> Links | str:
        """The finished runs, each linked to its folder, and how many are missing."""
        damaged = sum(training.name in self.records.problems for training in group.trainings)
        if not group.finished:
            return f"{damaged} unusable" if damaged else NOT_YET
        links = [(f"seed {run.settings.seed}", self.address(run.folder)) for run in group.finished.values()]
        missing = len(group.trainings) - len(links)
        unusable = f", {damaged} unusable" if damaged else ""
        return Links(links, f" ({missing} missing{unusable})" if missing else "", fold="seeds")

    def picture(self, path: Path, words: str) -> Html:
        """A PNG file; `words` are its caption, and the text for readers who cannot see it."""
        try:
            content = path.read_bytes()
        except OSError:
            return absent(f"no picture ({path.name}): {DRAWN}")
        root = next(root for root in self.records.roots if path.is_relative_to(root))
        source = inline("png", content) if self.embed else quote(path.relative_to(root).as_posix())
        return figure(tag("img", src=source, alt=words, loading="lazy"), words)


DRAWN = "it is drawn where matplotlib is installed (pip install matplotlib)."


def figure(content: Html, words: str) -> Html:
    return tag("figure", tag("div", content, class_="paper"), tag("figcaption", words))


def chart(svg: str | None, words: str) -> Html:
    """A chart that is made for the page."""
    if svg is None:
        return absent(f"no chart: {DRAWN}")
    return figure(tag("img", src=inline("svg+xml", svg.encode()), alt=words, loading="lazy"), words)


def inline(kind: str, content: bytes) -> str:
    """The address of a picture that is in the page itself."""
    return f"data:image/{kind};base64," + textwrap.fill(base64.b64encode(content).decode(), LINE)


def value(cell: Any) -> float | None:
    """A cell of a file; None where it holds no number."""
    try:
        return None if math.isnan(float(cell)) else float(cell)
    except (TypeError, ValueError):
        return None


def read_rows(path: Path) -> list[dict[str, str]]:
    """A CSV file of ours; nothing where it is missing or damaged, and "" for a column that it does not have."""
    try:
        with open(path, newline="") as file:
            return [defaultdict(str, {str(k): v or "" for k, v in row.items()}) for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error):
        return []


def read_results(path: Path) -> dict[str, Any]:
    """A JSON file of ours; nothing where it is missing or damaged."""
    try:
        found = read_json(path)
    except (OSError, UsageError):
        return {}
    return found if isinstance(found, dict) else {}


def not_comparable(reduced: Sequence[str]) -> str:
    """A sentence to add where runs are smaller than the paper's."""
    return f" Not comparable with the paper: {', '.join(reduced)}." if reduced else ""


def absent(why: str) -> Html:
    """A note that something is missing."""
    return tag("p", tag("strong", "Not here: "), escape(why), class_="absent")
