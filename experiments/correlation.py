"""How alike are the outgoing weights of the two phases of a CReLU filter?  (The paper's Table 6.)

Filter c feeds the next layer through two channels, its positive and its negative phase.  For each CReLU layer: the
cosine of the weights that leave the two phases of a filter (pair), and of phases of different filters (non-pair);
absolute, as the paper must have reported it, and signed, which it should have been: +1 makes the modulus |x| (as AVR
does), -1 a linear unit, and 0 is what random weights have.  E|cos| of random weights stands beside, because it is not
0.

examples:
  python -m experiments.correlation --run runs/crelu
  python -m experiments.correlation --run runs/crelu --run runs/crelu-half --out figures

Writes correlation.csv (a row a layer), cosines.csv (a row a filter) and correlation.png.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.analyses.runner import announce, not_comparable, out_folder, parser
from experiments.cli.app import UsageError, get_device, run_main
from experiments.cli.files import write_csv
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_correlations
from experiments.tables.table import Table
from experiments.train.run import open_runs
from minicnn.analysis.correlation import Correlation, outgoing_correlation, random_absolute_cosine
from minicnn.analysis.layers import outgoing_weights
from reference.paper import TABLE_6

MODULE = "experiments.correlation"


def main(arguments: list[str]) -> int:
    args = parser(MODULE, __doc__).parse_args(arguments)
    device = get_device(args.device)
    if args.dry_run:
        announce(
            args,
            MODULE,
            f"the cosines of outgoing weights of all CReLU layers, on {device}",
            ["correlation.csv", "cosines.csv", "correlation.png"],
        )
        return 0
    runs = open_runs(args.run)
    found: dict[str, dict[str, Correlation]] = {}
    with Progress(len(runs), "outgoing weights", "network") as progress:
        for run in runs:
            weights = outgoing_weights(run.model(device))
            if not weights:
                raise UsageError(f"{run.folder} is a network without CReLU ({run.label}): its filters have one phase")
            found[run.name] = {layer: outgoing_correlation(*pair) for layer, pair in weights.items()}
            progress()
    rows = [_row(run.name, layer, c) for run in runs for layer, c in found[run.name].items()]
    for run in runs:
        print(f"\n{run.label}, {run.name}\n\n{report([row for row in rows if row['run'] == run.name])}")
    print("\nBehind ±: the standard deviation over filters.  The paper's are of CReLU (conv1-7) on ImageNet.")
    print(not_comparable(runs))
    folder = out_folder(args, MODULE)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "correlation.csv", rows)
    write_csv(folder / "cosines.csv", _filter_rows(found))
    draw_correlations(
        folder / "correlation.png",
        {f"{run.label}, {run.name}": found[run.name] for run in runs},
        title="Outgoing weights of the two phases of a filter: +1 is |x|, -1 is a linear unit",
    )
    print(f"saved in {folder}")
    return 0


def _row(name: str, layer: str, c: Correlation) -> dict[str, Any]:
    pair, other = np.abs(c.pair), np.abs(c.non_pair)
    return {
        "run": name,
        "layer": layer,
        "filters": len(c.pair),
        "dimensions": c.dimensions,
        "pair_absolute": _mean(pair),
        "pair_absolute_sd": _deviation(pair),
        "non_pair_absolute": _mean(other),
        "non_pair_absolute_sd": _deviation(other),
        "random_absolute": random_absolute_cosine(c.dimensions),
        "pair_signed": _mean(c.pair),
        "pair_signed_sd": _deviation(c.pair),
        "pair_positive_share": _mean(c.pair > 0),
        "non_pair_signed": _mean(c.non_pair),
    }


def _filter_rows(found: dict[str, dict[str, Correlation]]) -> list[dict[str, Any]]:
    return [
        {"run": name, "layer": layer, "pair": float(cosine)}
        for name, layers in found.items()
        for layer, c in layers.items()
        for cosine in c.pair
    ]


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def _deviation(values: np.ndarray) -> float | None:
    return float(values.std()) if values.size else None


def report(rows: list[dict[str, Any]]) -> str:
    """The rows of one run, with Table 6 beside them."""
    paper = {row.label: f"{row.pair:.3f} / {row.non_pair:.3f}" for row in TABLE_6}

    def number(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{value:{sign}.3f}"

    lines = [
        [
            row["layer"],
            str(row["dimensions"]),
            f"{number(row['pair_absolute'])} ± {number(row['pair_absolute_sd'])}",
            f"{number(row['non_pair_absolute'])} ± {number(row['non_pair_absolute_sd'])}",
            number(row["random_absolute"]),
            f"{number(row['pair_signed'], '+')} ± {number(row['pair_signed_sd'])}",
            number(row["non_pair_signed"], "+"),
            paper.get(row["layer"], "-"),
        ]
        for row in rows
    ]
    own = ["layer", "d", "|pair|", "|non-pair|", "random", "pair, signed", "non-pair, signed"]
    return Table([*own, "paper |pair| / |non-pair|"], lines).text()


if __name__ == "__main__":
    run_main(main, MODULE)
