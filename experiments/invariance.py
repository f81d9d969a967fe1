"""How invariant are the filters of each layer?  (The paper's Figure 4 and section S4.)

A filter fires where its response is among its largest 1 %.  The score of a layer says how much more often than by
chance a filter that fires for an image fires at the same place for the image flipped, rotated by 15 degrees or
shifted by 3 pixels: 1 is chance, 100 is always.

The paper measures ReLU networks by the positive response (one side) and CReLU networks by its absolute value (two
sides). That compares two things at once, so here every network is measured both ways, and so are its weights before
training.

examples:
  python -m experiments.invariance --run runs/relu --run runs/crelu
  python -m experiments.invariance --run runs/crelu --subset 1000    quicker: 1,000 test images, drawn at random
  python -m experiments.invariance --run runs/crelu --fill mean      zeros, not the edge, beside a moved picture

Writes invariance.csv (a row a layer, side and network), filters.csv (a row a filter) and invariance.png.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.common import UsageError, duration, get_device, run_main, table, write_csv
from experiments.finished import (
    Progress,
    Run,
    announce,
    batches,
    data_option,
    images_of,
    not_comparable,
    open_runs,
    out_folder,
    parser,
    sample,
)
from experiments.plots import draw_invariance
from minicnn.analysis.invariance import BATCH, RATE, SIDES, Score, invariance
from minicnn.analysis.layers import filter_layers
from minicnn.analysis.stimuli import FILLS, STIMULI, Stimuli
from minicnn.backend import Device
from minicnn.data.dataset import Dataset

MODULE = "experiments.invariance"
Scores = dict[str, dict[str, Score]]  # by layer and side


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__)
    data_option(p)
    p.add_argument("--subset", type=int, metavar="N", help="test images, drawn at random (default: all of them)")
    p.add_argument("--stimuli", choices=STIMULI, default="cifar", help="imagenet: corner crops instead of shifts")
    p.add_argument("--fill", choices=FILLS, default="edge", help="what comes in beside a moved picture (default edge)")
    p.add_argument("--rate", type=float, default=RATE, help="how often a filter fires (default 0.01, the paper's)")
    p.add_argument("--no-control", action="store_true", help="leave out the untrained weights: half the time")
    args = p.parse_args(arguments)
    if not 0 < args.rate < 1 or (args.subset is not None and args.subset < 1):
        raise UsageError("--rate must be between 0 and 1, and --subset positive")
    device = get_device(args.device)
    stimuli = STIMULI[args.stimuli](fill=args.fill)
    if args.dry_run:
        passes = f"{2 + len(stimuli.transforms)} forward passes over {args.subset or 'all'} test images"
        nets = "networks as trained" + ("" if args.no_control else " and as initialised")
        files = ["invariance.csv", "filters.csv", "invariance.png"]
        announce(args, MODULE, f"{passes} for the {nets}, on {device}: {', '.join(stimuli.transforms)}", files)
        return 0
    runs = open_runs(args.run)
    data = images_of(runs, args.data)
    found = {
        (run.name, trained): measure(run, trained, data, stimuli, args, device)
        for run in runs
        for trained in ([True] if args.no_control else [True, False])
    }
    rows = [_row(name, trained, layer, side, score) for (name, trained), layer, side, score in _each(found)]
    for run in runs:
        print(f"\n{run.label}, {run.name}\n\n{report(run, found)}")
    print("\n* as in the paper: one side for ReLU networks, two for CReLU and AVR.  The paper prints no numbers.")
    print(not_comparable(runs))
    folder = out_folder(args, MODULE)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "invariance.csv", rows)
    write_csv(folder / "filters.csv", _filter_rows(found))
    draw_invariance(folder / "invariance.png", panels(runs, found), _layers(found))
    print(f"saved in {folder}")
    return 0


def measure(
    run: Run, trained: bool, data: Dataset, stimuli: Stimuli, args: argparse.Namespace, device: Device
) -> Scores:
    """All layers of one network on the test images."""
    model, normalise = run.model(device, trained=trained), run.normaliser(data)
    size = len(data.test_images)
    images = data.test_images[sample(args.subset or size, size, seed=0)]
    label = f"{run.name}{'' if trained else ', untrained'}"
    start = time.monotonic()
    with Progress((2 + len(stimuli.transforms)) * len(images), label) as progress:

        def again() -> Iterator[np.ndarray]:
            return batches(images, normalise, BATCH)

        try:
            scores = invariance(model, again, len(images), stimuli, device=device, rate=args.rate, on_pass=progress)
        except ValueError as error:
            raise UsageError(str(error)) from None
    print(f"{label}: {len(images)} images in {duration(time.monotonic() - start)}")
    return scores


def _each(found: dict[Any, Scores]) -> Iterator[tuple[Any, str, str, Score]]:
    for key, layers in found.items():
        for layer, sides in layers.items():
            for side in SIDES:
                yield key, layer, side, sides[side]


def _row(name: str, trained: bool, layer: str, side: str, score: Score) -> dict[str, Any]:
    return {
        "run": name,
        "weights": "trained" if trained else "untrained",
        "layer": layer,
        "sides": side,
        "filters": len(score.fired),
        "rare_filters": int(score.rare.sum()),
        "score": score.mean(),
        "score_with_rare": score.mean(with_rare=True),
        **{name.replace(" ", "_"): score.mean(name) for name in score.both},
    }


def _filter_rows(found: dict[Any, Scores]) -> list[dict[str, Any]]:
    return [
        {
            "run": name,
            "weights": "trained" if trained else "untrained",
            "layer": layer,
            "sides": side,
            "filter": i,
            "threshold": float(score.threshold[i]),
            "global_rate": float(score.global_rate[i]),
            "local_rate": float(score.local_rate[i]),
            "score": float(score.scores[i]),
        }
        for (name, trained), layer, side, score in _each(found)
        for i in range(len(score.fired))
    ]


def _layers(found: dict[Any, Scores]) -> list[str]:
    return max((list(scores) for scores in found.values()), key=len)


def two_sided(run: Run) -> bool:
    """Whether the paper would take |response| for this network."""
    return any(layer.two_sided for layer in filter_layers(run.settings.build_model()))


def report(run: Run, found: dict[Any, Scores]) -> str:
    stars = {"one": "" if two_sided(run) else "*", "two": "*" if two_sided(run) else ""}
    weights = [trained for trained in (True, False) if (run.name, trained) in found]
    head = ["layer"]
    for trained in weights:
        word = "trained" if trained else "untrained"
        head += [f"{word}, {side}{stars[side]}" for side in SIDES]
    lines = []
    for layer, of_layer in found[run.name, True].items():
        scores = [f"{found[run.name, trained][layer][side].mean():.1f}" for trained in weights for side in SIDES]
        lines.append([layer, *scores, " / ".join(str(int(of_layer[side].rare.sum())) for side in SIDES)])
    return table([*head, "rare filters left out"], lines)


def panels(runs: list[Run], found: dict[Any, Scores]) -> dict[str, dict[str, list[float]]]:
    """As the paper compares, and the two comparisons of like with like."""

    def lines(side_of: Any) -> dict[str, list[float]]:
        result = {}
        for run in runs:
            for trained in (True, False):
                if (run.name, trained) in found:
                    side = side_of(run)
                    label = f"{'' if trained else 'untrained '}{run.label}, {side}"
                    label += f", {run.name}" if label in result else ""
                    result[label] = [sides[side].mean() for sides in found[run.name, trained].values()]
        return result

    return {
        "as in the paper": lines(lambda run: "two" if two_sided(run) else "one"),
        "all by one side, max(z, 0)": lines(lambda run: "one"),
        "all by two sides, |z|": lines(lambda run: "two"),
    }


if __name__ == "__main__":
    run_main(main, MODULE)
