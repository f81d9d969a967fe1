"""Does CReLU regularise?  The gap between training and test error (the paper's section 4.1, from its Table 1).

The paper finds that networks with CReLU have a higher training error and a lower test error than the ReLU baseline:
less overfitting.  Here the gap of finished runs; runs of one network that differ in the seed alone are averaged.

examples:
  python -m experiments.regularisation --run runs/relu --run runs/crelu
  python -m experiments.regularisation --run runs/relu-folds --run runs/crelu-folds    all folds of both

Writes gaps.csv (a row a run) and gaps.png.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.common import UsageError, run_main, table, write_csv
from experiments.finished import announce, not_comparable, out_folder, parser
from experiments.plots import draw_gaps
from experiments.runs import CifarRun, open_runs
from experiments.settings import TEST_IMAGES
from reference.paper import cifar_result

MODULE = "experiments.regularisation"


def main(arguments: list[str]) -> int:
    args = parser(MODULE, __doc__).parse_args(arguments)
    if args.dry_run:
        announce(args, MODULE, "compare training and test errors", ["gaps.csv", "gaps.png"])
        return 0
    opened = open_runs(args.run)
    runs = [run for run in opened if isinstance(run, CifarRun)]
    if len(runs) < len(opened):
        raise UsageError("ImageNet runs have no training error without augmentation; this needs runs of CIFAR")
    rows = [_row(run) for run in runs]
    print(f"\n{report(rows)}\n")
    print("Gap: test error - training error, in points; ± is the standard error of the test error.")
    print("A seed is one draw of the network too: a difference between single runs is no evidence.")
    print(not_comparable(runs))
    means = seed_means(runs, rows)
    if means:
        print(f"\nMeans over seeds and folds:\n\n{means}")
    folder = out_folder(args, MODULE)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "gaps.csv", rows)
    points = [
        (f"{run.label}\n{run.name}", row["train_error"], row["test_error"]) for run, row in zip(runs, rows, strict=True)
    ]
    draw_gaps(folder / "gaps.png", points, title="Training and test error, and the gap between them")
    print(f"saved in {folder}")
    return 0


def _row(run: CifarRun) -> dict[str, Any]:
    train, test = (float(run.result[f"{which}_error"]) for which in ("train", "test"))
    of_table_1 = run.settings.model != "vgg"
    paper = cifar_result(run.settings.act, run.settings.width, run.settings.dataset) if of_table_1 else None
    return {
        "run": run.name,
        "network": run.label,
        "seed": run.settings.seed,
        "train_error": train,
        "test_error": test,
        "gap": test - train,
        "test_standard_error": math.sqrt(test * (100 - test) / TEST_IMAGES[run.settings.dataset]),
        "paper_train_error": paper and paper.train,
        "paper_test_error": paper and paper.single,
        "paper_gap": paper and round(paper.single - paper.train, 2),
    }


def report(rows: list[dict[str, Any]]) -> str:
    """A line for every run, with the paper's gap beside it."""
    lines = [
        [
            row["network"],
            row["run"],
            f"{row['train_error']:.2f}",
            f"{row['test_error']:.2f}",
            f"{row['gap']:+.2f} ± {row['test_standard_error']:.2f}",
            "-" if row["paper_gap"] is None else f"{row['paper_gap']:+.2f}",
        ]
        for row in rows
    ]
    return table(["network", "run", "train error %", "test error %", "gap", "paper's gap"], lines)


def seed_means(runs: list[CifarRun], rows: list[dict[str, Any]]) -> str:
    """A line for every network of which there are several runs."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for run, row in zip(runs, rows, strict=True):
        groups.setdefault(replace(run.settings, seed=0), []).append(row)
    lines = []
    for of_one in groups.values():
        if len(of_one) > 1:
            gaps = np.array([row["gap"] for row in of_one])
            error = gaps.std(ddof=1) / math.sqrt(len(gaps))
            lines.append([of_one[0]["network"], str(len(gaps)), f"{gaps.mean():+.2f} ± {error:.2f}"])
    return table(["network", "runs", "gap"], lines) if lines else ""


if __name__ == "__main__":
    run_main(main, MODULE)
