"""What do CReLU features keep of an image?  (The paper's Figure 5 and Table S1.)

Pictures: images reconstructed from the features of conv1 to conv4, with no learning: Algorithm 1 window by window
("region", as in the paper) and by least squares over the whole image ("global").  Behind a max pool Algorithm 2 is
used, which needs the switches of the pool beside the features.  Under each: ||x - x'|| / ||x|| of the normalised
image, and the PSNR of the picture; with a star where least squares had not converged.

Ratios: where a max pool follows (conv2 and conv5), ||x - x'|| / ||x|| of the features before the convolution,
recovered from the pooled ones by Algorithm 2; for the learned filters, for Gaussian filters in their place, and
simulated without a network.

examples:
  python -m experiments.reconstruction --run runs/crelu-half
  python -m experiments.reconstruction --run runs/crelu-half --image cat.jpg --image dog.png
  python -m experiments.reconstruction --run runs/crelu-half --layers conv1,conv2 --subset 100
  python -m experiments.reconstruction --run runs/crelu-half --layers conv4 --iterations 5000

Writes <run>-images.png, <run>-images.csv and ratios.csv.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.runner import (
    announce,
    batches,
    data_option,
    images_of,
    not_comparable,
    out_folder,
    parser,
    sample,
)
from experiments.cli.app import UsageError, get_device, run_main
from experiments.cli.files import write_csv
from experiments.cli.progress import Progress
from experiments.figures.sheets import Cell, draw_sheet
from experiments.tables.table import Table
from experiments.train.run import Run, open_runs
from minicnn.analysis.inversion import Step, crelu_steps, pooling_ratios, reconstruct
from minicnn.backend import Device, to_host
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import Dataset
from minicnn.data.decode import read_whole
from minicnn.random import Stream
from minicnn.theory.monte_carlo import MonteCarlo
from minicnn.theory.reconstruction import ITERATIONS, METHODS, NotConverged, psnr, ratio
from minicnn.theory.subspace import random_filter_ratio
from reference.paper import TABLE_S1

MODULE = "experiments.reconstruction"
LAYERS = ("conv1", "conv2", "conv3", "conv4")  # unless --layers says otherwise; a network may have fewer
BANKS, BATCH = 5, 50  # banks of random filters; images at a time


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--image", type=Path, action="append", default=[], metavar="FILE", help="a picture of your own")
    p.add_argument("--size", type=int, default=96, help="longer side of own pictures, in pixels (default 96)")
    p.add_argument("--count", type=int, default=4, help="test images to show where there is no --image (default 4)")
    p.add_argument("--layers", type=_names, default=LAYERS, metavar="NAME,...", help=f"default {','.join(LAYERS)}")
    most = f"steps of least squares, at most (default {ITERATIONS})"
    p.add_argument("--iterations", type=int, default=ITERATIONS, metavar="N", help=most)
    p.add_argument("--subset", type=int, default=1000, metavar="N", help="test images for the ratios (default 1000)")
    args = p.parse_args(arguments)
    if min(args.size, args.count, args.iterations, args.subset) < 1:
        raise UsageError("--size, --count, --iterations and --subset must be positive")
    device = get_device(args.device)
    if args.dry_run:
        shown = ", ".join(map(str, args.image)) or f"{args.count} test images"
        what = (
            f"reconstruct {shown} from {','.join(args.layers)}, and ratios over {args.subset} test images, on {device}"
        )
        announce(args, MODULE, what, ["<run>-images.png", "<run>-images.csv", "ratios.csv"])
        return 0
    runs = open_runs(args.run)
    data = images_of(runs, args.data, 0 if args.image else args.count)
    images, folder = chosen_images(args, data), out_folder(args, MODULE)
    networks = [(run, steps_of(run, device), run.normaliser(data)) for run in runs]  # all, before the work begins
    layers = [chosen_steps(run, steps, args.layers) for run, steps, _ in networks]
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for (run, steps, normalise), chosen in zip(networks, layers, strict=True):
        pictures(run, chosen, images, normalise, args.iterations, folder, device)
        rows += ratios(run, steps, data, normalise, args.subset, device)
    if rows:
        print(f"\n{report(rows)}\n\n± is the standard error over images (random: over banks of filters).")
        write_csv(folder / "ratios.csv", rows)
    else:
        print("\nno ratios: no max pool follows these CReLU layers")
    print(not_comparable(runs))
    print(f"saved in {folder}")
    return 0


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names:
        raise argparse.ArgumentTypeError("expected names of layers, such as conv1,conv2")
    return names


def steps_of(run: Run, device: Device) -> list[Step]:
    """The layers that images can be reconstructed from, in order."""
    steps = crelu_steps(run.model(device))
    if not steps:
        raise UsageError(f"{run.folder}: a network without CReLU after its first convolution ({run.label})")
    return steps


def chosen_steps(run: Run, steps: list[Step], wanted: tuple[str, ...]) -> list[list[Step]]:
    """For every layer that is wanted, the steps from the image to it."""
    names = [step.name for step in steps]
    unknown = [name for name in wanted if name not in names]
    if unknown and wanted != LAYERS:
        raise UsageError(f"{run.folder}: no CReLU features at {', '.join(unknown)}; there are {', '.join(names)}")
    return [steps[: names.index(name) + 1] for name in wanted if name in names]


def chosen_images(args: argparse.Namespace, data: Dataset) -> list[tuple[str, np.ndarray]]:
    """(name, (H, W, 3) uint8): the files that --image names, or test images."""
    if not args.image:
        chosen = sample(min(args.count, len(data.test_images)), len(data.test_images))
        return [(f"test image {i}", data.test_images[i]) for i in chosen]
    found = []
    for path in args.image:
        image = read_whole(path, args.size)
        height, width, _ = image.shape
        if min(height, width) < 8:
            raise UsageError(f"{path} is too small: {width}x{height} pixels")
        found.append((path.name, image))
    return found


def pictures(
    run: Run,
    layers: list[list[Step]],
    images: list[tuple[str, np.ndarray]],
    normalise: Normaliser,
    iterations: int,
    folder: Path,
    device: Device,
) -> None:
    """The sheet of originals and reconstructions, and its numbers."""
    cells: list[list[Cell]] = []
    rows: list[dict[str, Any]] = []
    with Progress(len(images), f"{run.name}, pictures") as progress:
        for name, image in images:
            line = [Cell((image,), name)]
            for method in METHODS:
                for steps in layers:
                    found = _reconstructed(name, image, steps, method, iterations, normalise, device)
                    star = "" if found.converged else "*"
                    line.append(Cell((found.shown,), f"{found.ratio:.3f}{star}, {_decibels(found.psnr)}"))
                    row = {"image": name, "layer": steps[-1].name, "method": method, "ratio": found.ratio}
                    rows.append({**row, "psnr": found.psnr, "converged": found.converged})
            cells.append(line)
            progress()
    heads = ["original", *(f"{steps[-1].name}, {method}" for method in METHODS for steps in layers)]
    unfinished = sum(not row["converged"] for row in rows)
    title = f"{run.label}: images from features, with ||x - x'|| / ||x|| and PSNR"
    title += " (*: least squares had not converged)" if unfinished else ""
    draw_sheet(folder / f"{run.name}-images.png", cells, title=title, heads=heads, side=96)
    write_csv(folder / f"{run.name}-images.csv", rows)
    each = len(heads) - 1  # rows of one image
    means = [[head, f"{np.mean([row['ratio'] for row in rows[i::each]]):.3f}"] for i, head in enumerate(heads[1:])]
    print(f"\n{run.label}, {run.name}: {len(images)} images\n\n{Table(['from', 'mean ratio'], means).text()}")
    if unfinished:
        print(f"* {unfinished} of {len(rows)} by least squares that had not converged: they depend on when one stops")


class Reconstructed(NamedTuple):
    """The picture that comes back, its ratio and PSNR, and whether every iteration on the way had converged."""

    shown: np.ndarray
    ratio: float
    psnr: float
    converged: bool


def _reconstructed(
    name: str,
    image: np.ndarray,
    steps: list[Step],
    method: str,
    iterations: int,
    normalise: Normaliser,
    device: Device,
) -> Reconstructed:
    """A picture from the features of the last step."""
    x = device.put(normalise(image[None]))
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", NotConverged)
            estimate = reconstruct(x, steps, method=method, iterations=iterations)
    except ValueError as error:  # a picture of one's own may be smaller than the filters
        raise UsageError(f"{name}: {error}") from None
    shown = _picture(to_host(estimate)[0], normalise)
    decibels = psnr(image[None] / 255.0, shown[None] / 255.0, peak=1.0)
    converged = not any(issubclass(warning.category, NotConverged) for warning in said)
    return Reconstructed(shown, float(ratio(x, estimate)[0]), float(decibels[0]), converged)


def _decibels(value: float) -> str:
    return "exact" if math.isinf(value) else f"{value:.1f} dB"


def _picture(x: np.ndarray, normalise: Normaliser) -> np.ndarray:
    """A normalised image as bytes; what is out of range is clipped."""
    return np.rint(255 * np.clip(x * np.array(normalise.std) + np.array(normalise.mean), 0, 1)).astype(np.uint8)


def ratios(
    run: Run, steps: list[Step], data: Dataset, normalise: Normaliser, subset: int, device: Device
) -> list[dict[str, Any]]:
    """Table S1: the rows of one network."""
    pooled = [i for i, step in enumerate(steps) if step.pool is not None]
    if not pooled:
        return []
    images = data.test_images[sample(min(subset, len(data.test_images)), len(data.test_images))]
    found = []
    with Progress(len(pooled) * (1 + BANKS) * len(images), f"{run.name}, ratios") as progress:
        for i in pooled:
            w = steps[i].layer.w
            stream = Stream(0).child("random filters", steps[i].name)
            banks = [None, *(device.put(stream.at(b).generator().standard_normal(w.shape)) for b in range(BANKS))]
            values = [_ratios(images, normalise, steps[: i + 1], bank, progress, device) for bank in banks]
            by_bank = [part.mean() for part in values[1:]]
            simulated = random_filter_ratio(
                MonteCarlo(BANKS, stream.child("simulated")), channels=w.shape[2], filters=w.shape[3], device=device
            )
            found.append(
                {
                    "run": run.name,
                    "layer": steps[i].name,
                    "images": len(images),
                    "learned": float(values[0].mean()),
                    "learned_se": float(values[0].std(ddof=1) / math.sqrt(len(images))) if len(images) > 1 else None,
                    "random": float(np.mean(by_bank)),
                    "random_se": float(np.std(by_bank, ddof=1) / math.sqrt(BANKS)),
                    "simulated": simulated.value,
                    "dataset": run.settings.dataset,
                }
            )
    return found


def _ratios(
    images: np.ndarray, normalise: Normaliser, steps: list[Step], w: Any, progress: Progress, device: Device
) -> np.ndarray:
    parts = []
    for batch in batches(images, normalise, BATCH):
        parts.append(to_host(pooling_ratios(device.put(batch), steps, w)))
        progress(len(batch))
    return np.concatenate(parts)


def report(rows: list[dict[str, Any]]) -> str:
    paper = {(row.label, row.dataset): f"{row.learned:.2f} / {row.random:.2f}" for row in TABLE_S1}
    lines = [
        [
            row["run"],
            row["layer"],
            f"{row['learned']:.4f}" + ("" if row["learned_se"] is None else f" ± {row['learned_se']:.4f}"),
            f"{row['random']:.4f} ± {row['random_se']:.4f}",
            f"{row['simulated']:.3f}",
            paper.get((row["layer"], row["dataset"]), "-"),
        ]
        for row in rows
    ]
    return Table(["run", "layer", "learned", "random filters", "simulated", "paper learned / random"], lines).text()


if __name__ == "__main__":
    run_main(main, MODULE)
