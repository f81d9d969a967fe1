"""Which layers of a network are injective, and how stable their inverse is, beside random filters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.images import batches, images_of, sample
from experiments.analyses.runner import Columns, Finding, Request, not_comparable, table
from experiments.cli.app import UsageError, usage_errors
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_spectra
from experiments.tables.table import Column
from experiments.train.run import Run
from minicnn.analysis.layers import FilterLayer, filter_layers, leaves
from minicnn.backend import to_host
from minicnn.data.dataset import Dataset
from minicnn.nn import AVR, Conv2d, ReLU, Sequential
from minicnn.ops.windows import Windows, unfold
from minicnn.random import Stream
from minicnn.theory import injectivity


class Seen(NamedTuple):
    """What a layer was seen to do with the test images."""

    windows: np.ndarray  # (N, D): some of what its windows saw
    size: tuple[int, int]  # of the maps that enter
    known: float  # responses whose value is known behind the activation, per image


class Row(NamedTuple):
    """One layer, with its own filters or with Gaussian ones."""

    run: str
    filters: str  # "trained" or "random"
    layer: str
    activation: str
    D: int  # numbers in a window
    K: int
    rank: int
    injective: str
    why: str
    largest: float  # singular value
    least: float  # the least that is not 0
    kappa: float | None  # of one window, exact for CReLU; None where only bounds are known
    torus: float  # CReLU's kappa of all windows together, 0 if they do not determine the map
    spans: float  # the share of windows at which the filters with known responses span
    known_per_number: float  # responses with known values, per number that enters the layer
    known_per_pixel: float  # the same per number of the image
    spectrum: np.ndarray

    @property
    def shape(self) -> str:
        return f"{self.D} x {self.K}"

    @property
    def stretch(self) -> float:
        """How many times longer than an error of the responses one of the window can be, where filters see it."""
        return self.largest / self.least

    def row(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "spectrum"}


COLUMNS: Columns = {
    "layer": "layer",
    "filters": "filters",
    "D x K": "shape",
    "rank": "rank",
    "one window": "injective",
    Column("largest / least", ".3g"): "stretch",
    Column("kappa", ".3g"): "kappa",
    Column("all windows", ".2g"): "torus",
    Column("windows that span", ".0%"): "spans",
    Column("known / number", ".2f"): "known_per_number",
    Column("known / pixel value", ".2f"): "known_per_pixel",
}


def findings(request: Request) -> Iterator[Finding]:
    data = images_of(request.runs, request.args.data, request.args.subset)
    request.make_folder()
    rows: list[Row] = []
    for run in request.runs:
        found = list(measure(run, data, request))
        rows += found
        yield Finding([table(found, COLUMNS, f"{run.label}, {run.name} ({found[0].activation})")])
    labels = [run.label for run in request.runs]
    titles = labels if len(set(labels)) == len(labels) else [run.name for run in request.runs]
    drawn = {
        title: {(row.layer, row.filters): row.spectrum for row in rows if row.run == run.name}
        for title, run in zip(titles, request.runs, strict=True)
    }
    files = {
        "injectivity.csv": [row.row() for row in rows],
        "injectivity.png": partial(draw_spectra, panels=drawn),
    }
    words = (
        "one window: whether its features determine it, without bias (AVR: up to its sign).  largest / least: of the\n"
        "singular values that are not 0: how much longer errors can become.  kappa: CReLU's lower\n"
        "Lipschitz constant of a window; all windows: the same for the whole map, on a torus; 0: not injective.\n"
        "known: responses whose value the activation keeps, on the test images; below 1, something is lost there."
    )
    yield Finding([words, not_comparable(request.runs)], files)


def measure(run: Run, data: Dataset, request: Request) -> Iterator[Row]:
    """All layers, each with its own filters and with random ones."""
    model = run.model(request.device)
    layers = {layer.name: layer for layer in filter_layers(model) if _name(layer) is not None}
    if not layers:
        raise UsageError(f"{run.folder}: no convolution with ReLU, AVR or CReLU ({run.label})")
    size = len(data.test_images)
    images = data.test_images[sample(min(request.args.subset, size), size)]
    seen = look(model, layers, next(batches(images, run.normaliser(data), len(images))), request)
    pixels = int(np.prod(images.shape[1:]))
    with usage_errors(), Progress(2 * len(layers), run.name, "layer") as progress:
        for name, layer in layers.items():
            w = to_host(layer.conv.weight.data).astype(np.float64)
            gaussian = Stream(request.args.seed).child("random filters", name).generator().standard_normal(w.shape)
            gaussian *= np.linalg.norm(w) / np.linalg.norm(gaussian)
            bias = None if layer.conv.bias is None else to_host(layer.conv.bias.data).astype(np.float64)
            for kind, filters, b in (("trained", w, bias), ("random", gaussian, None)):
                yield _row(run.name, kind, layer, filters, b, seen[name], pixels)
                progress()


def _row(run: str, kind: str, layer: FilterLayer, w: np.ndarray, b: np.ndarray | None, seen: Seen, pixels: int) -> Row:
    activation = _name(layer) or ""
    W = w.reshape(-1, w.shape[3])
    single = W.astype(np.float32)  # the precision of the network decides what counts as zero
    rank, spectrum = injectivity.rank(single), injectivity.spectrum(W)
    decided = injectivity.verdict(single, activation)
    entering = seen.size[0] * seen.size[1] * w.shape[2]
    known = seen.known if kind == "trained" else None
    if activation == "relu":
        spans = float((injectivity.local_constants(W, b, seen.windows) > 0).mean())
        known = float(injectivity.firing(W, b, seen.windows).mean()) if known is None else known
    else:
        spans, known = float(rank == len(W)), 1.0
    responses = known * _responses(layer.conv, seen.size)
    return Row(
        run,
        kind,
        layer.name,
        activation,
        *W.shape,
        rank,
        *decided,
        float(spectrum[0]),
        float(spectrum[rank - 1]),
        injectivity.crelu_constants(single).lower if activation == "crelu" else None,
        injectivity.torus_constants(w.astype(np.float32), seen.size).lower,
        spans,
        responses / entering,
        responses / pixels,
        spectrum,
    )


def look(model: Sequential, layers: dict[str, FilterLayer], x: np.ndarray, request: Request) -> dict[str, Seen]:
    """What enters each layer for normalised images x, and the share of its responses that are known."""
    rng = Stream(request.args.seed).child("windows").generator()
    names = [path for path, _ in leaves(model)]
    wanted = {names[i - 1] if i else "": name for i, name in enumerate(names) if name in layers}
    found: dict[str, Seen] = {}
    outputs = [("", request.device.put(x)), *model.trace(request.device.put(x))]
    responses = dict(outputs)
    for path, y in outputs:
        if path in wanted:
            layer = layers[wanted[path]]
            maps = to_host(y).astype(np.float64)
            z = to_host(responses[layer.source])
            known = float((z >= 0).mean()) if isinstance(layer.act, ReLU) else 1.0
            found[layer.name] = Seen(_windows(layer.conv, maps, request.args.windows, rng), maps.shape[1:3], known)
    return found


def _windows(conv: Conv2d, maps: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` windows of maps (N, H, W, C), drawn at random, as the convolution sees them: (count, D)."""
    over = Windows.over("injectivity", maps, conv.weight.shape[:2], conv.stride, conv.pad)
    views = unfold(maps, over)  # (N, OH, OW, kh, kw, C)
    at = tuple(rng.integers(0, n, count) for n in views.shape[:3])
    return np.ascontiguousarray(views[at]).reshape(count, -1)


def _responses(conv: Conv2d, size: tuple[int, int]) -> int:
    kernel = conv.weight.shape
    over = Windows.over("injectivity", np.empty((1, *size, kernel[2]), np.float32), kernel[:2], conv.stride, conv.pad)
    return over.out[0] * over.out[1] * kernel[3]


def _name(layer: FilterLayer) -> str | None:
    """crelu, relu or avr; None for other activations, and behind batch normalisation."""
    if layer.source != layer.name:
        return None
    if layer.is_crelu:
        return "crelu"
    return {ReLU: "relu", AVR: "avr"}.get(type(layer.act))
