"""How fast are pictures read?  The ImageNet pipeline beside a bare loop of Pillow, on the same files, in the same run.

The loop opens a file, decodes it and scales its shorter side to 256 pixels, in as many processes as there are cores,
and does nothing with the result.  The pipeline does what training needs: random crops, flips, colour noise, normalised
batches in a fixed order.  The two take turns; after the first round the files are in memory (the page cache).

examples:
  python -m experiments.pipeline                                  2,000 generated JPEGs of 500x375 pixels
  python -m experiments.pipeline --pictures 500 --rounds 3        quicker
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from experiments.benchmarks.pictures import generate, measure
from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.tables.table import Column, Table
from minicnn.data.folders import pictures_in
from minicnn.parallel import usable_cores

MODULE = "experiments.pipeline"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--data", type=Path, metavar="DIR", help="a folder with pictures of your own")
    p.add_argument("--pictures", type=int, default=2000, help="how many are decoded per round (default 2000)")
    p.add_argument("--rounds", type=int, default=5, help="default 5; medians are reported")
    p.add_argument("--workers", type=int, default=len(usable_cores()), help="processes (default: one per core)")
    p.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    args = p.parse_args(arguments)
    if min(args.pictures, args.rounds, args.workers) < 1:
        raise UsageError("--pictures, --rounds and --workers must be positive")
    if args.workers > args.pictures:
        raise UsageError(f"--workers: {args.workers} processes have nothing to do with --pictures {args.pictures}")
    print(f"{args.pictures} pictures, {args.rounds} rounds, {args.workers} processes")
    if args.dry_run:
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        paths = pictures_in(args.data or generate(Path(temporary)))
        if not paths:
            raise UsageError(f"{args.data} has no pictures; name a folder with .jpg or .png files")
        found = measure([paths[i % len(paths)] for i in range(args.pictures)], args.workers, args.rounds)
    rows = [[name, median(speeds), f"{min(speeds):.0f} - {max(speeds):.0f}"] for name, speeds in found.items()]
    print(f"\n{Table(['', Column('pictures/s', '.0f'), 'range'], rows).text()}\n")
    bare, ours = found.values()
    print(f"ratio {median(o / b for o, b in zip(ours, bare, strict=True)):.3f} (median over rounds)")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
