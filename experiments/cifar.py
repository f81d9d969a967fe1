"""Train one of the paper's CIFAR networks (Tables 1 and 2).

examples:
  python -m experiments.cifar --act crelu --device gpu            the CReLU network, on a GPU
  python -m experiments.cifar --act crelu --width half            half the filters, half the parameters
  python -m experiments.cifar --scale 0.25 --subset 5000          a quarter of each width: minutes on a CPU
  python -m experiments.cifar --model vgg --act crelu --at 1,3    VGG with CReLU after conv1 and conv3
  python -m experiments.cifar --recipe paper --protocol folds     ten networks: Average and Vote
  python -m experiments.cifar --dataset textures --scale 0.1      no download: a data set made by formulas
  python -m experiments.cifar --act avr --dry-run                 the network and what it will cost, nothing else
  mpiexec -n 4 python -m experiments.cifar --act crelu            four processes share every batch (docs/cluster.md)

A run writes runs/<name>/: config.json, metrics.csv, checkpoint.npz, curves.png, result.json.  Ctrl-C saves it, and the
same command with --resume goes on from there, to the same result as if it had never stopped.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cli.app import StopSignal, command, device_and_ranks, duration, get_device, stopped
from experiments.cli.ranks import run_on_ranks
from experiments.tables.table import Table
from experiments.train import protocols
from experiments.train.arrays import Job, run
from experiments.train.cifar import Settings
from experiments.train.cifar_options import checked_settings, parser
from experiments.train.estimate import corrections, estimate
from minicnn.cluster import ALONE, Communicator
from minicnn.data.catalogue import load
from minicnn.data.dataset import Dataset
from minicnn.nn import describe
from minicnn.training import Interrupted
from reference.paper import CifarRow, VggRow, cifar_result, vgg_result

MODULE = "experiments.cifar"


def main(arguments: list[str], cluster: Communicator = ALONE) -> int:
    args = parser(MODULE, __doc__).parse_args(arguments)
    asked = checked_settings(args)
    device = get_device(args.device, cluster, tf32=args.tf32)
    model = asked.build_model()
    summary = describe(model, (32, 32, 3))
    notes = corrections(asked.model, (asked.act, asked.width))
    print(f"{asked.name} on {device_and_ranks(device, cluster)}\n\n{summary}\n{notes}")
    images = asked.images * asked.epochs * _trainings(args)
    print(estimate(asked, summary, device, images, cluster.size), "\n", flush=True)
    if args.dry_run:
        return 0
    data = cluster.root_first(lambda: load(asked.dataset, args.data))
    folder = args.out or Path("runs") / (asked.name + ("" if args.protocol == "plain" else f"-{args.protocol}"))
    line = command(MODULE, arguments, cluster.size)
    with StopSignal() as stop:
        one = partial(run, data=data, device=device, resume=args.resume, command=line, stop=stop, cluster=cluster)
        try:
            result = follow_protocol(args, asked, folder, data, one, cluster)
        except Interrupted:
            again = arguments if args.resume else [*arguments, "--resume"]
            return stopped(folder, command(MODULE, again, cluster.size))
    if result is None:
        missing = ", ".join(map(str, protocols.missing_folds(folder, args.folds)))
        print(f"saved in {folder}; folds still missing: {missing}")
        return 0
    print(f"\n{report(asked, summary.parameters, result)}\n")
    print(f"saved in {folder}, {duration(result['seconds'])} of training")
    return 0


def _trainings(args: argparse.Namespace) -> int:
    """How many networks the protocol trains, each for all epochs."""
    return {"plain": 1, "single": 2, "folds": 1 if args.fold else args.folds}[args.protocol]


def follow_protocol(
    args: argparse.Namespace, asked: Settings, folder: Path, data: Dataset, one: Any, cluster: Communicator
) -> dict[str, Any] | None:
    def run_job(job: Job) -> dict[str, Any]:
        print(f"{job.folder}: {len(job.train)} images, {len(job.hold_out)} held out", file=sys.stderr)
        return one(job)

    if args.protocol == "plain":
        return protocols.plain(asked, folder, data, run_job, args.hold_out or 0)
    if args.protocol == "single":
        held = args.hold_out or 10_000
        return protocols.single(asked, folder, data, run_job, hold_out=held, stop=args.stop, cluster=cluster)
    return protocols.folds(asked, folder, data, run_job, count=args.folds, only=args.fold, cluster=cluster)


def paper_row(asked: Settings) -> CifarRow | VggRow | None:
    """What the paper reports of this network, where it does."""
    if asked.model == "vgg":  # Table 2 has the plain network, and CReLU at some of its layers
        return vgg_result(asked.at, asked.dataset) if asked.act == "crelu" or not asked.at else None
    return cifar_result(asked.act, asked.width, asked.dataset)


def report(asked: Settings, parameters: int, result: dict[str, Any]) -> str:
    """A table of the result with the paper's figure beside it."""
    row = paper_row(asked)
    if result["protocol"] == "folds":
        errors = {
            "average": (f"{result['average']:.2f} ± {result['standard_error']:.2f}", row and row.average),
            "vote": (f"{result['vote']:.2f}", row and row.vote),
        }
    else:
        errors = {"test error": (f"{result['test_error']:.2f}", row and row.single)}
    about = [asked.name, f"{parameters:,}", f"{result['train_error']:.2f}"]
    lines = [[*about, kind, ours, "-" if paper is None else f"{paper:.2f}"] for kind, (ours, paper) in errors.items()]
    text = Table(["run", "parameters", "train error %", "", "ours %", "paper %"], lines).text()
    if asked.reductions and row is not None:
        text += f"\n\nThe two are not comparable: this run is reduced ({', '.join(asked.reductions)})."
    elif result["protocol"] == "plain" and row is not None:
        text += '\n\nThe paper\'s figure is its "Single" protocol (--protocol single).'
    return text


if __name__ == "__main__":
    run_on_ranks(main, MODULE)
