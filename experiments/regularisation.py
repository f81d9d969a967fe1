"""Does CReLU regularise?  The gap between training and test error (the paper's section 4.1, from its Table 1).

The paper finds that networks with CReLU have a higher training error and a lower test error than the ReLU baseline:
less overfitting.  Here the errors of finished runs; of networks that differ in the seed or the fold alone, the means
with their 95 % intervals.

examples:
  python -m experiments.regularisation --run runs/relu --run runs/crelu
  python -m experiments.regularisation --run runs/relu-folds --run runs/crelu-folds    all folds of both
  python -m experiments.regularisation --run docs/results/runs/cifar10-*-x0.25-*       many: the shell names them all

Writes gaps.csv (a row a run) and gaps.png (a line a network).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from experiments.analyses.runner import announce, not_comparable, out_folder, parser
from experiments.cli.app import UsageError, run_main
from experiments.cli.files import write_csv
from experiments.figures.analyses import Gap, draw_gaps
from experiments.tables.table import Table
from experiments.train.run import Run, open_runs
from minicnn.analysis.statistics import t_interval
from minicnn.data.catalogue import CATALOGUE
from reference.paper import cifar_result

MODULE = "experiments.regularisation"


def main(arguments: list[str]) -> int:
    args = parser(MODULE, __doc__).parse_args(arguments)
    if args.dry_run:
        announce(args, MODULE, "compare training and test errors", ["gaps.csv", "gaps.png"])
        return 0
    opened = open_runs(args.run)
    runs = [run for run in opened if run.settings.dataset != "imagenet"]
    if len(runs) < len(opened):
        raise UsageError("ImageNet runs have no training error without augmentation; this needs runs of CIFAR")
    rows = [_row(run) for run in runs]
    print(f"\n{report(rows)}\n")
    print("Gap: test error - training error, in points; ± is the standard error of the test error.")
    print("A seed is one draw of the network too: a difference between single runs is no evidence.")
    print(not_comparable(runs))
    networks = by_network(runs, rows)
    if len(networks) < len(runs):
        print(f"\nMeans over seeds and folds; ± is half a 95 % interval over networks:\n\n{means(networks)}")
    folder = out_folder(args, MODULE)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "gaps.csv", rows)
    draw_gaps(folder / "gaps.png", [_gap(label, of) for label, of in networks.items()])
    print(f"saved in {folder}")
    return 0


def _row(run: Run) -> dict[str, Any]:
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
        "test_standard_error": math.sqrt(test * (100 - test) / CATALOGUE[run.settings.dataset].test),
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
    return Table(["network", "run", "train error %", "test error %", "gap", "paper's gap"], lines).text()


def by_network(runs: list[Run], rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows that differ in the seed or the fold alone together, by a label that is theirs."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for run, row in zip(runs, rows, strict=True):
        found.setdefault(replace(run.settings, seed=0), []).append(row)
    named: dict[str, list[dict[str, Any]]] = {}
    for settings, of_one in found.items():
        count = f"{len(of_one)} network{'s' if len(of_one) > 1 else ''}"
        name = f"{settings.label}\n{settings.dataset}, {settings.epochs} epochs, {count}"
        if name in named:  # they differ in something that the label does not say
            name += f": {of_one[0]['run']}"
        named[name] = of_one
    return named


def means(networks: dict[str, list[dict[str, Any]]]) -> str:
    """A line for every network of which there are several."""
    lines = []
    for label, rows in networks.items():
        if len(rows) > 1:
            found = [t_interval([row[name] for row in rows]) for name in ("train_error", "test_error", "gap")]
            lines.append([label.replace("\n", ", "), *(f"{x.mean:.2f} ± {x.half:.2f}" for x in found)])
    return Table(["network", "train error %", "test error %", "gap"], lines).text()


def _gap(label: str, rows: list[dict[str, Any]]) -> Gap:
    gap = t_interval([row["gap"] for row in rows])
    words = f"{gap.mean:+.2f}" + ("" if gap.half is None else f" ± {gap.half:.2f}")
    return Gap(label, [row["train_error"] for row in rows], [row["test_error"] for row in rows], words)


if __name__ == "__main__":
    run_main(main, MODULE)
