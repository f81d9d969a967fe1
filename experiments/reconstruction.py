"""What do CReLU features keep of an image?  (The paper's Figure 5 and Table S1.)

Pictures: images are reconstructed from the features of conv1 to conv4, with no learning, by Algorithm 1 window by
window ("region", as in the paper) and by least squares over the whole image ("global").  Behind a max pool, Algorithm 2
is used, which needs the switches of the pool as well as the features.  Under each picture stand ||x - x'|| / ||x|| of
the normalised image and the PSNR of the picture, with a star where least squares had not converged.

Ratios: where a max pool follows (conv2 and conv5), ||x - x'|| / ||x|| of the features before the convolution,
recovered from the pooled ones by Algorithm 2; for the learned filters, for Gaussian filters in their place, and
simulated without a network.

--method joint solves for the image itself, all layers at once (minicnn/theory/joint.py), with the switches of the pools
and without, for CReLU, ReLU and AVR networks, beside the other two methods where they apply; it makes no ratios.

examples:
  python -m experiments.reconstruction --weights crelu-half    a network that comes with minicnn
  python -m experiments.reconstruction --run runs/crelu-half
  python -m experiments.reconstruction --method joint --run runs/crelu-half --run runs/relu --layers conv2,conv3,conv4
  python -m experiments.reconstruction --run runs/crelu-half --image cat.jpg --image dog.png
  python -m experiments.reconstruction --run runs/crelu-half --layers conv1,conv2 --subset 100
  python -m experiments.reconstruction --run runs/crelu-half --layers conv4 --iterations 5000

Bounds: for some regions of these layers, the two bounds on that ratio that hold for every input (docs/proofs.md, 6).

Writes <run>-images.png, <run>-images.csv, <run>-bounds.png, <run>-bounds.csv and ratios.csv; --method joint writes
<run>-joint.png and joint.csv.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.analyses import joint
from experiments.analyses.images import data_option
from experiments.analyses.reconstruction import LAYERS, findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.cli.app import run_main
from minicnn.theory.joint import STEPS
from minicnn.theory.reconstruction import ITERATIONS

MODULE = "experiments.reconstruction"


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--image", type=Path, action="append", default=[], metavar="FILE", help="a picture of your own")
    p.add_argument("--size", type=int, default=96, help="longer side of own pictures, in pixels (default 96)")
    p.add_argument("--count", type=int, default=4, help="test images to show where there is no --image (default 4)")
    p.add_argument("--layers", type=_names, default=LAYERS, metavar="NAME,...", help=f"default {','.join(LAYERS)}")
    methods = "layers: one after the other, by region and by least squares (default); joint: all at once"
    p.add_argument("--method", choices=("layers", "joint"), default="layers", help=methods)
    steps = f"steps of Gauss-Newton for --method joint, at most (default {STEPS})"
    p.add_argument("--steps", type=int, default=STEPS, metavar="N", help=steps)
    most = f"steps of least squares, at most (default {ITERATIONS})"
    p.add_argument("--iterations", type=int, default=ITERATIONS, metavar="N", help=most)
    p.add_argument("--subset", type=int, default=1000, metavar="N", help="test images for the ratios (default 1000)")
    request = parse(p, arguments, positive=("size", "count", "iterations", "subset", "steps"))
    shown = ", ".join(map(str, request.args.image)) or f"{request.args.count} test images"
    if request.args.method == "joint":
        plan = f"reconstruct {shown} from {','.join(request.args.layers)}, all layers at once, on {request.device}"
        return run_analysis(request, plan, ["<run>-joint.png", "joint.csv"], joint.findings)
    ratios = f"ratios over {request.args.subset} test images"
    plan = f"reconstruct {shown} from {','.join(request.args.layers)}, and {ratios}, on {request.device}"
    return run_analysis(
        request,
        plan,
        ["<run>-images.png", "<run>-images.csv", "<run>-bounds.png", "<run>-bounds.csv", "ratios.csv"],
        findings,
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names:
        raise argparse.ArgumentTypeError("expected names of layers, such as conv1,conv2")
    return names


if __name__ == "__main__":
    run_main(main, MODULE)
