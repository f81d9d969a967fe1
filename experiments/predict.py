"""What does a trained network see in a picture?

examples:
  python -m experiments.predict photo.jpg                                  a network that comes with minicnn
  python -m experiments.predict photo.jpg cat.png --weights relu-base      another one, several pictures
  python -m experiments.predict photo.jpg --run runs/crelu                 a network of your own
  python -m experiments.predict photo.jpg --run runs/crelu --out pictures  also draw what conv1 sees

For each picture the most probable classes are printed, with a bar for each.  The network sees the central square,
turned upright, brought to the size of its training images (32x32 pixels for CIFAR).  It knows only the classes that it
was trained on, and gives one of them to any picture: a high number is no proof that it is right.

With --out, DIR/<picture>-conv1.png shows what the two phases of the first layer see: for each filter where it fits,
max(z, 0), and where its opposite does, max(-z, 0).  CReLU passes both on; ReLU drops the second.

A file that cannot be used takes one line that says why, and the others are still looked at; the exit code is then 1.

From Python:

  from minicnn.models import pretrained
  network = pretrained("crelu-half")
  for name, probability in network.predict("photo.jpg")[0]:
      print(f"{name:12} {probability:.1%}")
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.cli.app import UsageError, argument_parser, get_device, run_main
from experiments.cli.values import picture_file, result_folder
from experiments.figures.phases import draw_phases
from experiments.train.trained import Trained, network_options, open_trained, source
from minicnn.data.dataset import DataError
from minicnn.data.decode import oddities, printable
from minicnn.models.classifier import Prediction

MODULE = "experiments.predict"
BAR = 30  # characters of a bar for 100 %


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument(
        "pictures", type=picture_file, nargs="+", metavar="FILE", help="pictures: JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"
    )
    network_options(p)
    p.add_argument("--top", type=int, default=5, metavar="N", help="how many classes to show (default 5)")
    p.add_argument(
        "--out", type=result_folder, metavar="DIR", help="draw what conv1 sees of each picture, into this folder"
    )
    args = p.parse_args(arguments)
    if args.top < 1:
        raise UsageError(f"--top must be at least 1, got {args.top}")
    device = get_device(args.device)
    if args.dry_run:
        print(f"would read   {source(args)}, {', '.join(map(printable, args.pictures))}")
        print(f"would do     the {args.top} most probable classes of each picture, on {device}")
        if args.out:
            print(f"would write  <picture>-conv1.png in {args.out}")
        return 0
    trained = open_trained(args, device)
    print(f"{trained.name}: {trained.label}, trained on {trained.dataset}")
    pairs = zip(args.pictures, names_of(args.pictures), strict=True)
    used = [look_at(path, trained, args.top, args.out and args.out / name) for path, name in pairs]
    return 0 if all(used) else 1


def names_of(pictures: Sequence[Path]) -> list[str]:
    """A name for the drawing of each picture: photo-conv1.png; another photo's is photo-2-conv1.png."""
    stems = [path.stem for path in pictures]
    counts = [stems[:i].count(stem) + 1 for i, stem in enumerate(stems)]
    return [f"{stem}{f'-{n}' if n > 1 else ''}-conv1.png" for stem, n in zip(stems, counts, strict=True)]


def look_at(path: Path, trained: Trained, count: int, drawing: Path | None) -> bool:
    """Print what the network sees in a file, or why that cannot be used; return whether it can."""
    network = trained.classifier
    try:
        image = network.read(path)
        notes = oddities(path, network.side)
    except DataError as error:
        sys.stdout.flush()
        print(f"left out: {error}", file=sys.stderr, flush=True)
        return False
    print(f"\n{printable(path)}" + (f" ({'; '.join(notes)})" if notes else ""))
    print(bars(network.best(network.probabilities(image[None])[0], count)))
    if drawing is not None:
        drawing.parent.mkdir(parents=True, exist_ok=True)
        draw_phases(drawing, network, image, title=printable(path.name))
        print(f"  drawn in {printable(drawing)}")
    return True


def bars(prediction: Prediction) -> str:
    """One line per class: its name, a bar, its probability."""
    width, block = max(len(name) for name, _ in prediction), "█" if can_print("█") else "#"
    return "\n".join(f"  {name:{width}}  {block * round(BAR * p):{BAR}} {100 * p:5.1f} %" for name, p in prediction)


def can_print(text: str) -> bool:
    """Whether the output can show it; not every terminal knows Unicode."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return False
    return True


if __name__ == "__main__":
    run_main(main, MODULE)
