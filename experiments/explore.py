"""A page to look at and to play with: a CReLU network that computes in the browser, on your own pictures.

examples:
  python -m experiments.explore --run docs/results/cifar10-convpool-half-crelu-x0.25-short10-seed0
  python -m experiments.explore --run runs/crelu --beside runs/relu --out crelu.html

Writes one HTML file: open it with a double-click, send it to somebody, put it on a site.  It needs no network and no
server.  It shows what every layer sees, filters and their pairs, what comes back when a phase is dropped, what max
pooling loses, and where the paper's theorem is wrong.  --run names a CReLU network; --beside others, of any kind, whose
filters are shown next to its own: a ReLU network is a good choice.
"""

from __future__ import annotations

from pathlib import Path

from experiments.cli.app import argument_parser, hint, run_main, usage_errors
from experiments.cli.values import check_numbers
from experiments.explorer.content import content
from experiments.explorer.page import page
from experiments.train.run import open_runs
from minicnn.checkpoint import atomic_write_text
from minicnn.data.catalogue import load

MODULE = "experiments.explore"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--run", type=Path, required=True, metavar="DIR", help="folder of a finished run with CReLU")
    p.add_argument(
        "--beside", type=Path, nargs="+", default=[], metavar="DIR", help="runs whose filters are shown, too"
    )
    p.add_argument("--data", type=Path, help="folder or archive with the data set (default: the cache, else download)")
    p.add_argument("--images", type=int, default=10, help="test images in the page, one per class (default 10)")
    p.add_argument("--out", type=Path, default=Path("explore.html"), help="default explore.html")
    p.add_argument("--dry-run", action="store_true", help="say what would be written, and stop")
    args = p.parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("images",))
    if args.dry_run:
        print(f"would write {args.out}, from {', '.join(map(str, [args.run, *args.beside]))}")
        return 0
    run, *others = open_runs([args.run, *args.beside])
    with hint("--data names a folder or an archive with the data set"):
        data = load(run.settings.dataset, args.data)
    made, arrays = content(run, others, data, args.images)
    text = page(made, arrays, label=f"{run.label}, trained on {run.settings.dataset}", run=run.name)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(args.out, text)
    print(f"{args.out}: {len(text) / 1e6:.1f} MB; open it in a browser")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
