"""Write a small folder of pictures with the layout of ImageNet, made of textures: for scales without ImageNet.

    python -m experiments.photos --out runs/pictures

There are ten classes; the pictures are JPEG files of different sizes, as photographs are.  Results on them prove
nothing.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from experiments.cli.app import UsageError, argument_parser, run_main
from minicnn.checkpoint import atomic_write
from minicnn.data.textures import textures

MODULE = "experiments.photos"
TRAIN, VALIDATION = 200, 60  # pictures
MOST = 100_000
SIZES = (48, 96)  # of sides, in pixels: from, to


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--out", type=Path, required=True, help="a folder that does not exist yet")
    p.add_argument("--train", type=int, default=TRAIN, metavar="N", help=f"training pictures (default {TRAIN})")
    p.add_argument(
        "--validation", type=int, default=VALIDATION, metavar="N", help=f"validation pictures (default {VALIDATION})"
    )
    p.add_argument("--dry-run", action="store_true", help="say what would be written, and stop")
    args = p.parse_args(arguments)
    if args.out.exists():
        raise UsageError(f"{args.out} is there already; remove it, or choose another --out")
    if min(args.train, args.validation) < 1 or max(args.train, args.validation) > MOST:
        raise UsageError(f"--train and --validation must be in 1 .. {MOST}, got {args.train} and {args.validation}")
    if args.dry_run:
        print(f"would write {args.train} training and {args.validation} validation pictures to {args.out}")
        return 0
    write_pictures(args.out, args.train, args.validation)
    print(f"{args.train} training and {args.validation} validation pictures in {args.out}")
    return 0


def write_pictures(folder: Path, train: int, validation: int) -> None:
    """train/<class>/*.JPEG and val/<class>/*.JPEG; the folder gets its name only when all are written."""
    from PIL import Image

    data, unfinished = textures(train, validation), folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    rng = np.random.default_rng(0)
    parts = {"train": (data.train_images, data.train_labels), "val": (data.test_images, data.test_labels)}
    for part, (images, labels) in parts.items():
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            place = unfinished / part / data.classes[label].replace(" ", "-")
            place.mkdir(parents=True, exist_ok=True)
            width, height = (int(side) for side in rng.integers(*SIZES, 2))
            large = Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC)
            atomic_write(place / f"{i:05d}.JPEG", partial(large.save, format="JPEG", quality=90))
    unfinished.rename(folder)


if __name__ == "__main__":
    run_main(main, MODULE)
