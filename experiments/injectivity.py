"""Does a layer lose anything, and how stable is its inverse?  (The paper's section 2.2, in numbers.)

For every convolution with ReLU, AVR or CReLU: is one window determined by its features (on all of R^D, without the
bias)?  How long can errors become on the way back, over what the filters see at all?  What of all windows together?
And how many responses are known at real images: all of them behind CReLU and AVR, those that fire behind ReLU.  Beside
each layer stand Gaussian filters of the same shape and norm.  The theory is in minicnn/theory/injectivity.py.

examples:
  python -m experiments.injectivity --run runs/relu --run runs/avr --run runs/crelu-half
  python -m experiments.injectivity --weights relu-base crelu-half    networks that come with minicnn
  python -m experiments.injectivity --run docs/results/cifar10-convpool-half-crelu-x0.25-short10-seed0 --subset 20

Writes injectivity.csv (one row per layer and kind of filters) and injectivity.png (singular values).
"""

from __future__ import annotations

from experiments.analyses.images import data_option
from experiments.analyses.injectivity import findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.cli.app import run_main

MODULE = "experiments.injectivity"


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--subset", type=int, default=50, metavar="N", help="test images to look at (default 50)")
    p.add_argument("--windows", type=int, default=200, metavar="N", help="windows of each layer (default 200)")
    p.add_argument("--seed", type=int, default=0, help="of the random filters and of the windows (default 0)")
    request = parse(p, arguments, positive=("subset", "windows"), not_negative=("seed",))
    plan = f"spectra of all layers, {request.args.windows} windows each of {request.args.subset} test images"
    return run_analysis(request, plan, ["injectivity.csv", "injectivity.png"], findings)


if __name__ == "__main__":
    run_main(main, MODULE)
