"""What each part of the recipe `hour` is worth: the recipe with one thing changed, network by network, seed by seed.

Small networks (a quarter of every width) are trained for a few epochs; images held out of the training set judge, and
the test set plays no part.  A part helps if the error is higher without it.  Run it again to see the same results; if
it was interrupted, it continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.cli.app import argument_parser, command, counted, get_device, hint, run_main, usage_errors
from experiments.cli.environment import products
from experiments.cli.values import check_numbers, several_of
from experiments.tables.table import Column, Table
from experiments.tables.table import write_csv as table_as_csv
from experiments.train.cifar import RECIPES, CifarSettings
from experiments.train.variants import TRAININGS, Variants, add_options, in_words, machines
from minicnn.analysis.statistics import t_interval
from minicnn.checkpoint import atomic_write_text
from minicnn.data.catalogue import load
from minicnn.nn import init

MODULE = "experiments.ablation"
SHORT = RECIPES["short"]["convpool"]
OF_SGD = ("lr", "momentum", "weight_decay", "clip")
NETWORKS = {
    "CReLU (half)": {"act": "crelu", "width": "half"},
    "ReLU (base)": {"act": "relu", "width": "base"},
    "AVR (base)": {"act": "avr", "width": "base"},
}
BY_ACT = {own["act"]: network for network, own in NETWORKS.items()}
MAIN_PAIR = ["crelu", "relu"]


class Change(NamedTuple):
    """What is changed in the recipe, in words and in settings; `only` for networks with this activation.

    idea      another way to train (experiments/train/ideas.py)
    longer    by how much there are more epochs, if that makes the same time of it
    """

    words: str
    settings: Mapping[str, Any] = {}
    only: str = ""
    idea: str = ""
    longer: float = 1.0


CHANGES = {
    "hour": Change("the recipe"),
    "sgd": Change("SGD as in `short`", {"optimiser": "sgd"} | {name: getattr(SHORT, name) for name in OF_SGD}),
    "not-centred": Change("filters not centred", {"centred": False}),
    "free-norms": Change("norms not kept", {"keep_norm": False}),
    "he-gain": Change("He's gain, as for ReLU", {"gain": init.HE}, only="avr"),
    "usual-start": Change("no looks-linear start", {"looks_linear": False}, only="crelu"),
    "usual-conv1": Change("conv1 not whitened", {"whitened": False}),
    "random-flips": Change("flips at random", {"alternate": False}),
    "no-shifts": Change("no shifts", {"shift": 0}),
    "hard-labels": Change("labels not smoothed", {"smoothing": 0.0}),
    "slow-start": Change("the rate rises for a quarter of the steps", {"warmup": 0.25}),
    "dropout": Change("dropout 0.1 after each pool", {"dropout": (0.0, 0.1, 0.1)}),
    "rate-0.03": Change("Muon's peak 0.03", {"lr": 0.03}),
    "rate-0.08": Change("Muon's peak 0.08", {"lr": 0.08}),
    "average": Change("averages of the weights", idea="average"),
    "growing": Change("growing images, a third more epochs", idea="growing", longer=4 / 3),
    "standardised": Change("filters standardised", idea="standardised"),
}


def main(arguments: list[str]) -> int:
    args = parser().parse_args(arguments)
    networks = {BY_ACT[act]: NETWORKS[BY_ACT[act]] for act in args.networks}
    asked = dict.fromkeys(["hour", *args.changes])  # the recipe itself is always the first
    args.changes = [name for name in asked if CHANGES[name].only in ("", *args.networks)]
    with usage_errors():
        check_numbers(vars(args), positive=("seeds", "hold_out"))
        wanted = {
            (network, name): settings(args, network, name)
            for network, own in networks.items()
            for name in args.changes
            if CHANGES[name].only in ("", own["act"])
        }
        for own in wanted.values():
            own[0].check()
    device = get_device(args.device, products=args.precision)
    one = wanted[next(iter(networks)), "hour"][0]
    what = f"{counted(one.epochs, 'epoch')}, {args.hold_out} images held out, {counted(args.seeds, 'seed')}, {device}"
    print(
        f"{len(wanted) * args.seeds} trainings: {len(args.changes)} rows, {counted(len(networks), 'network')}, {what}."
    )
    if args.dry_run:
        return 0
    with hint("--data names a folder or an archive; for a first look, --dataset textures needs neither"):
        data = load(args.dataset, args.data)
    line = command(MODULE, arguments)
    names = {key: f"{key[1]} {NETWORKS[key[0]]['act']}" for key in wanted}
    named = {names[key]: own for key, own in wanted.items()}
    ideas = {names[key]: idea for key in wanted if (idea := CHANGES[key[1]].idea)}
    variants = Variants(named, args.out, ("hold_out_error", "seconds"), args.hold_out, products(device), ideas)
    results = variants.run(data, device=device, line=line, known=args.imported, report=args.report)
    errors = {
        key: {seed: r["hold_out_error"] for seed, r in own.items()}
        for key, own in zip(wanted, results.values(), strict=True)
    }
    shown = table(args.changes, networks, errors)
    print(f"\n{shown.text()}\n")
    print("Hold-out errors at the best epoch: means over seeds with 95 % intervals, and by how much they are more than")
    print(f"with the recipe itself, seed by seed.  Trained on {in_words(machines(results))}.")
    atomic_write_text(args.out / "ablation.csv", table_as_csv([shown]))
    print(f"Saved in {args.out}: ablation.csv has this table, {TRAININGS} every training.")
    return 0


def parser() -> argparse.ArgumentParser:
    p = argument_parser(MODULE, __doc__)
    known = "; ".join(f"{name}: {change.words}" for name, change in CHANGES.items())
    p.add_argument(
        "--changes", type=several_of(CHANGES), default=list(CHANGES), metavar="A,B", help=f"default all. {known}"
    )
    p.add_argument(
        "--networks",
        type=several_of(BY_ACT),
        default=MAIN_PAIR,
        metavar="A,B",
        help=f"{', '.join(f'{act}: {network}' for act, network in BY_ACT.items())}; default {','.join(MAIN_PAIR)}",
    )
    p.add_argument("--seeds", type=int, default=3, help="trainings of each row and network (default 3)")
    p.add_argument("--epochs", type=int, default=3, help="default 3")
    p.add_argument("--scale", type=float, default=0.25, help="fraction of the paper's widths (default 0.25)")
    p.add_argument("--subset", type=int, metavar="N", help="use N images, chosen at random from the seed")
    p.add_argument("--hold-out", type=int, default=5000, metavar="N", help="images that judge (default 5000)")
    add_options(p, "runs/ablation")
    return p


def settings(args: argparse.Namespace, network: str, change: str) -> list[CifarSettings]:
    """Of the trainings of a network with a change, by seed."""
    same = {option: getattr(args, option) for option in ("dataset", "epochs", "scale", "subset")}
    own = same | NETWORKS[network] | dict(CHANGES[change].settings)
    own["epochs"] = round(own["epochs"] * CHANGES[change].longer)
    return [CifarSettings.of(recipe="hour", **own, seed=seed) for seed in range(args.seeds)]


Errors = Mapping[tuple[str, str], Mapping[int, float]]  # by network and change, and by seed


def table(changes: Sequence[str], networks: Collection[str], errors: Errors) -> Table:
    """A row per change; nothing where it changes nothing for a network."""
    columns = [Column("changed")]
    for network in networks:
        columns += [Column(f"{network}, error %", ".2f"), Column(f"{network}, more by", "+.2f")]
    lines = []
    for change in changes:
        line: list[Any] = [CHANGES[change].words]
        for network in networks:
            own, hour = errors.get((network, change), {}), errors[network, "hour"]
            more = [own[seed] - hour[seed] for seed in own if seed in hour] if change != "hour" else []
            line += [t_interval(values) if values else None for values in ([*own.values()], more)]
        lines.append(line)
    return Table(columns, lines)


if __name__ == "__main__":
    run_main(main, MODULE)
