"""The walk that all analyses share: options, dry run, opening the runs, printing, saving.

A command adds its own options to `parser`, makes them a `Request` with `parse`, and hands it to `run_analysis` with a
function that yields its findings.  Each is printed and saved before the next is computed, so an interrupted analysis
keeps what is done.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from experiments.cli.app import UsageError, argument_parser, duration, get_device, usage_errors
from experiments.cli.files import write_csv, write_json
from experiments.cli.values import check_numbers, result_folder
from experiments.tables.table import Column, Table
from experiments.train.run import Run, check_weights
from experiments.train.trained import has_card, open_networks
from minicnn.backend import Device
from minicnn.blas import one_blas_thread
from minicnn.models.pretrained import names

Columns = Mapping[str | Column, str]  # of a table: what is shown, and the attribute of a row that it shows


@dataclass(frozen=True)
class Request:
    """What the user asked for.  The runs and the device are opened when they are first used.

    foreign    files that --weights names and that other programs wrote; they have filters, but are no networks
    """

    args: argparse.Namespace
    foreign: tuple[Path, ...] = ()

    @cached_property
    def runs(self) -> list[Run]:
        """Those of --run, then those of --weights."""
        foreign = set(map(str, self.foreign))
        return open_networks(self.args.run, [name for name in self.args.weights if name not in foreign])

    @cached_property
    def device(self) -> Device:
        return get_device(self.args.device)

    def make_folder(self) -> None:
        """Call this before long work, in case the folder for results cannot be made."""
        self.args.out.mkdir(parents=True, exist_ok=True)


class Finding(NamedTuple):
    """Paragraphs to print, and files to save by name: rows for a .csv, a value for a .json, what draws a .png."""

    text: Sequence[str | Table] = ()
    files: Mapping[str, Any] = {}


class PlusMinus(NamedTuple):
    """ "0.37 ± 0.16" in a table, the value alone if the spread is unknown; in a CSV file the columns x and x_sd."""

    value: float | None
    spread: float | None
    kind: str = "sd"  # a standard deviation; "se" is a standard error

    def __format__(self, form: str) -> str:
        if self.value is None:
            return "- ± -"
        return f"{self.value:{form}}" + ("" if self.spread is None else f" ± {self.spread:{form.removeprefix('+')}}")


def table(rows: Iterable[Any], columns: Columns, caption: str = "") -> Table:
    """One line per row."""
    return Table(list(columns), [[attrgetter(name)(row) for name in columns.values()] for row in rows], caption)


def cells(row: Any) -> dict[str, Any]:
    """The line of a row in a CSV file; a dict is one already."""
    made = {}
    for name, value in (row if isinstance(row, dict) else row._asdict()).items():
        made[name] = value.value if isinstance(value, PlusMinus) else value
        if isinstance(value, PlusMinus):
            made[f"{name}_{value.kind}"] = value.spread
    return made


def parser(module: str, description: str | None, *, more_weights: str = "") -> argparse.ArgumentParser:
    """The options that all analyses have; --weights may take `more_weights` than networks with a card."""
    p = argument_parser(module, description)
    p.add_argument(
        "--run",
        type=Path,
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="folders of finished runs; may be given several times",
    )
    p.add_argument(
        "--weights",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"networks that come with minicnn ({', '.join(names()) or 'none is here yet'}), or files NAME.npz that "
        f"experiments.export made{more_weights}; may be given several times",
    )
    out = Path("runs", module.rpartition(".")[2])
    p.add_argument("--out", type=result_folder, default=out, help=f"folder for results (default {out})")
    p.add_argument("--device", default="auto", help="auto (a GPU if one works), cpu, gpu or gpu:N")
    p.add_argument("--dry-run", action="store_true", help="say what would be read, done and written, then stop")
    return p


def parse(
    p: argparse.ArgumentParser,
    arguments: list[str],
    *,
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    foreign: bool = False,
    weights: bool = True,
) -> Request:
    """The options that were given, after a check of these numbers.

    foreign    --weights takes any file
    weights    the analysis needs those of the runs, which an archive may not have
    """
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=positive, not_negative=not_negative)
    if not args.run and not args.weights:
        raise UsageError("nothing to look at: name a folder with --run or a network with --weights")
    if weights:
        check_weights(args.run)
    files = [name for name in args.weights if Path(name).suffix and not has_card(name)]
    return Request(args, tuple(map(Path, files)) if foreign else ())


def run_analysis(
    request: Request, plan: str, files: Sequence[str], findings: Callable[[Request], Iterable[Finding]]
) -> int:
    """Print and save what is found; with --dry-run, announce the plan and the names of the files."""
    args = request.args
    if args.dry_run:
        print(f"would read   {', '.join(map(str, [*args.run, *args.weights]))}")
        print(f"would do     {plan}")
        print(f"would write  {', '.join(files)} in {args.out}")
        return 0
    with one_blas_thread():  # matrices are small, and its threads wait in loops that keep the cores busy
        for finding in findings(request):
            for paragraph in finding.text:
                _print(paragraph)
            for name, content in finding.files.items():
                _save(args.out / name, content)
    print(f"\nsaved in {args.out}")
    return 0


def announce_time(what: str, trials: Iterable[tuple[Callable[[], object], float]]) -> None:
    """Print about how long this will take: each trial is (a small part of the work, how many times that much it is).

    Each runs twice, and the second counts: the first is slow, since memory is fresh and a GPU compiles its kernels.
    """
    seconds = 0.0
    for work, times in trials:
        work()
        start = time.perf_counter()
        work()
        seconds += times * (time.perf_counter() - start)
    print(f"time  about {duration(seconds)} ({what}), from a trial", flush=True)


def _print(paragraph: str | Table) -> None:
    """A blank line, then words, or a table below its caption; nothing for no words."""
    parts = [paragraph.caption, paragraph.text()] if isinstance(paragraph, Table) else [paragraph]
    for part in filter(None, parts):
        print(f"\n{part}")


def _save(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        write_csv(path, [cells(row) for row in content])
    elif path.suffix == ".json":
        write_json(path, content)
    else:
        content(path)


def not_comparable(runs: Sequence[Run]) -> str:
    """Which runs cannot be compared with the paper's numbers, and why; empty if all can."""
    lines = dict.fromkeys(f"  {run.label}: {', '.join(run.reduced)}" for run in runs if run.reduced)
    if not lines:
        return ""
    return "\n".join(["The paper's numbers are not comparable with these reduced runs:", *lines])
