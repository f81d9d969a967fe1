"""Draw convolution, CReLU and max pooling of a short signal: the paper's illustration (section S1.2) with real numbers.

examples:
  python -m experiments.illustration --out docs/figures/illustration.svg

Every number in the picture is computed by the operations of minicnn.  This program writes the SVG
itself, without a plotting library.
"""

from __future__ import annotations

from pathlib import Path

from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.cli.values import result_file
from experiments.figures.illustration import FILTERS, SIGNAL, compute, draw
from minicnn.checkpoint import atomic_write_text

MODULE = "experiments.illustration"


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument(
        "--out", type=result_file, default=Path("illustration.svg"), help="an .svg file (default illustration.svg)"
    )
    p.add_argument("--dry-run", action="store_true", help="say what would be drawn, and stop")
    args = p.parse_args(arguments)
    if args.out.suffix != ".svg":
        raise UsageError(f"--out must be an .svg file, got {args.out}")
    if args.dry_run:
        print(f"would draw {len(SIGNAL)} numbers and {len(FILTERS)} filters to {args.out}")
        return 0
    args.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(args.out, draw(compute()))
    print(f"Saved {args.out}.")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
