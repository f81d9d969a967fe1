"""A page to look at and to play with: a CReLU network that computes in the browser, on your own pictures.

examples:
  python -m experiments.explore                                            a network that comes with minicnn
  python -m experiments.explore --run docs/results/cifar10-convpool-half-crelu-x0.25-short10-seed0
  python -m experiments.explore --run runs/crelu --beside runs/relu --out crelu.html

Writes one HTML file: open it with a double-click, send it to somebody, put it on a site.  It needs no network and no
server.  It shows what every layer sees, filters and their pairs, what comes back when a phase is dropped, what max
pooling loses, and where the paper's theorem is wrong.  The network must have CReLU; --beside names others, of any kind,
whose filters are shown next to its own: a ReLU network is a good choice.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from experiments.cli.app import argument_parser, get_device, hint, run_main, usage_errors
from experiments.cli.values import check_numbers, result_file
from experiments.explorer.content import content
from experiments.explorer.page import page
from experiments.report.context import data_name
from experiments.train.trained import network_options, open_trained, source
from minicnn.backend import CPU
from minicnn.checkpoint import atomic_write_text
from minicnn.data.catalogue import load
from minicnn.models.pretrained import names

MODULE = "experiments.explore"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    network_options(p)
    beside = "folders of runs, or names of networks that come with minicnn, whose filters are shown, too"
    p.add_argument("--beside", nargs="+", default=[], metavar="DIR", help=beside)
    p.add_argument("--images", type=int, default=10, help="test images in the page, one per class (default 10)")
    p.add_argument("--out", type=result_file, default=Path("explore.html"), help="default explore.html")
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("images",))
    get_device(args.device)
    if args.dry_run:
        print(f"would write {args.out}, from {', '.join([source(args), *args.beside])}")
        return 0
    network, *others = (open_trained(one, CPU) for one in (args, *(_options(name, args) for name in args.beside)))
    with hint("--data names a folder or an archive with the data set"):
        data = load(network.dataset, args.data)
    network.check_data(data)
    made, arrays = content(network, others, data, args.images)
    right = "; ".join(f"{one.label} is right about {100 - one.stated:.1f} %" for one in (network, *others))
    label = f"{network.label}, trained on {data_name(network.dataset)} (of its test pictures, {right})"
    text = page(made, arrays, label=label, run=network.name)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(args.out, text)
    print(f"{args.out}: {len(text) / 1e6:.1f} MB; open it in a browser")
    return 0


def _options(name: str, args: Namespace) -> Namespace:
    """Those that open a network of --beside."""
    known = name in names()
    return Namespace(run=None if known else Path(name), weights=name if known else None, data=args.data)


if __name__ == "__main__":
    run_main(main, MODULE)
