"""Write a small folder of pictures in ImageNet's layout, made of textures, for scales without ImageNet.

    python -m experiments.photos --out runs/pictures

There are ten classes; the pictures are JPEG files of different sizes, as photographs are.  Results on them prove
nothing.
"""

from __future__ import annotations

from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.cli.values import result_folder
from experiments.reproduction.pictures import TRAIN, VALIDATION, write_pictures

MODULE = "experiments.photos"
MOST = 100_000


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--out", type=result_folder, required=True, help="a folder that does not exist yet")
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
    if args.dry_run:
        print(f"would write {args.train} training and {args.validation} validation pictures to {args.out}")
        return 0
    write_pictures(args.out, args.train, args.validation)
    print(f"{args.train} training and {args.validation} validation pictures in {args.out}")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
