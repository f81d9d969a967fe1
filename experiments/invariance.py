"""How invariant are the filters of each layer?  (The paper's Figure 4 and section S4.)

A filter fires where its response is among its largest 1 %.  The score of a layer says how much more often than by
chance a filter that fires for an image fires at the same place for the image flipped, rotated by 15 degrees or
shifted by 3 pixels: 1 is chance, 100 is always.

The paper measures ReLU networks by the positive response (one side) and CReLU networks by its absolute value (two
sides).  That changes two things at once, so here every network is measured both ways.  Untrained networks are measured
too: a single draw of random weights moves the scores by several points.

examples:
  python -m experiments.invariance --run runs/relu --run runs/crelu
  python -m experiments.invariance --run runs/crelu --subset 1000    quicker: 1,000 test images, drawn at random
  python -m experiments.invariance --run runs/crelu --subset 400 --control 8    beside eight untrained networks
  python -m experiments.invariance --run runs/crelu --fill mean      zeros, not the edge, beside a moved picture

Writes invariance.csv (one row per network, layer and side), filters.csv (one row per filter) and invariance.png.
"""

from __future__ import annotations

from experiments.analyses.images import data_option
from experiments.analyses.invariance import findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.cli.app import UsageError, run_main
from minicnn.analysis.invariance import RATE
from minicnn.analysis.stimuli import FILLS, STIMULI

MODULE = "experiments.invariance"


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--subset", type=int, metavar="N", help="test images, drawn at random (default all; 500 photos)")
    p.add_argument("--stimuli", choices=STIMULI, help="imagenet: corner crops, not shifts (default: as the networks)")
    p.add_argument("--fill", choices=FILLS, default="edge", help="what comes in beside a moved picture (default edge)")
    p.add_argument("--rate", type=float, default=RATE, help="how often a filter fires (default 0.01, the paper's)")
    control = "untrained networks beside each: its own start (default 1), other seeds too, or none (0)"
    p.add_argument("--control", type=int, default=1, metavar="N", help=control)
    request = parse(p, arguments, positive=("subset",), not_negative=("control",))
    args = request.args
    if not 0 < args.rate < 1:
        raise UsageError(f"--rate must be between 0 and 1, got {args.rate}")
    transforms = STIMULI[args.stimuli or "cifar"](fill=args.fill).transforms
    passes = f"{2 + len(transforms)} forward passes over {args.subset or 'all'} test images"
    networks = f"networks as trained and {args.control} untrained"
    plan = f"{passes} for the {networks}, on {request.device}: {', '.join(transforms)}"
    return run_analysis(request, plan, ["invariance.csv", "filters.csv", "invariance.png"], findings)


if __name__ == "__main__":
    run_main(main, MODULE)
