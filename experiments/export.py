"""Write a trained network for other programs, or for minicnn with a card; or take over weights from PyTorch.

examples:
  python -m experiments.export --run runs/crelu --to crelu.onnx               ONNX Runtime, OpenVINO, Netron, ...
  python -m experiments.export --run runs/crelu --to crelu.safetensors        weights in PyTorch's layout
  python -m experiments.export --run runs/crelu --to crelu.pt                 the same, as PyTorch saves them
  python -m experiments.export --weights crelu-half --to crelu-half.onnx      a network that comes with minicnn
  python -m experiments.export --run runs/crelu --to crelu.npz                for --weights crelu.npz, with a card
  python -m experiments.export --run runs/crelu --from theirs.pt --to theirs.npz    weights that PyTorch trained

Other programs give it images as (N, 3, H, W) in float32, normalised by (value / 255 - mean) / std with the mean and std
that are printed; .onnx and .safetensors files also hold them, with the names of the classes, as metadata.  Layers have
the names of our tables.

--to NAME.npz is for minicnn itself: experiments.predict --weights NAME.npz.  It is written with a card, NAME.json and
NAME.md: data, recipe, command, limits, and the error on all test images, which is measured for it.  Nothing in it is
written by hand.

--from takes the weights of the same network from PyTorch (.pt, .pth, .safetensors or .npz): filters are turned, batch
normalisation is renamed, a layer behind Flatten is reordered.  The run gives the network, the normalisation and the
classes.  Names must be ours; --by-order takes the layers in the order of the file instead.  --groups conv2=2 says that
their conv2 has groups.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.cli.app import UsageError, argument_parser, command, get_device, hint, run_main, usage_errors
from experiments.train.cards import card_of
from experiments.train.run import Run
from experiments.train.trained import Trained, network_options, open_trained, source
from minicnn.data.catalogue import load
from minicnn.exchange import SUFFIXES, load_pytorch_state, read_arrays, write
from minicnn.models.pretrained import write_pretrained

MODULE = "experiments.export"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    network_options(p)
    p.add_argument("--to", type=Path, required=True, metavar="FILE", help=f"{', '.join(SUFFIXES)} or .npz")
    p.add_argument(
        "--from", type=Path, dest="source", metavar="FILE", help="weights from PyTorch, for the same network"
    )
    p.add_argument("--by-order", action="store_true", help="--from: match layers by their order, whatever their names")
    p.add_argument(
        "--groups", type=_groups, default={}, metavar="NAME=N,...", help="--from: convolutions that have groups there"
    )
    args = p.parse_args(arguments)
    check(args)
    device = get_device(args.device)
    if args.dry_run:
        print(f"would read   {source(args)}" + (f", weights from {args.source}" if args.source else ""))
        print(f"would write  {args.to}" + (f", {args.to.stem}.json, {args.to.stem}.md" if own_format(args) else ""))
        return 0
    trained = open_trained(args, device)
    if args.source:
        take_weights(trained, args)
    if own_format(args):
        write_card(trained, args, command(MODULE, arguments))
    else:
        write_for_others(trained, args.to)
    return 0


def check(args: argparse.Namespace) -> None:
    if args.to.suffix not in (*SUFFIXES, ".npz"):
        raise UsageError(f"--to: networks are written to {', '.join(SUFFIXES)} or .npz files, got {args.to}")
    if not args.to.parent.is_dir():
        raise UsageError(f"--to: there is no folder {args.to.parent}; make it first")
    if args.to.exists():
        raise UsageError(f"--to: {args.to} is there already; remove it, or choose another name")
    if own_format(args) and not args.run:
        raise UsageError("--to NAME.npz makes a card from a run: name its folder with --run")
    if (args.by_order or args.groups) and not args.source:
        raise UsageError("--by-order and --groups are about weights from PyTorch: name their file with --from")


def own_format(args: argparse.Namespace) -> bool:
    return args.to.suffix == ".npz"


def take_weights(trained: Trained, args: argparse.Namespace) -> None:
    """Replace the weights of the network by those of another program."""
    arrays, network = read_arrays(args.source), trained.classifier
    with usage_errors():
        load_pytorch_state(network.model, arrays, network.input_shape, groups=args.groups, by_order=args.by_order)


def write_for_others(trained: Trained, path: Path) -> None:
    network = trained.classifier
    mean, std = network.normalise.mean, network.normalise.std
    about = {"network": f"{trained.name}: {trained.label}", "dataset": trained.dataset}
    about |= {"mean": json.dumps(mean), "std": json.dumps(std), "classes": json.dumps(network.classes)}
    write(network.model, network.input_shape, path, about)
    print(f"{path}: {trained.label}, {path.stat().st_size:,} bytes")
    print(f"images  (N, 3, {network.crop}, {network.crop}) float32, (value / 255 - mean) / std")
    print(f"mean    {', '.join(f'{m:.6f}' for m in mean)}\nstd     {', '.join(f'{s:.6f}' for s in std)}")


def write_card(trained: Trained, args: argparse.Namespace, line: str) -> None:
    run = trained.origin
    if not isinstance(run, Run) or trained.photographs:
        raise UsageError(
            "cards are made for networks of small images (experiments.cifar), with the error on all test images"
        )
    with hint("a card states the error on the test images: --data names a folder or an archive with them"):
        data = load(trained.dataset, args.data)
    trained.check_data(data)
    made = card_of(run, trained.classifier, data, args.source, line if args.source else "")
    card = write_pretrained(args.to, trained.classifier.model.state_dict(), made)
    print(f"{args.to}: {card.label}, test error {card.test_error:.2f} %, SHA-256 {card.sha256}")
    print(f"card in {args.to.with_suffix('.json')} and {args.to.with_suffix('.md')}")


def _groups(text: str) -> dict[str, int]:
    try:
        pairs = [part.split("=") for part in text.split(",")]
        found = {name: int(count) for name, count in pairs}
        if not all(found) or not all(1 <= count <= 10_000 for count in found.values()):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError("expected names and numbers, such as conv2=2,conv4=2") from None
    return found


if __name__ == "__main__":
    run_main(main, MODULE)
