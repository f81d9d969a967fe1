"""The paper in five minutes: a ReLU baseline against CReLU with half the filters, small enough for two cores.

Both networks are the paper's with a quarter of every width, trained for three epochs of CIFAR-10 by the recipe `hour`
(docs/recipes.md); if CIFAR-10 is not available, on textures, which prove nothing.  The comparison is printed, and
drawn in runs/demo/.  Run it again to see the same results; if it was interrupted, it continues.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from experiments.cli.app import (
    argument_parser,
    command,
    counted,
    duration,
    get_device,
    interruptible,
    run_main,
    usage_errors,
)
from experiments.cli.values import result_folder
from experiments.figures.curves import draw_comparison, draw_predictions
from experiments.tables.table import Table
from experiments.train.arrays import ArrayJob
from experiments.train.cifar import CifarSettings
from experiments.train.folder import read_predictions
from experiments.train.session import run_job
from minicnn.data.catalogue import CATALOGUE, load
from minicnn.data.dataset import DataError, Dataset

MODULE = "experiments.demo"
NETWORKS = {"ReLU baseline": ("relu", "base"), "CReLU (half)": ("crelu", "half")}


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--dataset", choices=("cifar10", "textures"), default="cifar10", help="default cifar10")
    p.add_argument("--data", type=Path, help="folder or archive with CIFAR-10 (default: the cache, else download)")
    p.add_argument("--subset", type=int, default=50_000, help="training images (default 50000)")
    p.add_argument("--epochs", type=int, default=3, help="default 3")
    p.add_argument("--scale", type=float, default=0.25, help="fraction of the paper's widths (default 0.25)")
    p.add_argument("--device", default="auto", help="auto, cpu, gpu or gpu:N")
    p.add_argument("--out", type=result_folder, default=Path("runs/demo"), help="default runs/demo")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        for one in networks(args, args.dataset).values():
            one.check()
    device = get_device(args.device)
    what = f"{args.scale:g} of the paper's widths, {counted(args.epochs, 'epoch')} of {args.subset} images"
    print(f"Two networks, {what}, {device}.")
    if args.dry_run:
        return 0
    data = get_data(args)
    results, line = {}, command(MODULE, arguments)
    for label, one in networks(args, data.name).items():
        print(f"\n{label}", file=sys.stderr)
        job = ArrayJob(one, args.out / one.name, data, one.chosen_images(len(data.train_labels)))
        with interruptible(line, job.folder) as stop:
            result = run_job(job, device=device, resume=True, command=line, stop=stop)
        results[label] = result | {"folder": job.folder, "parameters": one.parameters}
    print(f"\n{comparison(results, data.name)}\n")
    draw_comparison(args.out / "curves.png", {label: r["folder"] for label, r in results.items()})
    best = min(results, key=lambda label: results[label]["test_error"])
    outputs, _ = read_predictions(results[best]["folder"])
    draw_predictions(args.out / "predictions.png", data, outputs, title=f"{best} on test images")
    print(f"Pictures: {args.out / 'curves.png'}, {args.out / 'predictions.png'}")
    print("The real thing: python -m experiments.cifar --help")
    return 0


def networks(args: argparse.Namespace, dataset: str) -> dict[str, CifarSettings]:
    """The settings of the two networks; a smaller data set is used whole."""
    same = {"dataset": dataset, "recipe": "hour", "scale": args.scale, "epochs": args.epochs}
    same["subset"] = min(args.subset, CATALOGUE[dataset].train)
    return {label: CifarSettings.of(act=act, width=width, **same) for label, (act, width) in NETWORKS.items()}


def get_data(args: argparse.Namespace) -> Dataset:
    """CIFAR-10, or textures if it is not available."""
    try:
        return load(args.dataset, args.data)
    except DataError as error:
        if args.data is not None:
            raise
        print(f"CIFAR-10 is not available here:\n{error}\n\nContinuing with textures, which prove nothing.\n")
        return load("textures")


def comparison(results: dict[str, dict[str, Any]], dataset: str) -> str:
    rows = [
        [label, f"{r['parameters']:,}", f"{r['train_error']:.1f}", f"{r['test_error']:.1f}", duration(r["seconds"])]
        for label, r in results.items()
    ]
    note = (
        "Textures prove nothing; this only shows that everything runs."
        if dataset == "textures"
        else "One seed and a few epochs: a taste, not evidence.  The paper's full networks: 9.17 % and 8.37 %."
    )
    return Table(["network", "parameters", "train error %", "test error %", "time"], rows).text() + f"\n\n{note}"


if __name__ == "__main__":
    run_main(main, MODULE)
