"""Does CReLU regularise?  The gap between training and test error (the paper's section 4.1, from its Table 1).

The paper finds that CReLU networks have a higher training error and a lower test error than the ReLU baseline: they
overfit less.  This prints both errors of finished runs; networks that differ only in the seed or the fold also get
their means, with 95 % intervals.

examples:
  python -m experiments.regularisation --run runs/relu --run runs/crelu
  python -m experiments.regularisation --run runs/relu-folds --run runs/crelu-folds    all folds of both
  python -m experiments.regularisation --run 'docs/results/cifar10-*-x0.25-*'    many, from an archive

Writes gaps.csv (one row per run) and gaps.png (one line per network).
"""

from __future__ import annotations

from experiments.analyses.regularisation import findings
from experiments.analyses.runner import parse, parser, run_analysis
from experiments.cli.app import run_main

MODULE = "experiments.regularisation"


def main(arguments: list[str]) -> int:
    request = parse(parser(MODULE, __doc__), arguments, weights=False)
    return run_analysis(request, "compare training and test errors", ["gaps.csv", "gaps.png"], findings)


if __name__ == "__main__":
    run_main(main, MODULE)
