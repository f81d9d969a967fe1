"""Write a small folder of pictures in ImageNet's layout, for machines without ImageNet.

    python -m experiments.photos --out runs/pictures
    python -m experiments.photos --out runs/pieces --of cat.jpg coffee.png rocket.jpg

The first makes them of textures, in ten classes; results on them prove nothing.  The second cuts photographs into
pieces, one class per photograph: training pieces from its left part, validation pieces from its right part.  All are
JPEG files of different sizes, as photographs are.
"""

from __future__ import annotations

from pathlib import Path

from experiments.cli.app import UsageError, argument_parser, hint, run_main
from experiments.cli.values import result_folder
from experiments.reproduction.pictures import TRAIN, VALIDATION, of_photographs, of_textures, write_pictures

MODULE = "experiments.photos"
MOST = 100_000


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--out", type=result_folder, required=True, help="a folder that does not exist yet")
    p.add_argument("--of", type=Path, nargs="+", metavar="PICTURE", help="photographs to cut into pieces: two or more")
    p.add_argument("--train", type=int, default=TRAIN, metavar="N", help=f"training pictures (default {TRAIN})")
    p.add_argument(
        "--validation", type=int, default=VALIDATION, metavar="N", help=f"validation pictures (default {VALIDATION})"
    )
    p.add_argument("--dry-run", action="store_true", help="say what would be written, and stop")
    args = p.parse_args(arguments)
    if args.out.exists():
        raise UsageError(f"{args.out} already exists; remove it, or choose another --out")
    if min(args.train, args.validation) < 1 or max(args.train, args.validation) > MOST:
        raise UsageError(f"--train and --validation must be in 1 .. {MOST}, got {args.train} and {args.validation}")
    if args.of:
        check(args.of, args.train, args.validation)
    if args.dry_run:
        print(f"would write {args.train} training and {args.validation} validation pictures to {args.out}")
        return 0
    sizes = (args.train, args.validation)
    with hint("name another file in --of"):
        write_pictures(args.out, of_photographs(args.of, *sizes) if args.of else of_textures(*sizes))
    print(f"{args.train} training and {args.validation} validation pictures in {args.out}")
    return 0


def check(photographs: list[Path], train: int, validation: int) -> None:
    """UsageError unless these can be classes: several, with different names, each with a picture in both parts."""
    names = [path.stem for path in photographs]
    if len(names) < 2:
        raise UsageError("--of needs two photographs or more: each is a class")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--of names {names.count(name)} files called {name}; a class is called as its photograph")
    if min(train, validation) < len(names):
        raise UsageError(f"--train and --validation must be at least {len(names)}: one piece of each photograph")


if __name__ == "__main__":
    run_main(main, MODULE)
