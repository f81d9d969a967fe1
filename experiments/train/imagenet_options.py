"""The options of experiments.imagenet, and what they may not be."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.cli.app import argument_parser, usage_errors
from experiments.cli.values import fields_of
from experiments.train.imagenet import RECIPES, ImagenetSettings, imagenet_settings
from minicnn.models.allcnn import VARIANTS


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    p = argument_parser(module, description)
    net = p.add_argument_group("the network")
    net.add_argument(
        "--variant",
        choices=VARIANTS,
        default="baseline",
        metavar="NAME",
        help=f"which of the paper's: {', '.join(VARIANTS)} (default baseline)",
    )
    net.add_argument("--scale", type=float, default=1.0, help="multiply every width, for small machines")
    net.add_argument("--dropout", type=float, help="the rate before conv10 (default: as printed, 0 or 0.25)")
    net.add_argument("--logits-act", action="store_true", help="a ReLU on the logits, as printed; it can die")

    data = p.add_argument_group("data")
    data.add_argument("--data", type=Path, metavar="DIR", help="folder with train/ and val/, or with a folder a class")
    data.add_argument("--val-labels", type=Path, metavar="FILE", help="labels of a flat val/ (default: found there)")
    data.add_argument("--subset", type=int, metavar="N", help="train on N pictures, chosen at random from the seed")
    data.add_argument(
        "--bad-images",
        choices=("fail", "skip"),
        default="fail",
        help="pictures that cannot be decoded: stop and name the file (default), or name it and leave it out",
    )
    data.add_argument(
        "--workers", type=int, help="decoding processes (default: cores, shared by the ranks of a machine)"
    )
    data.add_argument("--side", type=int, help="side of the square that crops are taken from (default 256)")
    data.add_argument("--crop", type=int, help="side of the crops (default 224)")
    data.add_argument("--colour", type=float, help="deviation of the colour noise (default 0.1; 0: none)")

    how = p.add_argument_group("training")
    how.add_argument("--recipe", choices=RECIPES, help="default: the paper's for this network")
    how.add_argument("--epochs", type=int, help="length of the schedule, whose phases shrink with it")
    how.add_argument("--batch", type=int, help="pictures in a batch (default 64)")
    how.add_argument("--lr", type=float, help="learning rate of the first phase (default: the recipe's)")
    how.add_argument("--clip", type=float, help="largest norm of the gradient")
    how.add_argument("--seed", type=int, default=0, help="of weights, order, crops, noise and dropout (default 0)")
    how.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu, gpu or gpu:N")
    how.add_argument("--tf32", action="store_true", help="GPU: matrix products in TF32, faster and less exact")

    use = p.add_argument_group("use of a trained network")
    use.add_argument("--run", type=Path, metavar="DIR", help="a run to evaluate on the validation set of --data")
    use.add_argument("--image", type=Path, action="append", default=[], metavar="FILE", help="with --run: what is it?")
    use.add_argument("--crops", type=int, choices=(1, 10), default=10, help="also average over 10 crops (default)")

    out = p.add_argument_group("output")
    out.add_argument("--out", type=Path, help="folder of the run (default runs/<a name made of the settings>)")
    out.add_argument("--save-every", type=int, default=1000, metavar="N", help="steps between checkpoints (1000)")
    out.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    out.add_argument("--dry-run", action="store_true", help="print network, schedule, memory and time, and stop")
    return p


def checked_settings(args: argparse.Namespace) -> ImagenetSettings:
    """The settings that the arguments ask for; UsageError where they make no sense."""
    with usage_errors():
        asked = imagenet_settings(**fields_of(ImagenetSettings, args))
        asked.check()
        return asked
