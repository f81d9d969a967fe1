"""Trainings that differ in a few settings, each with several seeds: for comparisons that one command makes.

Their results are in `trainings.csv`, one row each, written after every training.  Such a file can be read again
(`known`): what is in it counts as done, also on another machine, which is why each row names its own.  A row belongs to
a training if the fingerprint of its settings is the same.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cli.app import UsageError, interruptible
from experiments.cli.files import read_json, write_csv
from experiments.cli.values import result_folder
from experiments.train.arrays import ArrayJob
from experiments.train.cifar import CifarSettings
from experiments.train.ideas import IdeaJob
from experiments.train.protocols import follow, plain
from experiments.train.session import run_job
from minicnn.backend import Device
from minicnn.data.dataset import Dataset
from minicnn.precision import NAMES

TRAININGS = "trainings.csv"
MACHINE = "machine"  # its column that names the processor, and the device if that is another
UNRECORDED = "a machine not recorded"
Results = dict[str, dict[int, dict[str, Any]]]  # by variant and seed


def add_options(p: argparse.ArgumentParser, out: str) -> None:
    """What all commands have that train variants."""
    p.add_argument("--dataset", choices=("cifar10", "textures"), default="cifar10", help="default cifar10")
    p.add_argument("--data", type=Path, help="folder or archive with CIFAR-10 (default: the cache, else download)")
    p.add_argument("--device", default="auto", help="auto, cpu, gpu or gpu:N")
    p.add_argument("--precision", choices=NAMES, help="of products, as in experiments.cifar; default float32")
    p.add_argument("--out", type=result_folder, default=Path(out), help=f"default {out}")
    p.add_argument(
        "--import",
        type=Path,
        dest="imported",
        metavar="FILE",
        help=f"{TRAININGS} of an earlier run: what is in it is not trained again",
    )
    p.add_argument("--report", action="store_true", help="train nothing: show what is finished")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")


@dataclass(frozen=True)
class Variants:
    """Trainings by the name of the variant, in the order of its seeds.

    hold_out    images kept from training, which judge
    kept        the numbers of a result that trainings.csv has
    products    how exact they are (minicnn/precision.py)
    ideas       of the variants that are trained in another way (ideas.py)
    """

    wanted: Mapping[str, Sequence[CifarSettings]]
    out: Path
    kept: Sequence[str]
    hold_out: int = 0
    products: str = "float32"
    ideas: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, data: Dataset, *, device: Device, line: str, known: Path | None = None, report: bool = False
    ) -> Results:
        """The results of all trainings; with `report`, of those that are finished.

        Seed by seed, so that an interruption leaves variants that can be compared.  Each training has the folder
        out/variant/name; what is finished there is not done again, and what was interrupted continues.  `line` is the
        command that does so.
        """
        there = read_trainings(known, self.kept) if known is not None else {}
        results: Results = {name: {} for name in self.wanted}
        total = sum(map(len, self.wanted.values()))
        for done, (name, one) in enumerate(self._in_turn(), 1):
            folder = self.out / name.replace(" ", "-") / f"{one.name}{self._suffix(name)}"
            kind = partial(IdeaJob, idea=self.ideas[name]) if name in self.ideas else ArrayJob
            finished = (folder / "result.json").exists()
            if (found := there.get(self.fingerprint(name, one))) is not None and not finished:
                results[name][one.seed] = found
            elif finished or not report:
                print(f"\n{name}, seed {one.seed} (training {done} of {total})", file=sys.stderr)
                with interruptible(line, folder) as stop:
                    job = partial(run_job, device=device, resume=True, command=line, stop=stop)
                    result = follow(plain(one, folder, data, self.hold_out, kind), job)
                assert result is not None
                results[name][one.seed] = result | {MACHINE: machine_of(folder)}
            self.save(results)
        return results

    def _in_turn(self) -> Iterator[tuple[str, CifarSettings]]:
        for i in range(max(map(len, self.wanted.values()))):
            for name, own in self.wanted.items():
                yield name, own[i]

    def save(self, results: Results) -> None:
        """One row per training that is finished."""
        rows = [
            {"variant": name, "seed": one.seed, "settings": self.fingerprint(name, one)}
            | {key: results[name][one.seed][key] for key in (*self.kept, MACHINE)}
            for name, own in self.wanted.items()
            for one in own
            if one.seed in results[name]
        ]
        self.out.mkdir(parents=True, exist_ok=True)
        write_csv(self.out / TRAININGS, rows)

    def fingerprint(self, name: str, settings: CifarSettings) -> str:
        """Equal for trainings with the same settings, as many images held out, and all that `_suffix` tells apart.

        A setting that was added later does not count where it is as it was before, so that older rows stay valid.
        """
        own = {key: value for key, value in settings.as_json().items() if settings.ADDED.get(key, ...) != value}
        text = json.dumps([own, self.hold_out], sort_keys=True) + self._suffix(name)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _suffix(self, name: str) -> str:
        """What tells trainings of a variant from others with the same settings."""
        idea = f"-{self.ideas[name]}" if name in self.ideas else ""
        return idea + ("" if self.products == "float32" else f"-{self.products}")


def machine_of(folder: Path) -> str:
    """On which the run of this folder was computed."""
    own = read_json(folder / "config.json")["environment"]
    elsewhere = "" if own.get("device", "cpu") == "cpu" else f"{own['device']} beside "
    return f"{elsewhere}{own['processor']}" if "processor" in own else UNRECORDED  # by a former version


def machines(results: Results) -> Counter[str]:
    """How many of these trainings each machine computed."""
    return Counter(one[MACHINE] for own in results.values() for one in own.values())


def in_words(counts: Counter[str]) -> str:
    """As in "AMD EPYC (avx2)", or in "A (3 of 5 trainings), B (2 of 5 trainings)"."""
    if len(counts) < 2:
        return next(iter(counts), "no machine yet")
    return ", ".join(f"{name} ({count} of {counts.total()} trainings)" for name, count in counts.most_common())


def read_trainings(path: Path, kept: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The results in each row of trainings.csv, by the fingerprint of its settings."""
    try:
        with open(path, newline="") as file:
            return {
                row["settings"]: {key: float(row[key]) for key in kept} | {MACHINE: row.get(MACHINE) or UNRECORDED}
                for row in csv.DictReader(file)
            }
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise UsageError(f"--import: {path} is not a {TRAININGS} of this command ({error!r})") from None
