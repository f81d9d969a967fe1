"""Train one of the paper's CIFAR networks (Tables 1 and 2).

examples:
  python -m experiments.cifar --act crelu --device gpu            the CReLU network, on a GPU
  python -m experiments.cifar --act crelu --width half            half the filters, half the parameters
  python -m experiments.cifar --scale 0.25 --subset 5000          a quarter of each width: minutes on a CPU
  python -m experiments.cifar --model vgg --act crelu --at 1,3    VGG with CReLU after conv1 and conv3
  python -m experiments.cifar --recipe paper --protocol folds     ten networks: Average and Vote
  python -m experiments.cifar --dataset textures --scale 0.1      no download: a data set made by formulas
  python -m experiments.cifar --act avr --dry-run                 the network and what it will cost, nothing else
  python -m experiments.cifar --act crelu --processes 4           four processes share every batch (docs/cluster.md)
  mpiexec -n 4 python -m experiments.cifar --act crelu            the same with MPI, also on several machines

A run writes runs/<name>/: config.json, metrics.csv, checkpoint.npz, curves.png, predictions.npz, result.json.  Ctrl-C
saves it, and the same command with --resume continues from there, with the same result as if it had never stopped.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cli.app import UsageError, command, get_device, hint, interruptible, usage_errors
from experiments.cli.ranks import run_on_ranks
from experiments.cli.values import check_numbers
from experiments.tables.table import Table
from experiments.train import protocols
from experiments.train.cifar import CifarSettings
from experiments.train.estimate import announce
from experiments.train.folder import at_chance, closing
from experiments.train.imagenet import ImagenetSettings
from experiments.train.session import run_job
from experiments.train.settings import asked_settings, note_resume, output_options, training_parser
from minicnn.cluster import ALONE, Communicator
from minicnn.data.catalogue import CATALOGUE, load
from minicnn.data.dataset import Dataset
from minicnn.data.decode import SUFFIXES

MODULE = CifarSettings.MODULE


def parser() -> argparse.ArgumentParser:
    p, groups = training_parser(CifarSettings, __doc__)
    groups["data"].add_argument(
        "--data", type=Path, help="folder or archive with the data (default: $MINICNN_DATA or the cache, else download)"
    )
    how = p.add_argument_group("protocol")
    how.add_argument(
        "--protocol",
        choices=("plain", "single", "folds"),
        default="plain",
        help="plain: train on all images, then test (default); single: find the number of epochs on a hold-out first; "
        "folds: Average and Vote",
    )
    kept = "plain, single: images kept from training to choose the epoch (default: single 10000, plain 0)"
    how.add_argument("--hold-out", type=int, metavar="N", help=kept)
    when = "single: when the second training stops (default epochs)"
    how.add_argument("--stop", choices=("epochs", "loss"), help=when)
    how.add_argument("--folds", type=int, metavar="K", help="folds: how many (default 10)")
    one = "folds: train only fold I (1 .. K), e.g. on another machine"
    how.add_argument("--fold", type=int, metavar="I", help=one)
    out = output_options(p)
    tta = "show also the error when each test image and its mirror image are averaged (result.json has both)"
    out.add_argument("--tta", action="store_true", help=tta)
    return p


def main(arguments: list[str], cluster: Communicator = ALONE) -> int:
    args = parser().parse_args(arguments)
    asked: CifarSettings = asked_settings(CifarSettings, args)
    check_protocol(args, asked.images)
    device = get_device(args.device, cluster, products=args.precision)
    folder = args.out or Path("runs") / (asked.name + ("" if args.protocol == "plain" else f"-{args.protocol}"))
    finished = cluster.on_root((folder / "result.json").exists)
    if not args.dry_run:  # before anything is computed, in case it is not there
        with hint(where_data_is(args.data)):
            data = cluster.root_first(lambda: load(asked.dataset, args.data))
    if args.dry_run or not finished:
        trainings = {"plain": 1, "single": 2, "folds": 1 if args.fold else args.folds}[args.protocol]
        announce(asked, device, asked.images * asked.epochs * trainings, cluster)
    if args.dry_run:
        return 0
    note_resume(args.resume, folder)
    line, again = (command(MODULE, arguments, cluster.launcher, resume=resume) for resume in (False, True))
    with interruptible(again, folder) as stop:
        run = partial(run_job, device=device, resume=args.resume, command=line, stop=stop, cluster=cluster)
        result = protocols.follow(protocol_of(args, asked, folder, data, cluster), run)
        cluster.on_root(lambda: protocols.write_result(folder, result))
    if result is None:
        missing = ", ".join(map(str, protocols.missing_folds(folder, args.folds)))
        print(f"saved in {folder}; folds still missing: {missing}")
        return 0
    print(f"\n{report(asked, result, mirrored=args.tta)}\n")
    print(closing(folder, result["seconds"], finished))
    return 0


def where_data_is(named: Path | None) -> str:
    """What to do if there is no data."""
    words = "--data names a folder or an archive; for a first look, --dataset textures needs neither"
    files = (path for depth in ("*/*", "*/*/*") for path in named.glob(depth)) if named and named.is_dir() else ()
    if any(path.name.lower().endswith(SUFFIXES) for path in files):
        words += f"\nFor pictures of your own: {command(ImagenetSettings.MODULE, ['--data', str(named)])}"
    return words


def check_protocol(args: argparse.Namespace, images: int) -> None:
    """UsageError for numbers that make no sense, and for options that would be ignored; defaults for the others."""
    for name, own in (("stop", "single"), ("folds", "folds"), ("fold", "folds")):
        if getattr(args, name) is not None and args.protocol != own:
            raise UsageError(f"--{name} is for --protocol {own}: add it")
    if args.protocol == "folds" and args.hold_out is not None:
        raise UsageError("--hold-out is not for --protocol folds, which holds out each fold in turn: leave it out")
    if args.protocol == "folds" and args.tta:
        raise UsageError("--tta is not for --protocol folds, which averages networks: leave it out")
    if args.data is not None and args.dataset == "textures":
        raise UsageError("--data is for CIFAR; the images of textures are made by formulas: leave it out")
    args.stop, args.folds = args.stop or "epochs", 10 if args.folds is None else args.folds
    if args.folds < 2 or (args.fold is not None and not 1 <= args.fold <= args.folds):
        raise UsageError(f"--folds must be at least 2 and --fold from 1 to --folds, got {args.folds} and {args.fold}")
    if args.protocol == "single" and args.hold_out == 0:
        raise UsageError("--protocol single chooses the epoch with held-out images: --hold-out cannot be 0")
    with usage_errors():
        check_numbers(vars(args), not_negative=("hold_out",))
    held = hold_out(args)
    if args.protocol != "folds" and held >= images:
        raise UsageError(f"cannot hold out {held} of {images} training images: lower --hold-out")
    if args.protocol == "folds" and args.folds > images:
        raise UsageError(f"--folds must be at most the number of training images, {images}, got {args.folds}")


def hold_out(args: argparse.Namespace) -> int:
    """How many images choose the epoch."""
    return args.hold_out or (10_000 if args.protocol == "single" else 0)


def protocol_of(
    args: argparse.Namespace, asked: CifarSettings, folder: Path, data: Dataset, cluster: Communicator
) -> protocols.Protocol:
    if args.protocol == "plain":
        return protocols.plain(asked, folder, data, hold_out(args))
    if args.protocol == "single":
        return protocols.single(asked, folder, data, hold_out(args), args.stop)
    return protocols.folds(asked, folder, data, args.folds, args.fold, cluster)


def report(asked: CifarSettings, result: dict[str, Any], *, mirrored: bool = False) -> str:
    """A table of the result with the paper's figure beside it."""
    row = asked.paper
    if result["protocol"] == "folds":
        errors = {
            "average": (f"{result['average']:.2f} ± {result['standard_error']:.2f}", row and row.average),
            "vote": (f"{result['vote']:.2f}", row and row.vote),
        }
    else:
        errors = {"test error": (f"{result['test_error']:.2f}", row and row.single)}
        if mirrored and "test_error_mirrored" in result:  # runs of older versions do not have it
            errors["with mirror images"] = (f"{result['test_error_mirrored']:.2f}", None)
    about = [asked.name, f"{asked.parameters:,}", f"{result['train_error']:.2f}"]
    lines = [[*about, kind, ours, "-" if paper is None else f"{paper:.2f}"] for kind, (ours, paper) in errors.items()]
    text = Table(["run", "parameters", "train error %", "", "ours %", "paper %"], lines).text()
    if asked.reductions and row is not None:
        text += f"\n\nThe two are not comparable: this run is reduced ({', '.join(asked.reductions)})."
    elif result["protocol"] == "plain" and row is not None:
        text += '\n\nThe paper\'s figure is its "Single" protocol (--protocol single).'
    error = result["average"] if result["protocol"] == "folds" else result["test_error"]
    return text + at_chance(error, asked.classes, CATALOGUE[asked.dataset].test)


if __name__ == "__main__":
    run_on_ranks(main, MODULE)
