"""The whole paper from one command: every table, figure and theorem, and a report to read.

examples:
  python -m experiments.reproduce --list                       the targets, and what each takes
  python -m experiments.reproduce all --scale smoke            everything, tiny, on textures: minutes
  python -m experiments.reproduce table1 figure4 --scale cpu --dry-run     the plan: runs, time, disk
  python -m experiments.reproduce all --scale cpu --workers 2  hours on a few cores, with real CIFAR
  python -m experiments.reproduce all --scale full --workers mpi           on many machines: docs/cluster.md
  python -m experiments.reproduce all --scale full --imagenet imagenet     the paper's settings, for GPUs
  python -m experiments.reproduce all --scale cpu --no-training            analyse the networks already trained
  python -m experiments.reproduce all --scale cpu --report     run nothing, write the report on what is finished
  python -m experiments.reproduce all --scale cpu --export docs/results --import docs/results

Finished steps are skipped, interrupted ones continue where they stopped; Ctrl-C saves.  A run that fails does not stop
the others.  Runs are in OUT/runs/<name>, as experiments.cifar and experiments.imagenet make them; the report is
OUT/report.html.  --export writes the small files of everything finished, and --import counts them as done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import ExitStack
from pathlib import Path

from experiments.cli.app import StopSignal, UsageError, argument_parser, command, counted, run_main
from experiments.cli.files import locked
from experiments.cli.ranks import cluster_executor
from experiments.cli.values import result_folder
from experiments.report.context import Context
from experiments.report.page import check_tables, write_report
from experiments.reproduction.commands import Resources, resources
from experiments.reproduction.execute import Executor, summary
from experiments.reproduction.export import export
from experiments.reproduction.pictures import TRAIN
from experiments.reproduction.plan import FAILED, Estimator, Status, make_plan, show, without_training
from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES, Scale
from experiments.reproduction.targets import TARGETS, Files, Target, chosen, listing, steps_of
from experiments.train.archive import check_target, unpacked
from experiments.train.imagenet import TRAIN_IMAGES

MODULE = "experiments.reproduce"
DATASETS = ("cifar10", "cifar100")
MPI = "mpi"
MOST = 1000  # workers and seeds


def main(arguments: list[str], scales: Mapping[str, Callable[[int | None], Scale]] = SCALES) -> int:
    args = parse(arguments, list(scales))
    scale = scales[args.scale](args.seeds)
    files = Files(args.imagenet, args.alexnet)
    if args.imagenet is not None:
        scale = scale.with_imagenet()
    if args.list:
        print(listing(scale, files))
        return 0
    targets = chosen(args.targets)
    if not targets:
        raise UsageError(f"name a target: {', '.join(TARGETS)} or all (--list describes them)")
    root = args.out or Path("runs") / f"reproduce-{scale.name}"
    if args.export:
        check_target(args.export)
        if args.export.resolve() == root.resolve():
            raise UsageError(f"--export: {root} is where the runs are; export to another folder")
    with ExitStack() as stack:
        means = resources(args.device, None if args.workers == MPI else args.workers, args.data, files)
        pool = None
        if args.workers == MPI and not args.dry_run:
            pool, args.workers = cluster_executor()
            stack.enter_context(pool)
        return reproduce(args, targets, scale, Records(root, args.imported), means, command(MODULE, arguments), pool)


def parse(arguments: list[str], scales: Sequence[str]) -> argparse.Namespace:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("targets", nargs="*", metavar="TARGET", help="table1 ... figure5, theory, or all")
    p.add_argument("--scale", choices=scales, default="smoke", help="smoke (default), cpu, hours or full")
    p.add_argument("--list", action="store_true", help="show the targets and what they take at this scale, and stop")
    p.add_argument("--dry-run", action="store_true", help="show the plan with estimates of time and disk, and stop")
    p.add_argument("--no-training", action="store_true", help="train nothing: only analyse networks already trained")
    p.add_argument("--report", action="store_true", help="run nothing: only write the report on what is finished")
    p.add_argument("--out", type=result_folder, help="folder for everything (default runs/reproduce-<scale>)")
    p.add_argument(
        "--workers", type=_workers, default=1, metavar="N", help="steps at a time (default 1), or mpi: docs/cluster.md"
    )
    p.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="seeds of table1 (default: the scale's; cpu and hours use fewer for some networks)",
    )
    p.add_argument("--device", default="auto", help="auto (one GPU per worker if there are any), cpu, gpu:N")
    p.add_argument(
        "--data",
        type=_place,
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="CIFAR: a folder with both data sets, or cifar100=FILE (default: the cache, else download)",
    )
    p.add_argument("--imagenet", type=Path, metavar="DIR", help="ImageNet, or any folder with one folder per class")
    p.add_argument("--alexnet", type=Path, metavar="FILE", help="filters of an AlexNet, for figures 1 and 2")
    p.add_argument(
        "--import",
        type=Path,
        action="append",
        default=[],
        dest="imported",
        metavar="DIR",
        help="an exported folder, whose runs and analyses count as done; may be repeated",
    )
    p.add_argument("--export", type=Path, metavar="DIR", help="write the small files of what is finished, and a report")
    args = p.parse_args(arguments)
    for name in ("workers", "seeds"):
        value = getattr(args, name)
        if isinstance(value, int) and value < 1:
            raise UsageError(f"--{name} must be at least 1, got {value}")
        if isinstance(value, int) and value > MOST:
            raise UsageError(f"--{name} must be at most {MOST}, got {value}")
    check_paths(args)
    args.data = {name: path for names, path in args.data for name in names}
    return args


def check_paths(args: argparse.Namespace) -> None:
    """UsageError for what is not there, also in a dry run: with --import misspelt, its plan would train all again."""
    if args.alexnet is not None and not args.alexnet.is_file():
        raise UsageError(f"--alexnet: there is no file {args.alexnet}")
    for option, folder in [("--imagenet", args.imagenet), *(("--import", folder) for folder in args.imported)]:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{option}: there is no folder {folder}")
    for _, path in args.data:
        if not path.exists():
            raise UsageError(f"--data: there is no file or folder {path}")


def _workers(text: str) -> int | str:
    try:
        return text if text == MPI else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number or {MPI}, got {text!r}") from None


def _place(text: str) -> tuple[tuple[str, ...], Path]:
    """ "cifar100=FILE" is for one data set, a path alone for both."""
    name, equals, path = text.partition("=")
    if equals and name not in DATASETS and not Path(text).exists():
        raise UsageError(f"--data: no data set {name!r}; there are {' and '.join(DATASETS)}")
    return ((name,), Path(path)) if equals and name in DATASETS else (DATASETS, Path(text))


def reproduce(
    args: argparse.Namespace,
    targets: list[Target],
    scale: Scale,
    records: Records,
    means: Resources,
    line: str,
    pool: Pool | None = None,
) -> int:
    steps = steps_of(targets, scale, means.files)
    if args.export and not args.report:
        check_tables(exported(args.export, scale, records, means), targets)
    plan: list[Status] = []
    outcomes: list[Status] = []
    with StopSignal() as stop:
        if not args.report:
            photographs = TRAIN if scale.generated else TRAIN_IMAGES
            plan = make_plan(steps, records, Estimator(means.devices[0], photographs))
            if args.no_training:
                plan = without_training(plan)
            print(f"{show(plan, args.workers)}\n", flush=True)
            if args.dry_run:
                return 0
            records.root.mkdir(parents=True, exist_ok=True)
            executor = Executor(records, means, args.workers, stop, pool)
            closed = [status.step.name for status in plan if status.closed]
            with locked(records.root, "reproducing"):
                outcomes = executor.run([status.step for status in plan if status.open], closed)
        elif args.dry_run:
            return 0
        report = write_report(Context(records.root, scale, records, means.files), targets, line)
        print(summary(plan, outcomes, records, means))
        print(f"report: {report}")
        if args.export:
            runs, analyses = export(records, steps, args.export)
            unpacked.cache_clear()  # it may be an archive that was imported, too
            write_report(exported(args.export, scale, records, means), targets, line, keep=True)
            print(f"exported {counted(runs, 'run')} and {counted(analyses, 'analysis', 'analyses')} to {args.export}")
        if stop():
            print(f"interrupted; to continue:\n\n  {line}", file=sys.stderr)
            return 130
    unusable = any(step.name in records.problems for step in steps)
    return 1 if unusable or any(outcome.state == FAILED for outcome in outcomes) else 0


def exported(archive: Path, scale: Scale, records: Records, means: Resources) -> Context:
    """What the report in an archive is made from: what is there, and what was done here."""
    return Context(archive, scale, Records(archive, [archive, *records.roots]), means.files, embed=False)


if __name__ == "__main__":
    run_main(main, MODULE)
