"""Invariance scores of trained and untrained networks, by layer and side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.images import batches, images_of, sample
from experiments.analyses.runner import Finding, PlusMinus, Request, announce_time, not_comparable
from experiments.cli.app import duration, usage_errors
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_invariance
from experiments.tables.table import Column, Table
from experiments.train.run import Run
from minicnn.analysis.invariance import BATCH, SIDES, Score, invariance
from minicnn.analysis.layers import filter_layers
from minicnn.analysis.stimuli import STIMULI, Stimuli
from minicnn.data.dataset import Dataset

PANELS = {  # the sides by which networks are compared: as in the paper (None), and like with like
    "as in the paper: ReLU one side, CReLU two": None,
    "all by one side, max(z, 0)": "one",
    "all by two sides, |z|": "two",
}
TRIAL = 20  # images, to learn how long one takes
STAR = "* as in the paper: one side after ReLU, two after CReLU and AVR.  The paper prints no numbers."


class Measured(NamedTuple):
    """One layer of one network, measured by one side."""

    run: str
    weights: str  # "trained" or "untrained, seed 0"
    layer: str
    sides: str
    as_in_paper: bool  # whether the paper takes this side: two after CReLU and AVR, else one
    score: Score

    def row(self) -> dict[str, Any]:
        """For invariance.csv; each transformation has its own column."""
        score = self.score
        numbers = {"filters": len(score.fired), "rare_filters": int(score.rare.sum())}
        means = {"score": score.mean(), "score_with_rare": score.mean(with_rare=True)}
        transforms = {name.replace(" ", "_"): score.mean(name) for name in score.both}
        return {**self._key(), **numbers, **means, **transforms, "as_in_paper": self.as_in_paper}

    def filter_rows(self) -> list[dict[str, Any]]:
        """For filters.csv."""
        score = self.score
        names = ("threshold", "global_rate", "local_rate", "score")
        values = zip(score.threshold, score.global_rate, score.local_rate, score.scores, strict=True)
        return [
            {**self._key(), "filter": i, **dict(zip(names, map(float, of_filter), strict=True))}
            for i, of_filter in enumerate(values)
        ]

    def _key(self) -> dict[str, str]:
        return {"run": self.run, "weights": self.weights, "layer": self.layer, "sides": self.sides}


Found = dict[str, list[Measured]]  # by run


def findings(request: Request) -> Iterator[Finding]:
    data = images_of(request.runs, request.args.data, request.args.subset)
    size = len(data.test_images)
    chosen = sample(request.args.subset or size, size)
    request.make_folder()
    if len(chosen) > 10 * TRIAL:
        passes = (
            f"{len(chosen):,} images, {len(request.runs)} networks and {request.args.control} untrained ones of each"
        )
        times = (1 + request.args.control) * len(chosen) / TRIAL
        announce_time(passes, [(partial(trial, run, data, request), times) for run in request.runs])
    found: Found = {}
    for run in request.runs:
        seeds = range(run.settings.seed, run.settings.seed + request.args.control)
        found[run.name] = [layer for seed in (None, *seeds) for layer in measure(run, seed, data, request)]
    everything = [layer for layers in found.values() for layer in layers]
    tables = [table(f"{run.label}, {run.name}", found[run.name]) for run in request.runs]
    spread = f"± is the standard deviation over {request.args.control} seeds: how much a single network may differ."
    panels = {title: lines(request.runs, found, side) for title, side in PANELS.items()}
    files = {
        "invariance.csv": [layer.row() for layer in everything],
        "filters.csv": [row for layer in everything for row in layer.filter_rows()],
        "invariance.png": partial(draw_invariance, panels=panels),
    }
    yield Finding([*tables, spread if request.args.control > 1 else "", STAR, not_comparable(request.runs)], files)


def trial(run: Run, data: Dataset, request: Request) -> None:
    """A few images through everything that is done with all of them."""
    some = run.normaliser(data)(data.test_images[:TRIAL])
    model, stimuli = run.model(request.device), stimuli_for(run, request)
    with usage_errors():
        invariance(model, lambda: iter([some]), TRIAL, stimuli, device=request.device, rate=request.args.rate)


def measure(run: Run, untrained: int | None, data: Dataset, request: Request) -> list[Measured]:
    """All layers of one network, as trained or as it begins with a seed, on the test images."""
    model, normalise, stimuli = (
        run.model(request.device, untrained=untrained, data=data),
        run.normaliser(data),
        stimuli_for(run, request),
    )
    size = len(data.test_images)
    images = data.test_images[sample(request.args.subset or size, size)]
    batch = BATCH if images.shape[1] <= 64 else BATCH // 6  # photographs need more memory

    def again() -> Iterator[np.ndarray]:
        return batches(images, normalise, batch)

    weights = "trained" if untrained is None else f"untrained, seed {untrained}"
    start = time.monotonic()
    with usage_errors(), Progress((2 + len(stimuli.transforms)) * len(images), f"{run.name}, {weights}") as progress:
        by_layer = invariance(
            model, again, len(images), stimuli, device=request.device, rate=request.args.rate, on_pass=progress
        )
    print(f"{run.name}, {weights}: {len(images)} images in {duration(time.monotonic() - start)}")
    papers = {layer.name: "two" if layer.two_sided else "one" for layer in filter_layers(model)}
    return [
        Measured(run.name, weights, layer, side, side == papers[layer], by_side[side])
        for layer, by_side in by_layer.items()
        for side in SIDES
    ]


def stimuli_for(run: Run, request: Request) -> Stimuli:
    """Those of --stimuli, or those that suit the data of the run; an ImageNet network sees crops of its own size."""
    name = request.args.stimuli or ("imagenet" if run.settings.PHOTOGRAPHS else "cifar")
    crop = {"crop": run.settings.crop} if name == "imagenet" and run.settings.PHOTOGRAPHS else {}
    return STIMULI[name](fill=request.args.fill, **crop)


def table(title: str, layers: Sequence[Measured]) -> Table:
    """The scores of one run by layer, and beside them the mean over its untrained networks."""
    rows = []
    for name in dict.fromkeys(layer.layer for layer in layers):
        by_side = [[layer for layer in layers if (layer.layer, layer.sides) == (name, side)] for side in SIDES]
        trained = [f"{first.score.mean():.1f}{'*' if first.as_in_paper else ' '}" for first, *_ in by_side]
        untrained = [_over_seeds([layer.score.mean() for layer in others]) for _, *others in by_side if others]
        rare = " / ".join(str(first.score.rare.sum()) for first, *_ in by_side)
        rows.append([name, *trained, *untrained, rare])
    kinds = dict.fromkeys(layer.weights.partition(",")[0] for layer in layers)  # trained, and perhaps untrained
    scores = [Column(f"{kind}, {side}", ".1f") for kind in kinds for side in SIDES]
    return Table(["layer", *scores, "rare when trained"], rows, title)


def _over_seeds(scores: list[float]) -> PlusMinus:
    return PlusMinus(float(np.mean(scores)), float(np.std(scores, ddof=1)) if len(scores) > 1 else None)


def lines(runs: Sequence[Run], found: Found, side: str | None) -> dict[str, dict[str, float]]:
    """{label: {layer: score}} of each network, and of its untrained ones on average; `side` None is the paper's."""
    drawn: dict[str, dict[str, float]] = {}
    for run in runs:
        label = run.label + (f", {run.name}" if run.label in drawn else "")
        by_layer: dict[str, list[float]] = {}  # the trained network first
        for layer in found[run.name]:
            if layer.as_in_paper if side is None else layer.sides == side:
                by_layer.setdefault(layer.layer, []).append(layer.score.mean())
        drawn[label] = {name: trained for name, (trained, *_) in by_layer.items()}
        if any(others for _, *others in by_layer.values()):
            drawn[f"untrained {label}"] = {name: float(np.mean(others)) for name, (_, *others) in by_layer.items()}
    return drawn
