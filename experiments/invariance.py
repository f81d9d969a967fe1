"""How invariant are the filters of each layer?  (The paper's Figure 4 and section S4.)

A filter fires where its response is among its largest 1 %.  The score of a layer says how much more often than by
chance a filter that fires for an image fires at the same place for the image flipped, rotated by 15 degrees or
shifted by 3 pixels: 1 is chance, 100 is always.

The paper measures ReLU networks by the positive response (one side) and CReLU networks by its absolute value (two
sides).  That compares two things at once, so here every network is measured both ways, and so are untrained ones: a
single draw of random weights moves the scores by several points.

examples:
  python -m experiments.invariance --run runs/relu --run runs/crelu
  python -m experiments.invariance --run runs/crelu --subset 1000    quicker: 1,000 test images, drawn at random
  python -m experiments.invariance --run runs/crelu --subset 400 --control 8    beside eight untrained networks
  python -m experiments.invariance --run runs/crelu --fill mean      zeros, not the edge, beside a moved picture

Writes invariance.csv (a row a layer, side and network), filters.csv (a row a filter) and invariance.png.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.analyses.runner import (
    announce,
    batches,
    data_option,
    images_of,
    not_comparable,
    out_folder,
    parser,
    sample,
)
from experiments.cli.app import UsageError, duration, get_device, run_main
from experiments.cli.files import write_csv
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_invariance
from experiments.tables.table import Table
from experiments.train.run import Run, open_runs
from minicnn.analysis.invariance import BATCH, RATE, SIDES, Score, invariance
from minicnn.analysis.layers import filter_layers
from minicnn.analysis.stimuli import FILLS, STIMULI, Stimuli
from minicnn.backend import Device
from minicnn.data.dataset import Dataset

MODULE = "experiments.invariance"
Scores = dict[str, dict[str, Score]]  # by layer and side
Found = dict[tuple[str, int | None], Scores]  # by run, and None (trained) or the seed of an untrained network


def parse(arguments: list[str]) -> argparse.Namespace:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--subset", type=int, metavar="N", help="images to test, drawn at random (default all; 500 photos)")
    p.add_argument("--stimuli", choices=STIMULI, help="imagenet: corner crops, not shifts (default: as the networks)")
    p.add_argument("--fill", choices=FILLS, default="edge", help="what comes in beside a moved picture (default edge)")
    p.add_argument("--rate", type=float, default=RATE, help="how often a filter fires (default 0.01, the paper's)")
    p.add_argument(
        "--control",
        type=int,
        default=1,
        metavar="N",
        help="untrained networks beside each: its own start (default 1), other seeds too, or none (0)",
    )
    args = p.parse_args(arguments)
    if not 0 < args.rate < 1 or (args.subset is not None and args.subset < 1) or args.control < 0:
        raise UsageError("--rate must be between 0 and 1, --subset positive and --control not negative")
    return args


def main(arguments: list[str]) -> int:
    args = parse(arguments)
    device = get_device(args.device)
    if args.dry_run:
        stimuli = STIMULI[args.stimuli or "cifar"](fill=args.fill)
        passes = f"{2 + len(stimuli.transforms)} forward passes over {args.subset or 'all'} test images"
        nets = f"networks as trained and {args.control} untrained"
        files = ["invariance.csv", "filters.csv", "invariance.png"]
        announce(args, MODULE, f"{passes} for the {nets}, on {device}: {', '.join(stimuli.transforms)}", files)
        return 0
    runs = open_runs(args.run)
    data = images_of(runs, args.data, args.subset)
    folder = out_folder(args, MODULE)
    folder.mkdir(parents=True, exist_ok=True)  # find out now whether it can be made, not after the passes
    found: Found = {}
    for run in runs:
        for seed in (None, *range(run.settings.seed, run.settings.seed + args.control)):
            found[run.name, seed] = measure(run, seed, data, stimuli_for(run, args), args, device)
    papers = {run.name: papers_sides(run) for run in runs}
    rows = [
        {**_row(name, seed, layer, side, score), "as_in_paper": side == papers[name][layer]}
        for (name, seed), layer, side, score in _each(found)
    ]
    for run in runs:
        print(f"\n{run.label}, {run.name}\n\n{report(run, found)}")
    print("\n* as in the paper: one side after ReLU, two after CReLU and AVR.  The paper prints no numbers.")
    print(not_comparable(runs))
    write_csv(folder / "invariance.csv", rows)
    write_csv(folder / "filters.csv", _filter_rows(found))
    draw_invariance(folder / "invariance.png", panels(runs, found), _layers(found))
    print(f"saved in {folder}")
    return 0


def stimuli_for(run: Run, args: argparse.Namespace) -> Stimuli:
    """Those of --stimuli, or of the data that a network was trained on: for ImageNet, crops of what it sees."""
    name = args.stimuli or ("imagenet" if run.settings.dataset == "imagenet" else "cifar")
    options = {"crop": run.settings.crop} if name == "imagenet" and run.settings.dataset == "imagenet" else {}
    return STIMULI[name](fill=args.fill, **options)


def measure(
    run: Run, untrained: int | None, data: Dataset, stimuli: Stimuli, args: argparse.Namespace, device: Device
) -> Scores:
    """All layers of one network on the test images."""
    model, normalise = run.model(device, untrained=untrained), run.normaliser(data)
    size = len(data.test_images)
    images = data.test_images[sample(args.subset or size, size)]
    label = f"{run.name}, {_weights(untrained)}"
    start = time.monotonic()
    with Progress((2 + len(stimuli.transforms)) * len(images), label) as progress:

        def again() -> Iterator[np.ndarray]:
            return batches(images, normalise, BATCH if images.shape[1] <= 64 else BATCH // 6)  # not too much memory

        try:
            scores = invariance(model, again, len(images), stimuli, device=device, rate=args.rate, on_pass=progress)
        except ValueError as error:
            raise UsageError(str(error)) from None
    print(f"{label}: {len(images)} images in {duration(time.monotonic() - start)}")
    return scores


def _each(found: Found) -> Iterator[tuple[tuple[str, int | None], str, str, Score]]:
    for key, layers in found.items():
        for layer, sides in layers.items():
            for side in SIDES:
                yield key, layer, side, sides[side]


def _weights(untrained: int | None) -> str:
    return "trained" if untrained is None else f"untrained, seed {untrained}"


def _row(name: str, untrained: int | None, layer: str, side: str, score: Score) -> dict[str, Any]:
    return {
        "run": name,
        "weights": _weights(untrained),
        "layer": layer,
        "sides": side,
        "filters": len(score.fired),
        "rare_filters": int(score.rare.sum()),
        "score": score.mean(),
        "score_with_rare": score.mean(with_rare=True),
        **{name.replace(" ", "_"): score.mean(name) for name in score.both},
    }


def _filter_rows(found: Found) -> list[dict[str, Any]]:
    return [
        {
            "run": name,
            "weights": _weights(untrained),
            "layer": layer,
            "sides": side,
            "filter": i,
            "threshold": float(score.threshold[i]),
            "global_rate": float(score.global_rate[i]),
            "local_rate": float(score.local_rate[i]),
            "score": float(score.scores[i]),
        }
        for (name, untrained), layer, side, score in _each(found)
        for i in range(len(score.fired))
    ]


def _layers(found: Found) -> list[str]:
    return max((list(scores) for scores in found.values()), key=len)


def papers_sides(run: Run) -> dict[str, str]:
    """The side that the paper would take for each layer: |response| after CReLU and AVR."""
    layers = filter_layers(run.settings.build_model())
    return {layer.name: "two" if layer.two_sided else "one" for layer in layers}


def control(run: Run, found: Found, layer: str, side: str) -> np.ndarray:
    """The scores of a layer in the untrained networks, one for every seed."""
    return np.array(
        [of[layer][side].mean() for (name, seed), of in found.items() if name == run.name and seed is not None]
    )


def report(run: Run, found: Found) -> str:
    """The scores of one network by layer, and those of the untrained ones beside them."""
    seeds = sum(name == run.name for name, _ in found) - 1
    words = ["trained", *(["untrained"] if seeds else [])]
    head = ["layer", *(f"{word}, {side}" for word in words for side in SIDES), "rare when trained"]
    papers, lines = papers_sides(run), []
    for layer, of_layer in found[run.name, None].items():
        cells = [f"{of_layer[side].mean():.1f}{'*' if side == papers[layer] else ' '}" for side in SIDES]
        for side in SIDES if seeds else ():
            scores = control(run, found, layer, side)
            cells.append(f"{scores.mean():.1f}" + (f" ± {scores.std(ddof=1):.1f}" if seeds > 1 else ""))
        lines.append([layer, *cells, " / ".join(str(int(of_layer[side].rare.sum())) for side in SIDES)])
    note = (
        f"\n± is the standard deviation over {seeds} seeds: how much a single network may differ." if seeds > 1 else ""
    )
    return Table(head, lines).text() + note


def panels(runs: list[Run], found: Found) -> dict[str, dict[str, list[float]]]:
    """As the paper compares, and the two comparisons of like with like."""
    return {
        "as in the paper: ReLU one side, CReLU two": lines(runs, found, None),
        "all by one side, max(z, 0)": lines(runs, found, "one"),
        "all by two sides, |z|": lines(runs, found, "two"),
    }


def lines(runs: list[Run], found: Found, side: str | None) -> dict[str, list[float]]:
    """The scores by layer of each network, and of the untrained ones; `side` None: the paper's of each layer."""
    result = {}
    for run in runs:
        label = run.label + (f", {run.name}" if run.label in result else "")
        of, papers = found[run.name, None], papers_sides(run)
        sides = {layer: side or papers[layer] for layer in of}
        result[label] = [of[layer][sides[layer]].mean() for layer in of]
        if len(found) > len(runs):
            result[f"untrained {label}"] = [float(control(run, found, layer, sides[layer]).mean()) for layer in of]
    return result


if __name__ == "__main__":
    run_main(main, MODULE)
