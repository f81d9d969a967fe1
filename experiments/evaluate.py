"""The error rate of a trained network on the test images, beside the one that its card or its run states.

examples:
  python -m experiments.evaluate --weights crelu-half               a network that comes with minicnn
  python -m experiments.evaluate --weights crelu-half --card        also print its card
  python -m experiments.evaluate --run runs/crelu                   a network of your own
  python -m experiments.evaluate --run runs/crelu --against onnx    also through ONNX Runtime
  python -m experiments.evaluate --run runs/crelu --subset 500      a first look: 500 of the test images
  python -m experiments.evaluate --weights crelu-sprint --tta       also with several views of each image averaged

The two errors must agree to 0.1 points: another machine rounds differently, and a few images lie on the edge between
two classes.  If they do not, the exit code is 1.

--tta adds the errors with the outputs for an image and its mirror image averaged, and with six views: these two, each
as it is, moved by a pixel down and to the right, and moved up and to the left.

--against exports the network (experiments.export), lets another program run it on the same images, and counts the
images to which it gives another class than we do.  It needs the packages onnx and onnxruntime, or torch.

Networks for photographs (experiments.imagenet) are evaluated there: python -m experiments.imagenet --run DIR --data DIR
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.analyses.images import sample
from experiments.analyses.rivals import RIVALS, check_packages
from experiments.cli.app import UsageError, argument_parser, get_device, hint, run_main
from experiments.cli.progress import Progress
from experiments.cli.values import several_of
from experiments.tables.table import Column, Table
from experiments.train.trained import AGREEMENT, Trained, network_options, open_trained, source
from minicnn.data.augment import MIRRORED, SIX, View
from minicnn.data.catalogue import load
from minicnn.data.dataset import Dataset
from minicnn.models.pretrained import Card
from minicnn.training import errors_of_views, evaluate, evaluate_probabilities

MODULE = "experiments.evaluate"
VIEWS = {"with mirror images": MIRRORED, "with six views": SIX}


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    network_options(p)
    p.add_argument("--card", action="store_true", help="print the card of the weights")
    p.add_argument("--subset", type=int, metavar="N", help="only N test images; nothing is then compared with the card")
    p.add_argument(
        "--against",
        type=several_of(RIVALS),
        default=[],
        metavar="NAME,...",
        help="also compute it with ONNX Runtime (onnx) or PyTorch (torch)",
    )
    p.add_argument("--tta", action="store_true", help="also average several views of each image: 2, and 6")
    args = p.parse_args(arguments)
    if args.subset is not None and args.subset < 1:
        raise UsageError(f"--subset must be positive, got {args.subset}")
    if args.card and args.run:
        raise UsageError("--card is for --weights; a run has no card until experiments.export makes one")
    device = get_device(args.device)
    if args.dry_run:
        print(f"would read   {source(args)}, and the data set that it was trained on")
        print(f"would do     the error on its test images{' with ' + ', '.join(args.against) if args.against else ''}")
        return 0
    check_packages(args.against)
    trained = open_trained(args, device)
    if trained.photographs:
        raise UsageError(f"{args.run} is for photographs: python -m experiments.imagenet --run {args.run} --data DIR")
    with hint("--data names a folder or an archive with the data set"):
        data = load(trained.dataset, args.data)
    trained.check_data(data)
    if args.card and isinstance(trained.origin, Card):
        print(trained.origin.markdown(trained.name))
    return report(trained, data, args.subset, args.against, VIEWS if args.tta else {})


def report(
    trained: Trained, data: Dataset, subset: int | None, against: Sequence[str], views: Mapping[str, Sequence[View]]
) -> int:
    """Evaluate it, by us and by others, and print a table; the exit code."""
    count, network = len(data.test_labels), trained.classifier
    chosen = sample(subset or count, count)
    images, labels, stated = data.test_images[chosen], data.test_labels[chosen], None if subset else trained.stated
    with Progress(len(images), "test images") as progress:
        own = evaluate(network.model, images, labels, network.normalise, device=network.device, on_batch=progress)
    rows = [[trained.name, own.error, stated, None]]

    def probabilities(view: View) -> np.ndarray:
        seen = view.of(images)
        return evaluate(network.model, seen, labels, network.normalise, device=network.device).probabilities

    averaged = errors_of_views(own.probabilities, probabilities, labels, views)
    rows += [[f"  {name}", error, None, None] for name, error in averaged.items()]
    for name in against:
        with Progress(len(images), name) as progress:
            other = evaluate_probabilities(RIVALS[name](network, images, progress), labels)
        different = (own.probabilities.argmax(axis=1) != other.probabilities.argmax(axis=1)).sum()
        rows.append([f"  with {name}", other.error, None, int(different)])
    columns: list[Column | str] = ["network", Column("error %", ".2f"), Column("stated %", ".2f"), "another class"]
    shown = slice(4 if against else 3)
    print(f"{trained.label}: {len(images):,} test images of {trained.dataset}\n")
    print(Table(columns[shown], [row[shown] for row in rows]).text())
    if stated is not None and abs(own.error - stated) > AGREEMENT:
        print(f"\nThe two errors differ by more than {AGREEMENT} points: are these the weights that were evaluated?")
        return 1
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
