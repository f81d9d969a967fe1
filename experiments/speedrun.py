"""How fast can a CPU learn CIFAR-10?  A network made for speed.

examples:
  python -m experiments.speedrun                                    all variants, three seeds each, and PyTorch's time
  python -m experiments.speedrun --variants crelu --seeds 1         one training
  python -m experiments.speedrun --dataset textures --scale 0.1 --epochs 1 --seeds 1     a trial of half a minute

The network (minicnn/models/sprint.py) and its recipe follow the public records for GPUs.  Those give the first layer
every pattern of a patch twice, with both signs, by hand.  The variants ask what CReLU does to that:

  plus-minus      12 patterns and their opposites, fixed, with a bias each, then ReLU: the trick
  crelu           12 patterns, fixed, with a bias each, then CReLU: half as many filters do the same work
  crelu-all       the same, and CReLU after all seven convolutions, each with half of the filters
  crelu-learned   12 filters that start at random and are trained, then CReLU
  relu-learned    24 filters that start at random and are trained, then ReLU

Each training reads the test set once, at its end.  Beside the plain accuracy are those with several views of a test
image averaged: the image and its mirror image; and both also moved by a pixel either way, the six views of the public
records.
Where PyTorch is installed (make parity), a step of the same network is timed in turns with ours, on the same cores, and
its time for a whole training follows from that.  Run it again to see the same results; if it was interrupted, it
continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from experiments.benchmarks.comparison import best_of, compare, competing
from experiments.benchmarks.contenders import missing
from experiments.benchmarks.networks import Network, NetworkCase
from experiments.cli.app import argument_parser, command, counted, get_device, hint, run_main, usage_errors
from experiments.cli.environment import processor, products
from experiments.cli.values import check_numbers, several_of
from experiments.tables.table import Column, Table
from experiments.tables.table import write_csv as table_as_csv
from experiments.train.cifar import CifarSettings
from experiments.train.variants import MACHINE, TRAININGS, Variants, add_options, in_words, machines
from minicnn.analysis.statistics import t_interval
from minicnn.checkpoint import atomic_write_text
from minicnn.data.catalogue import load
from minicnn.models.sprint import CONVOLUTIONS

MODULE = "experiments.speedrun"
STEPS = "speedrun-steps.csv"
VARIANTS: dict[str, dict[str, Any]] = {
    "plus-minus": {"act": "relu", "whitened": True},
    "crelu": {"act": "crelu", "whitened": True},
    "crelu-all": {"act": "crelu", "at": tuple(range(1, CONVOLUTIONS + 1)), "whitened": True},
    "crelu-learned": {"act": "crelu", "whitened": False},
    "relu-learned": {"act": "relu", "whitened": False},
}
ERRORS = ("test_error", "test_error_mirrored", "test_error_six_views")
COLUMNS = [
    Column("variant"),
    Column("accuracy %", ".2f"),
    Column("with mirror images %", ".2f"),
    Column("six views %", ".2f"),
    Column("minutes", ".1f"),
    Column("epochs"),
    Column("parameters", ","),
]


def main(arguments: list[str]) -> int:
    args = parser().parse_args(arguments)
    with usage_errors():
        check_numbers(vars(args), positive=("seeds", "rounds"))
        wanted = {name: settings(args, name) for name in args.variants}
        for own in wanted.values():
            own[0].check()
    device = get_device(args.device, products=args.precision)
    first = wanted[args.variants[0]][0]
    what = f"{counted(first.epochs, 'epoch')} in batches of {first.batch}"
    print(f"{counted(len(wanted), 'variant')}, {counted(args.seeds, 'seed')}, {what}, {device}.")
    if args.dry_run:
        return 0
    with hint("--data names a folder or an archive; for a first look, --dataset textures needs neither"):
        data = load(args.dataset, args.data)
    variants = Variants(wanted, args.out, (*ERRORS, "seconds"), products=products(device))
    line = command(MODULE, arguments)
    results = variants.run(data, device=device, line=line, known=args.imported, report=args.report)
    counts = machines(results)
    timed_on = max(counts, key=lambda machine: (counts[machine], machine == processor()), default="")
    table = Table(COLUMNS, [summary(name, wanted[name][0], [*results[name].values()], timed_on) for name in wanted])
    print(f"\n{table.text()}\n\nMeans over seeds, with 95 % intervals where there are several.")
    print(f"Trained on {in_words(counts)}" + ("." if len(counts) < 2 else f"; minutes are of those on {timed_on}."))
    atomic_write_text(args.out / "speedrun.csv", table_as_csv([table]))
    print(f"Saved in {args.out}: speedrun.csv has this table, {TRAININGS} every training.")
    if args.pytorch:
        timed = pytorch(first, first.subset or len(data.train_labels), args.rounds, compiled=args.compiled)
        if isinstance(timed, Table):
            print(f"\n{timed.text()}\n\nSteps of {args.variants[0]}, with SGD, on {processor()}: medians of")
            print(f"{counted(args.rounds, 'round')}, in turns, on the same cores; the fastest way of each.  A training")
            print("takes longer than its steps: it makes batches, and evaluates.")
            atomic_write_text(args.out / STEPS, table_as_csv([timed]))
            print(f"Saved in {args.out}: {STEPS} has this table.")
        else:
            print(f"\n{timed}")
    return 0


def parser() -> argparse.ArgumentParser:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--variants", type=several_of(VARIANTS), default=list(VARIANTS), metavar="A,B", help="default all")
    p.add_argument("--seeds", type=int, default=3, help="trainings of each variant (default 3)")
    p.add_argument("--epochs", type=int, help="default: the recipe's")
    p.add_argument("--scale", type=float, help="multiply every width (default 1)")
    p.add_argument("--subset", type=int, metavar="N", help="train on N images, chosen at random from the seed")
    add_options(p, "runs/speedrun")
    p.add_argument("--no-pytorch", dest="pytorch", action="store_false", help="do not time PyTorch")
    p.add_argument(
        "--no-compile", dest="compiled", action="store_false", help="leave out torch.compile, which takes minutes"
    )
    p.add_argument("--rounds", type=int, default=5, help="of timing, ours and PyTorch in turns (default 5)")
    return p


def settings(args: argparse.Namespace, name: str) -> list[CifarSettings]:
    """Of the trainings of a variant, by seed."""
    same = {option: getattr(args, option) for option in ("dataset", "epochs", "scale", "subset")} | {"model": "sprint"}
    return [CifarSettings.of(**same, **VARIANTS[name], seed=seed) for seed in range(args.seeds)]


def summary(name: str, one: CifarSettings, results: Sequence[dict[str, Any]], timed_on: str) -> list[Any]:
    """A row of the table: accuracies of all trainings of a variant, and the minutes of those on one machine."""
    accuracies = [[100 - r[key] for r in results] for key in ERRORS]
    numbers = [*accuracies, [r["seconds"] / 60 for r in results if r[MACHINE] == timed_on]]
    return [name, *(t_interval(own) if own else None for own in numbers), one.epochs, one.parameters]


def pytorch(one: CifarSettings, images: int, rounds: int, *, compiled: bool = True) -> Table | str:
    """A step of this network in PyTorch, in turns with ours, and what that makes of the steps of a whole training; or
    why there is nothing to compare."""
    if one.scale != 1:
        return "PyTorch is timed with the whole network alone, without --scale."
    if missing("torch"):
        return "PyTorch is not installed, so there is nothing to compare with: make parity installs it."
    case = NetworkCase("sprint", one.batch, training=True, network=Network(one.build_model))
    found = best_of(compare(case, competing("training", compiled=compiled), rounds))
    steps = one.epochs * -(-images // one.batch)
    heads = [Column("who", words=True), Column("ms per step", ".0f"), Column(f"minutes for {steps:,} steps", ".1f")]
    return Table(heads, [[name, 1e3 * own["seconds"], own["seconds"] * steps / 60] for name, own in found.items()])


if __name__ == "__main__":
    run_main(main, MODULE)
