"""The options of experiments.cifar, and what they may not be."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.cli.app import UsageError, argument_parser, usage_errors
from experiments.cli.values import check_numbers, fields_of
from experiments.train.cifar import DATASETS, MODELS, RECIPES, Settings, settings
from minicnn.models.convpool import WIDTHS
from minicnn.models.table import ACTIVATIONS


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    p = argument_parser(module, description)
    net = p.add_argument_group("the network")
    net.add_argument(
        "--model",
        choices=MODELS,
        default="convpool",
        help="convpool: 8 convolutions, as the paper prints it (default); convpool-c: the original with 9; "
        "vgg: 13 with batch normalisation",
    )
    net.add_argument(
        "--act", choices=ACTIVATIONS, default="relu", help="activation (default relu, the paper's baseline)"
    )
    net.add_argument(
        "--width",
        choices=WIDTHS,
        default="base",
        help="the paper's numbers of filters (default base); CReLU with half has half the baseline's parameters",
    )
    net.add_argument(
        "--at",
        type=_layers,
        metavar="1,3,5",
        help="vgg: the convolutions that get --act, with half the filters (default 1,3,5); the others keep ReLU",
    )
    net.add_argument(
        "--scale", type=float, default=1.0, help="multiply every width, for small machines: 0.25 is 16 times less work"
    )
    net.add_argument(
        "--dropout",
        type=_rates,
        metavar="A,B,C",
        help="convpool: rates on the input, after pool1, after pool2 (default: the recipe's)",
    )
    net.add_argument(
        "--logits-act", action="store_true", help="convpool: a ReLU on the logits, as printed; such a network can die"
    )
    net.add_argument(
        "--bn-before-act",
        action="store_true",
        help="vgg: keep batch normalisation before CReLU (the table prints none)",
    )

    data = p.add_argument_group("data")
    data.add_argument(
        "--dataset", choices=DATASETS, default="cifar10", help="textures needs no download and proves nothing"
    )
    data.add_argument(
        "--data", type=Path, help="folder or archive with the data (default: $MINICNN_DATA or the cache, else download)"
    )
    data.add_argument("--subset", type=int, metavar="N", help="train on N images, chosen at random from the seed")

    how = p.add_argument_group("training")
    how.add_argument(
        "--recipe",
        choices=RECIPES,
        default="short",
        help="short: ten epochs of one cycle, for CPUs (default); paper: what the citations say, 300 or 350",
    )
    how.add_argument("--epochs", type=int, help="length of the schedule (default: the recipe's)")
    how.add_argument("--batch", type=int, help="images in a batch (default 128)")
    how.add_argument("--lr", type=float, help="learning rate, the highest of the schedule")
    how.add_argument("--weight-decay", type=float)
    how.add_argument("--clip", type=float, help="largest norm of the gradient")
    how.add_argument("--shift", type=int, help="random shifts by up to so many pixels")
    how.add_argument("--seed", type=int, default=0, help="of weights, order, augmentation and dropout (default 0)")
    how.add_argument("--device", default="auto", help="auto (a GPU where one works), cpu, gpu or gpu:N")
    how.add_argument("--tf32", action="store_true", help="GPU: matrix products in TF32, faster and less exact")

    protocol = p.add_argument_group("protocol")
    protocol.add_argument(
        "--protocol",
        choices=("plain", "single", "folds"),
        default="plain",
        help="plain: train on all, test (default); single: find the number of epochs on a hold-out first; "
        "folds: Average and Vote",
    )
    protocol.add_argument(
        "--hold-out",
        type=int,
        metavar="N",
        help="images kept from training to choose the epoch (single: 10000; plain: 0)",
    )
    protocol.add_argument(
        "--stop",
        choices=("epochs", "loss"),
        default="epochs",
        help="single: when the second training stops (default epochs)",
    )
    protocol.add_argument("--folds", type=int, default=10, metavar="K", help="folds: how many (default 10)")
    protocol.add_argument(
        "--fold", type=int, metavar="I", help="folds: train only number I (1 .. K), e.g. on another machine"
    )

    out = p.add_argument_group("output")
    out.add_argument("--out", type=Path, help="folder of the run (default runs/<a name made of the settings>)")
    out.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    out.add_argument("--dry-run", action="store_true", help="print the network, memory and time estimates, and stop")
    return p


def _layers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _rates(text: str) -> tuple[float, ...]:
    rates = tuple(float(part) for part in text.split(","))
    if len(rates) != 3:
        raise argparse.ArgumentTypeError("three rates are needed, such as 0.2,0.5,0.5")
    return rates


def checked_settings(args: argparse.Namespace) -> Settings:
    """The settings that the arguments ask for; UsageError where they make no sense."""
    if args.at is not None and args.model != "vgg":
        raise UsageError("--at chooses layers of vgg; convpool has its activation everywhere")
    if args.dropout is not None and (args.model == "vgg" or not all(0 <= rate < 1 for rate in args.dropout)):
        raise UsageError("--dropout takes three rates in [0, 1) for convpool; vgg's are those of its table")
    if args.folds < 2 or (args.fold is not None and not 1 <= args.fold <= args.folds):
        raise UsageError(f"--folds must be at least 2 and --fold one of them, got {args.folds} and {args.fold}")
    if args.protocol == "single" and args.hold_out == 0:
        raise UsageError("--protocol single chooses the epoch by images held out: --hold-out cannot be 0")
    with usage_errors():
        check_numbers(vars(args), not_negative=("hold_out",))
        made = settings(**fields_of(Settings, args))
        made.check()
        return made
