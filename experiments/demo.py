"""The paper in five minutes: a ReLU baseline against CReLU with half the filters, small enough for two cores.

Both networks are the paper's with a quarter of every width, trained for a few epochs on a part of CIFAR-10; where that
cannot be had, on textures, which prove nothing.  The comparison is printed, and drawn in runs/demo/.  Run it again and
it shows what it has; interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.app import (
    StopSignal,
    argument_parser,
    command,
    duration,
    get_device,
    run_main,
    stopped,
    usage_errors,
)
from experiments.figures.curves import draw_comparison, draw_predictions
from experiments.tables.table import Table
from experiments.train import protocols
from experiments.train.arrays import Job, run
from experiments.train.cifar import TRAIN_IMAGES, Settings, settings
from minicnn.data.catalogue import load
from minicnn.data.dataset import DataError, Dataset
from minicnn.training import Interrupted

MODULE = "experiments.demo"
NETWORKS = {"ReLU baseline": ("relu", "base"), "CReLU (half)": ("crelu", "half")}


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--dataset", choices=("cifar10", "textures"), default="cifar10", help="default cifar10")
    p.add_argument("--data", type=Path, help="folder or archive with CIFAR-10 (default: the cache, else download)")
    p.add_argument("--subset", type=int, default=12_500, help="training images (default 12500)")
    p.add_argument("--epochs", type=int, default=5, help="default 5")
    p.add_argument("--scale", type=float, default=0.25, help="of the paper's widths (default 0.25)")
    p.add_argument("--device", default="auto", help="auto, cpu, gpu or gpu:N")
    p.add_argument("--out", type=Path, default=Path("runs/demo"), help="default runs/demo")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        for one in networks(args, args.dataset, TRAIN_IMAGES[args.dataset]).values():
            one.check()
    device = get_device(args.device)
    what = f"{args.scale:g} of the paper's widths, {args.epochs} epochs of {args.subset} images"
    print(f"Two networks, {what}, {device}.")
    if args.dry_run:
        return 0
    data, asked = get_data(args)
    results, line = {}, command(MODULE, arguments)
    with StopSignal() as stop:
        for label, one in asked.items():
            print(f"\n{label}", file=sys.stderr)
            folder = args.out / one.name
            job = Job(one, folder, protocols.training_indices(one, data))
            try:
                result = run(job, data, device=device, resume=True, command=line, stop=stop)
            except Interrupted:
                return stopped(folder, line)
            results[label] = result | {"folder": folder, "parameters": _count(one)}
    print(f"\n{comparison(results, data.name)}\n")
    draw_comparison(args.out / "curves.png", {label: r["folder"] for label, r in results.items()})
    best = min(results, key=lambda label: results[label]["test_error"])
    outputs = np.load(results[best]["folder"] / "test_probabilities.npy")
    draw_predictions(args.out / "predictions.png", data, outputs, title=f"{best} on test images")
    print(f"Pictures: {args.out / 'curves.png'}, {args.out / 'predictions.png'}")
    print("The real thing: python -m experiments.cifar --help")
    return 0


def networks(args: argparse.Namespace, dataset: str, most: int) -> dict[str, Settings]:
    """The settings of the two, on at most so many images."""
    subset = min(args.subset, most)
    return {
        label: settings(dataset=dataset, act=act, width=width, scale=args.scale, subset=subset, epochs=args.epochs)
        for label, (act, width) in NETWORKS.items()
    }


def get_data(args: argparse.Namespace) -> tuple[Dataset, dict[str, Settings]]:
    """CIFAR-10, or textures where it is not to be had; and the settings for it."""
    try:
        data = load(args.dataset, args.data)
    except DataError as error:
        print(f"CIFAR-10 is not to be had here:\n{error}\n\nGoing on with textures, which prove nothing.\n")
        data = load("textures")
    return data, networks(args, data.name, len(data.train_labels))


def comparison(results: dict[str, dict[str, Any]], dataset: str) -> str:
    rows = [
        [label, f"{r['parameters']:,}", f"{r['train_error']:.1f}", f"{r['test_error']:.1f}", duration(r["seconds"])]
        for label, r in results.items()
    ]
    note = (
        "Textures prove nothing; this only shows that everything runs."
        if dataset == "textures"
        else "One seed and a few epochs: a taste, no evidence.  The paper's full networks: 9.17 % and 8.37 %."
    )
    return Table(["network", "parameters", "train error %", "test error %", "time"], rows).text() + f"\n\n{note}"


def _count(one: Settings) -> int:
    return sum(p.data.size for p in one.build_model().parameters())


if __name__ == "__main__":
    run_main(main, MODULE)
