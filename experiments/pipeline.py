"""How fast do pictures come?  The ImageNet pipeline beside a bare loop of Pillow, on the same files, in the same run.

The loop opens a file, decodes it and brings its shorter side to 256 pixels, as many processes as cores at once, and
does nothing with the result.  The pipeline does what training needs: random crops, flips, colour noise, normalised
batches in a fixed order.  Both are measured in turns; the files are in memory (the page cache) after the first.

examples:
  python -m experiments.pipeline                                  2,000 generated JPEGs of 500x375 pixels
  python -m experiments.pipeline --pictures 500 --rounds 3        quicker
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.tables.table import Table
from minicnn.data.colour import Colours
from minicnn.data.decode import View, decode
from minicnn.data.folders import Pictures, pictures_in
from minicnn.data.photographs import BadImages, PhotoBatches
from minicnn.data.workers import Decoders
from minicnn.parallel import usable_cores

MODULE = "experiments.pipeline"
SIDE, CROP, BATCH = 256, 224, 64
DIFFERENT = 50  # generated pictures; the others are further names of the same files


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--data", type=Path, metavar="DIR", help="a folder with pictures of your own")
    p.add_argument("--pictures", type=int, default=2000, help="how many are decoded in a round (default 2000)")
    p.add_argument("--rounds", type=int, default=5, help="default 5; medians are reported")
    p.add_argument("--workers", type=int, default=len(usable_cores()), help="processes (default: cores)")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    if min(args.pictures, args.rounds, args.workers) < 1:
        raise UsageError("--pictures, --rounds and --workers must be positive")
    print(f"{args.pictures} pictures, {args.rounds} rounds, {args.workers} processes")
    if args.dry_run:
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        paths = pictures_in(args.data or generate(Path(temporary)))
        if not paths:
            raise UsageError(f"{args.data} has no pictures")
        found = measure([paths[i % len(paths)] for i in range(args.pictures)], args.workers, args.rounds)
    rows = [[name, f"{median(speeds):.0f}", f"{min(speeds):.0f} - {max(speeds):.0f}"] for name, speeds in found.items()]
    print(f"\n{Table(['', 'pictures/s', 'range'], rows).text()}\n")
    bare, ours = found.values()
    print(f"ratio {median(o / b for o, b in zip(ours, bare, strict=True)):.3f} (median over rounds)")
    return 0


def generate(folder: Path) -> Path:
    """JPEGs of 500x375 pixels, of the size that photographs have (about 100 kB)."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(DIFFERENT):
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int64)
        pixels = np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg", quality=90)
    return folder


def measure(paths: list[str], workers: int, rounds: int) -> dict[str, list[float]]:
    """Pictures a second, of each way in every round."""
    bare, ours = [], []
    colours = Colours.of(decode(View(path, SIDE), SIDE) for path in paths[:10])
    pictures = Pictures(Path(), tuple(paths), np.zeros(len(paths), np.int64))
    context = multiprocessing.get_context("spawn")
    with Decoders(workers, SIDE) as decoders, context.Pool(workers) as pool:
        batches = PhotoBatches(pictures, BATCH, CROP, colours, decoders, BadImages(), seed=0)
        parts = [paths[i::workers] for i in range(workers)]
        for number in range(rounds + 1):  # the first warms up
            start = time.perf_counter()
            pool.map(bare_loop, parts, chunksize=1)
            middle = time.perf_counter()
            for _ in batches.epoch(number):
                pass
            if number:
                bare.append(len(paths) / (middle - start))
                ours.append(len(paths) / (time.perf_counter() - middle))
    return {"bare decode and resize": bare, "pipeline": ours}


def bare_loop(paths: list[str]) -> None:
    from PIL import Image

    for path in paths:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
        scale = SIDE / min(rgb.size)
        rgb.resize((round(scale * rgb.width), round(scale * rgb.height)), Image.Resampling.BILINEAR)


if __name__ == "__main__":
    run_main(main, MODULE)
