"""Images reconstructed from the features of CReLU layers, and the reconstruction ratios of pooled layers."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.images import batches, images_of, sample
from experiments.analyses.runner import Columns, Finding, PlusMinus, Request, announce_time, not_comparable, table
from experiments.cli.app import UsageError
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_region_bounds
from experiments.figures.sheets import Cell, draw_sheet
from experiments.tables.table import Column, Table
from experiments.train.run import Run
from minicnn.analysis.inversion import Step, crelu_steps, inputs, pooling_ratios, reconstruct
from minicnn.backend import to_host
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import Dataset
from minicnn.data.decode import read_whole
from minicnn.random import Stream
from minicnn.theory.monte_carlo import MonteCarlo
from minicnn.theory.reconstruction import METHODS, NotConverged, psnr, ratio
from minicnn.theory.subspace import random_filter_ratio
from reference.paper import TABLE_S1

LAYERS = ("conv1", "conv2", "conv3", "conv4")  # the default of --layers; a network may have fewer
BANKS, BATCH = 5, 50  # banks of random filters; images at a time
REGIONS = 40  # whose bounds are computed, per layer
SMALLEST = 8  # pixels: the shorter side of a picture
PAPER = {(row.label, row.dataset): f"{row.learned:.2f} / {row.random:.2f}" for row in TABLE_S1}


class Network(NamedTuple):
    """A run, the steps from the image to its last CReLU layer, and for each layer to show the steps up to it."""

    run: Run
    steps: list[Step]
    shown: list[list[Step]]
    normalise: Normaliser


class Original(NamedTuple):
    name: str
    pixels: np.ndarray  # (H, W, 3) uint8


class Picture(NamedTuple):
    """An image reconstructed from the features of one layer."""

    image: str
    layer: str
    method: str
    ratio: float
    psnr: float
    converged: bool  # every iteration on the way
    pixels: np.ndarray

    def row(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "pixels"}

    @property
    def unfinished(self) -> bool:
        """Whether more steps could improve it: an image that is exact in bytes is done, whatever the iteration says."""
        return not self.converged and not math.isinf(self.psnr)

    def cell(self) -> Cell:
        decibels = "exact" if math.isinf(self.psnr) else f"{self.psnr:.1f} dB"
        return Cell((self.pixels,), f"{self.ratio:.3f}{'*' if self.unfinished else ''}, {decibels}")


class Ratios(NamedTuple):
    """One pooled layer of one run: means, with standard errors over images and over banks of random filters."""

    run: str
    layer: str
    images: int
    learned: PlusMinus
    random: PlusMinus
    simulated: float
    dataset: str

    @property
    def paper(self) -> str | None:
        return PAPER.get((self.layer, self.dataset))


COLUMNS: Columns = {
    "run": "run",
    "layer": "layer",
    Column("learned", ".4f"): "learned",
    Column("random filters", ".4f"): "random",
    Column("simulated", ".3f"): "simulated",
    "paper learned / random": "paper",
}


def findings(request: Request) -> Iterator[Finding]:
    data = images_of(request.runs, request.args.data, 0 if request.args.image else request.args.count)
    images = chosen_images(request.args, data)
    networks = [network(run, request, data) for run in request.runs]  # all are checked before the work begins
    request.make_folder()
    if min(request.args.subset, len(data.test_images)) > BATCH:
        announce_time("the ratios; pictures take as long as least squares does", trials(networks, data, request))
    rows = []
    for of_run in networks:
        yield pictures(of_run, images, request)
        rows += ratios(of_run, data, request)
        yield from bounds(of_run, data, request)
    note = not_comparable(request.runs)
    if rows:
        behind = "± is the standard error over images (random: over banks of filters)."
        yield Finding([table(rows, COLUMNS), behind, note], {"ratios.csv": rows})
    else:
        yield Finding(["no ratios: no max pool follows these CReLU layers", note])


def network(run: Run, request: Request, data: Dataset) -> Network:
    steps = crelu_steps(run.model(request.device))
    if not steps:
        raise UsageError(f"{run.folder}: a network without CReLU after its first convolution ({run.label})")
    names, wanted = [step.name for step in steps], request.args.layers
    unknown = [name for name in wanted if name not in names]
    if unknown and wanted != LAYERS:
        raise UsageError(f"{run.folder}: no CReLU features at {', '.join(unknown)}; there are {', '.join(names)}")
    shown = [steps[: names.index(name) + 1] for name in wanted if name in names]
    return Network(run, steps, shown, run.normaliser(data))


def chosen_images(args: argparse.Namespace, data: Dataset) -> list[Original]:
    """The files that --image names, or test images."""
    if not args.image:
        chosen = sample(min(args.count, len(data.test_images)), len(data.test_images))
        return [Original(f"test image {i}", data.test_images[i]) for i in chosen]
    found = []
    for path in args.image:
        pixels = read_whole(path, args.size)
        height, width, _ = pixels.shape
        if min(height, width) < SMALLEST:
            raise UsageError(f"{path} is too small: {width}x{height} pixels; raise --size or choose a larger picture")
        found.append(Original(path.name, pixels))
    return found


def pictures(network: Network, images: Sequence[Original], request: Request) -> Finding:
    """A sheet with one line per image: the original, then its reconstructions."""
    run, kinds = network.run, [(steps, method) for method in METHODS for steps in network.shown]
    cells, found = [], []
    with Progress(len(images), f"{run.name}, pictures") as progress:
        for image in images:
            line = [reconstructed(image, steps, method, network.normalise, request) for steps, method in kinds]
            cells.append([Cell((image.pixels,), image.name), *(picture.cell() for picture in line)])
            found += line
            progress()
    heads = [f"{steps[-1].name}, {method}" for steps, method in kinds]
    means = [[head, np.mean([picture.ratio for picture in found[i :: len(kinds)]])] for i, head in enumerate(heads)]
    title, note = f"{run.label}: images from features, with ||x - x'|| / ||x|| and PSNR", ""
    if unfinished := sum(picture.unfinished for picture in found):
        title += " (*: least squares had not converged)"
        note = f"* {unfinished} of {len(found)} by least squares had not converged: they depend on when one stops"
    sheet = partial(draw_sheet, rows=cells, title=title, heads=["original", *heads], side=96)
    caption = f"{run.label}, {run.name}: {len(images)} images"
    return Finding(
        [Table(["from", Column("mean ratio", ".3f")], means, caption), note],
        {f"{run.name}-images.png": sheet, f"{run.name}-images.csv": [picture.row() for picture in found]},
    )


def reconstructed(image: Original, steps: list[Step], method: str, normalise: Normaliser, request: Request) -> Picture:
    """The picture that comes back from the features of the last step."""
    x = request.device.put(normalise(image.pixels[None]))
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", NotConverged)
            estimate = reconstruct(x, steps, method=method, iterations=request.args.iterations)
    except ValueError as error:  # a picture of the user's may be smaller than the filters
        raise UsageError(f"{image.name}: {error}") from None
    converged = not any(issubclass(warning.category, NotConverged) for warning in said)
    return compared(image, x, estimate, steps[-1].name, method, normalise, converged)


def compared(
    image: Original, x: Any, estimate: Any, layer: str, method: str, normalise: Normaliser, converged: bool
) -> Picture:
    """What came back of an image, beside it: x and the estimate are normalised, (1, H, W, 3)."""
    shown = to_host(estimate)[0] * np.array(normalise.std) + np.array(normalise.mean)
    pixels = np.rint(255 * np.clip(shown, 0, 1)).astype(np.uint8)
    decibels = psnr(image.pixels[None] / 255.0, pixels[None] / 255.0, peak=1.0)
    return Picture(image.name, layer, method, float(ratio(x, estimate)[0]), float(decibels[0]), converged, pixels)


def trials(
    networks: Sequence[Network], data: Dataset, request: Request
) -> Iterator[tuple[Callable[[], object], float]]:
    """For each layer whose ratios are measured: those of one batch, and how many there will be."""
    count = (1 + BANKS) * min(request.args.subset, len(data.test_images)) / BATCH
    for of_run in networks:
        x = request.device.put(of_run.normalise(data.test_images[:BATCH]))
        for i, step in enumerate(of_run.steps):
            if step.pool is not None:
                yield partial(pooling_ratios, x, of_run.steps[: i + 1], None), count


def ratios(network: Network, data: Dataset, request: Request) -> list[Ratios]:
    """Table S1: one row per layer that a max pool follows."""
    run, steps = network.run, network.steps
    pooled = [i for i, step in enumerate(steps) if step.pool is not None]
    if not pooled:
        return []
    size = len(data.test_images)
    images = data.test_images[sample(min(request.args.subset, size), size)]
    found = []
    with Progress(len(pooled) * (1 + BANKS) * len(images), f"{run.name}, ratios") as progress:

        def measure(steps: list[Step], w: Any = None) -> np.ndarray:
            """The ratio of every image, with filters w in place of the learned ones."""
            parts = []
            for batch in batches(images, network.normalise, BATCH):
                parts.append(to_host(pooling_ratios(request.device.put(batch), steps, w)))
                progress(len(batch))
            return np.concatenate(parts)

        for i in pooled:
            name, shape = steps[i].name, steps[i].layer.w.shape
            stream = Stream(0).child("random filters", name)
            learned = measure(steps[: i + 1])
            banks = (request.device.put(stream.at(b).generator().standard_normal(shape)) for b in range(BANKS))
            random = [measure(steps[: i + 1], bank).mean() for bank in banks]
            simulated = random_filter_ratio(
                MonteCarlo(BANKS, stream.child("simulated")), channels=shape[2], filters=shape[3], device=request.device
            )
            means = _over(learned), _over(random), simulated.value
            found.append(Ratios(run.name, name, len(images), *means, run.settings.dataset))
    return found


def bounds(network: Network, data: Dataset, request: Request) -> Iterator[Finding]:
    """For some regions of each pooled layer, without bias: what comes back, and the two bounds that always hold."""
    if not len(data.test_images):  # with pictures of the user's alone
        return
    run, rng = network.run, Stream(0).child("regions").generator()
    x = network.normalise(data.test_images[sample(min(REGIONS, len(data.test_images)), len(data.test_images))])
    drawn, rows = {}, []
    for i, step in enumerate(network.steps):
        if step.pool is None:
            continue
        before = inputs(request.device.put(x), network.steps[: i + 1])[0][-1]
        layer = step.pooled(step.layer.w)  # without its bias
        places = layer.patches(before[:1]).shape[1:3]
        if min(places) < 3:
            continue  # regions at the border see the padding
        inner = [tuple(rng.integers(1, n - 1, len(x))) for n in places]
        regions = [(n, int(p), int(q)) for n, (p, q) in enumerate(zip(*inner, strict=True))]
        found = layer.bounds(before, [region for region in regions if bool(layer.patches(before)[region].any())])
        rows += [{"run": run.name, "layer": step.name} | one._asdict() for one in found]
        drawn[step.name] = found
    if drawn:
        means = [
            [name, *(float(np.mean([one[j] for one in found])) for j in range(4)), max(one.mu for one in found)]
            for name, found in drawn.items()
        ]
        heads = [Column(head, ".4f") for head in ("ratio", "bound with mu", "unconditional", "share seen")]
        caption = f"{run.label}, {run.name}: {len(x)} regions without bias, and the bounds that need no assumption"
        yield Finding(
            [Table(["layer", *heads, "largest mu"], means, caption)],
            {
                f"{run.name}-bounds.csv": rows,
                f"{run.name}-bounds.png": partial(draw_region_bounds, layers=drawn, title=run.label),
            },
        )


def _over(values: Sequence[float] | np.ndarray) -> PlusMinus:
    """The mean with its standard error; a single value has none."""
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return PlusMinus(float(np.mean(values)), error, "se")
