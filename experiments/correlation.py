"""How alike are the outgoing weights of the two phases of a CReLU filter?  (The paper's Table 6.)

Filter c feeds the next layer through two channels, its positive and its negative phase.  For each CReLU layer this
prints the cosine between the weights that leave the two phases of a filter (pair), and between those that leave phases
of different filters (non-pair).  The paper must have reported absolute cosines; signed ones say more: +1 makes the
modulus |x| (as AVR does), -1 makes a linear unit, and random weights have 0 on average.  E|cos| of random weights is
not 0, so it stands beside the absolute cosines.

examples:
  python -m experiments.correlation --run runs/crelu
  python -m experiments.correlation --run runs/crelu --run runs/crelu-half --out figures

Writes correlation.csv (one row per layer), cosines.csv (one row per filter) and correlation.png.
"""

from __future__ import annotations

from experiments.analyses.correlation import findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.cli.app import run_main

MODULE = "experiments.correlation"


def main(arguments: list[str]) -> int:
    request = parse(parser(MODULE, __doc__), arguments)
    plan = f"the cosines of outgoing weights of all CReLU layers, on {request.device}"
    return run_analysis(request, plan, ["correlation.csv", "cosines.csv", "correlation.png"], findings)


if __name__ == "__main__":
    run_main(main, MODULE)
