"""What all parts of the report need: where it is, what there is, and how values are written."""

from __future__ import annotations

import base64
import csv
import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from experiments.cli.app import UsageError
from experiments.cli.files import read_json
from experiments.report.groups import Group
from experiments.reproduction.records import Records
from experiments.reproduction.scales import Scale
from experiments.reproduction.steps import Step, Training
from experiments.reproduction.targets import TARGETS, Files
from experiments.tables.html import Html, escape, join, link, tag
from minicnn.analysis.statistics import Interval

NOT_RUN, NOT_YET, NOT_HERE = "–", "not run yet", "not at this scale"  # noqa: RUF001
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "textures": "Textures", "imagenet": "ImageNet"}


@dataclass(frozen=True)
class Context:
    """home: the folder of the report; data: where data sets are, by name."""

    home: Path
    scale: Scale
    records: Records
    data: Mapping[str, Path]
    files: Files

    def href(self, folder: Path) -> str:
        """A relative link."""
        return quote(os.path.relpath(folder, self.home).replace(os.sep, "/")) + "/"

    def data_of(self, settings: Any) -> str:
        """What a network was trained on; pictures that were generated are not ImageNet."""
        if settings.dataset == "imagenet" and self.scale.generated:
            return "generated pictures"
        return DATASETS[settings.dataset]

    def title(self, training: Training) -> str:
        return f"{training.settings.label}, {self.data_of(training.settings)}"

    def analyses(self, target: str) -> list[Step]:
        """What a target shows beside trainings."""
        return [step for step in TARGETS[target].steps(self.scale, self.files) if step.makes]

    def folder(self, step: Step) -> Path | None:
        """Where a finished analysis is."""
        return self.records.analysis(step)

    def runs_of(self, group: Group) -> Html | str:
        """How many there are, each linked to its folder."""
        damaged = sum(training.name in self.records.problems for training in group.trainings)
        if not group.records:
            return f"{damaged} unusable" if damaged else NOT_YET
        links: list[Any] = []
        for record in group.records:
            links += [", " if links else None, link(f"seed {record.training.settings.seed}", self.href(record.folder))]
        missing = len(group.trainings) - len(group.records)
        unusable = f", {damaged} unusable" if damaged else ""
        return join([links, f" ({missing} missing{unusable})" if missing else None])


def plus_minus(interval: Interval | None, digits: int = 2, sign: str = "") -> Html | str:
    """ "25.05 ± 0.40", or the mean alone where there is no interval."""
    if interval is None:
        return NOT_RUN
    mean = f"{interval.mean:{sign}.{digits}f}"
    if interval.half is None:
        return join([f"{mean} ", tag("abbr", "(1)", title="one network: no interval")])
    return f"{mean} ± {interval.half:.{digits}f}"


def number(value: Any, digits: int = 3, sign: str = "") -> str:
    """A cell of a CSV file, which is text from a file: escaped where it is put in, "-" where it is empty or NaN."""
    try:
        return "-" if math.isnan(float(value)) else f"{float(value):{sign}.{digits}f}"
    except (TypeError, ValueError):
        return "-" if value in (None, "") else str(value)


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


def picture(path: Path, words: str) -> Html:
    """A PNG file in the page itself; `words` are its caption, and say what it shows to who cannot see it."""
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        why = f"no picture ({path.name}): it is drawn where matplotlib is installed (pip install 'minicnn[figures]')."
        return absent(why)
    image = tag("img", src=f"data:image/png;base64,{content}", alt=words, loading="lazy")
    return tag("figure", tag("div", image, class_="paper"), tag("figcaption", words))


def not_comparable(reduced: Sequence[str]) -> str:
    """A sentence to add where runs are smaller than the paper's."""
    return f" Not comparable with the paper: {', '.join(reduced)}." if reduced else ""


def absent(why: str) -> Html:
    """A plain word about something that is not there."""
    return tag("p", tag("strong", "Not here: "), escape(why), class_="absent")
