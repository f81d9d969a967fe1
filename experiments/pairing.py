"""Do filters come in pairs of opposite sign?  (The paper's Figures 1 to 3.)

The pairing filter of a filter is the one most opposed to it; mu is their cosine.  For every convolution this prints mu
beside mu of random Gaussian filters of the same shape.  Random filters have negative mu too, the more so the fewer
dimensions they have, so only the difference says something.  "cosine with start" says how far training has turned the
filters: near 1 they are almost the random ones they began as, and few pairs can have formed.

examples:
  python -m experiments.pairing --run runs/relu --run runs/crelu    two networks of ours: Figures 1 and 3
  python -m experiments.pairing --weights relu-base crelu-half    networks that come with minicnn
  python -m experiments.pairing --weights alexnet.npz    AlexNet: Figures 1 and 2
  python -m experiments.pairing --weights caffenet.npz --layout oihw --groups conv2=2,conv4=2,conv5=2    in groups

Writes one folder per network with histograms.png, filters.png (the first layer beside its pairing filters), pairing.csv
(one row per filter) and summary.json.
"""

from __future__ import annotations

import argparse

from experiments.analyses.pairing import findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.analyses.weights import LAYOUTS
from experiments.cli.app import run_main

MODULE = "experiments.pairing"


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__, more_weights=", or any .npz, .safetensors or .pth files with filters")
    layout = "of the axes in --weights: oihw (PyTorch), hwio (default: found by shape)"
    p.add_argument("--layout", choices=LAYOUTS, help=layout)
    groups = "grouped convolutions: compare within a group"
    p.add_argument("--groups", type=_groups, default={}, metavar="NAME=N,...", help=groups)
    p.add_argument("--draws", type=int, default=20, help="banks of random filters (default 20)")
    p.add_argument("--seed", type=int, default=0, help="of the random filters (default 0)")
    request = parse(p, arguments, positive=("draws",), not_negative=("seed",), foreign=True)
    plan = f"pair all filters, and {request.args.draws} banks of random ones, on {request.device}"
    files = ["<source>/histograms.png", "filters.png", "pairing.csv", "summary.json"]
    return run_analysis(request, plan, files, findings)


def _groups(text: str) -> dict[str, int]:
    try:
        return {name: int(count) for name, count in (part.split("=") for part in text.split(",") if part)}
    except ValueError:
        raise argparse.ArgumentTypeError("expected names with numbers, such as conv2=2,conv4=2") from None


if __name__ == "__main__":
    run_main(main, MODULE)
