"""Images from the features of deep layers, all layers at once, beside what comes back layer by layer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.images import images_of
from experiments.analyses.reconstruction import LAYERS, Original, Picture, chosen_images, compared, reconstructed
from experiments.analyses.runner import Columns, Finding, Request, not_comparable, table
from experiments.cli.app import UsageError, usage_errors
from experiments.cli.progress import Progress
from experiments.figures.sheets import Cell, draw_sheet
from experiments.tables.table import Column
from experiments.train.run import Run
from minicnn.analysis.inversion import Step, crelu_steps, joint_stages
from minicnn.data.augment import Normaliser
from minicnn.theory.joint import invert_jointly
from minicnn.theory.piecewise import Network, Stage
from minicnn.theory.reconstruction import METHODS


class Way(NamedTuple):
    """A way back from one layer."""

    layer: str
    method: str  # "region", "global", "joint" (no pool on the way, or with its switches), "joint, no switches"

    @property
    def head(self) -> str:
        return f"{self.layer}, {self.method}"


class Mean(NamedTuple):
    """One way back, over the images."""

    way: Way
    ratio: float
    psnr: float
    converged: int
    seconds: float  # of the processor, all threads together: the same on a machine that does other work, too
    known: float | None  # responses whose value is known, per number of the image; None layer by layer

    @property
    def head(self) -> str:
        return self.way.head


COLUMNS: Columns = {
    "from": "head",
    Column("known / pixel value", ".2f"): "known",
    Column("mean ratio", ".4f"): "ratio",
    Column("PSNR, dB", ".1f"): "psnr",
    "converged": "converged",
    Column("processor s per image", ".1f"): "seconds",
}


def findings(request: Request) -> Iterator[Finding]:
    data = images_of(request.runs, request.args.data, 0 if request.args.image else request.args.count)
    images = chosen_images(request.args, data)
    networks = [(run, stages_of(run, request), run.normaliser(data)) for run in request.runs]
    request.make_folder()
    rows: list[dict[str, Any]] = []
    for run, stages, normalise in networks:
        finding, more = of_run(run, stages, normalise, images, request)
        rows += more
        yield finding
    words = (
        "known: responses of the layer whose value the features tell, per number of the image.  joint behind a pool\n"
        "uses its switches, 'no switches' the features alone; converged: to 1e-4 of the features (joint)."
    )
    yield Finding([words, not_comparable(request.runs)], {"joint.csv": rows})


def stages_of(run: Run, request: Request) -> dict[str, Stage]:
    stages, wanted = joint_stages(run.model(request.device)), request.args.layers
    unknown = [name for name in wanted if name not in stages]
    if not stages or (unknown and wanted != LAYERS):
        there = ", ".join(stages) or "none: the network does not begin with a convolution and CReLU, ReLU or AVR"
        raise UsageError(f"{run.folder}: no features to invert at {', '.join(unknown or wanted)}; there are {there}")
    return stages


def ways_back(stages: dict[str, Stage], wanted: Sequence[str], by_layer: bool) -> list[Way]:
    """For each layer the methods that apply."""
    ways, pooled = [], False
    for name, stage in stages.items():
        if name in wanted:
            ways += [Way(name, method) for method in METHODS] if by_layer else []
            ways += [Way(name, "joint"), *([Way(name, "joint, no switches")] if pooled else [])]
        pooled |= stage.pool is not None
    return ways


def of_run(
    run: Run, stages: dict[str, Stage], normalise: Normaliser, images: Sequence[Original], request: Request
) -> tuple[Finding, list[dict[str, Any]]]:
    """A sheet with one line per image and method, the means as a table, and rows for the CSV file."""
    of_layers = crelu_steps(run.model(request.device))
    one_by_one = {step.name for step in of_layers} >= {name for name in request.args.layers if name in stages}
    ways = ways_back(stages, request.args.layers, one_by_one)
    cells, found = [], []
    with Progress(len(images) * len(ways), f"{run.name}, pictures", "picture") as progress:
        for image in images:
            line = []
            for way in ways:
                start = time.process_time()
                picture, known = picture_by(way, image, stages, of_layers, normalise, request)
                line.append((way, picture, time.process_time() - start, known))
                progress()
            cells += lines_of(image, {way: picture for way, picture, _, _ in line})
            found += line
    means = []
    for way in ways:
        _, made, seconds, known = zip(*(one for one in found if one[0] == way), strict=True)
        ratio, decibels = (float(np.mean([getattr(p, key) for p in made])) for key in ("ratio", "psnr"))
        done = sum(picture.converged for picture in made)
        means.append(Mean(way, ratio, decibels, done, float(np.mean(seconds)), known[0]))
    title = f"{run.label}: images from features, with ||x - x'|| / ||x|| and PSNR (*: not converged)"
    heads = ["original", *dict.fromkeys(way.layer for way in ways)]
    labels = len(images) * list(dict.fromkeys(way.method for way in ways))
    sheet = partial(draw_sheet, rows=cells, title=title, heads=heads, labels=labels, side=96)
    rows = [
        {"run": run.name, **picture.row(), "processor_seconds": round(seconds, 2), "known_per_pixel": known}
        for _, picture, seconds, known in found
    ]
    caption = f"{run.label}, {run.name}: {len(images)} images"
    return Finding([table(means, COLUMNS, caption)], {f"{run.name}-joint.png": sheet}), rows


def lines_of(image: Original, made: dict[Way, Picture]) -> list[list[Cell]]:
    """The lines of the sheet for one image: a line per method, a column per layer; empty where the method has none.

    The original is in the first line.
    """
    layers, methods = (list(dict.fromkeys(way[i] for way in made)) for i in range(2))
    of_way, empty = {way: picture.cell() for way, picture in made.items()}, Cell((), "")
    originals = [Cell((image.pixels,), image.name), *[empty] * (len(methods) - 1)]
    return [
        [original, *(of_way.get(Way(layer, method), empty) for layer in layers)]
        for original, method in zip(originals, methods, strict=True)
    ]


def picture_by(
    way: Way,
    image: Original,
    stages: dict[str, Stage],
    steps: list[Step],
    normalise: Normaliser,
    request: Request,
) -> tuple[Picture, float | None]:
    """The picture that comes back on one way, and how many responses were known per number of the image."""
    if way.method in METHODS:
        names = [step.name for step in steps]
        return reconstructed(image, steps[: names.index(way.layer) + 1], way.method, normalise, request), None
    with usage_errors():
        network = Network(list(stages.values())[: list(stages).index(way.layer) + 1], image.pixels.shape[:2])
    x = request.device.put(normalise(image.pixels[None]))
    known = network.features(x)
    told = 1.0 if stages[way.layer].activation != "relu" else float((known.y > 0).mean())
    mean, std = np.array(normalise.mean, x.dtype), np.array(normalise.std, x.dtype)
    low, high = (request.device.put((end - mean) / std) for end in (0, 1))
    given = known if way.method == "joint" else known._replace(switches=None)
    solved = invert_jointly(network, given, low=low, high=high, steps=request.args.steps)
    picture = compared(image, x, solved.x, way.layer, way.method, normalise, bool(solved.converged[0]))
    return picture, told * network.responses_per_number
