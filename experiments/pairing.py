"""Do filters come in pairs of opposite sign?  (The paper's Figures 1 to 3.)

For every convolution: the pairing filter of each filter (the one most opposed to it), their cosine mu, and beside it
mu of random Gaussian filters of the same shape.  Random filters have negative mu too, the more so the smaller they
are, so only the difference says something.  "cosine with start" is how far training has turned the filters: near 1
they are still the random ones that they were, and few pairs can have formed.

examples:
  python -m experiments.pairing --run runs/relu --run runs/crelu    two networks of ours: Figures 1 and 3
  python -m experiments.pairing --weights alexnet.npz    AlexNet: Figures 1 and 2
  python -m experiments.pairing --weights caffenet.npz --layout oihw --groups conv2=2,conv4=2,conv5=2    in groups

Writes for each source a folder with histograms.png, filters.png (first layer beside its pairing filters), pairing.csv
(a row a filter) and summary.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.analyses.runner import announce, out_folder, parser
from experiments.analyses.weights import LAYOUTS, read_filters
from experiments.cli.app import UsageError, get_device, run_main
from experiments.cli.files import write_csv, write_json
from experiments.cli.progress import Progress
from experiments.figures.analyses import draw_pairing_histograms
from experiments.figures.sheets import draw_pairs
from experiments.tables.table import Table
from experiments.train.run import open_runs
from minicnn.analysis.layers import convolutions
from minicnn.analysis.pairing import (
    QUANTILES,
    Comparison,
    Pairing,
    compare,
    cosine_with,
    expected_mu,
    pairing,
    random_mu,
)
from minicnn.backend import Device, to_host
from minicnn.nn import Sequential
from minicnn.random import Stream

MODULE = "experiments.pairing"


def main(arguments: list[str]) -> int:
    p = parser(MODULE, __doc__, needs_run=False)
    p.add_argument("--weights", type=Path, metavar="FILE", help=".npz, .safetensors or .pth file with filters")
    p.add_argument(
        "--layout", choices=LAYOUTS, help="of the axes in --weights: oihw (PyTorch), hwio (default: found by shape)"
    )
    p.add_argument(
        "--groups", type=_groups, default={}, metavar="NAME=N,...", help="grouped convolutions: compare within a group"
    )
    p.add_argument("--draws", type=int, default=20, help="banks of random filters (default 20)")
    p.add_argument("--seed", type=int, default=0, help="of the random filters (default 0)")
    args = p.parse_args(arguments)
    if not args.run and not args.weights:
        raise UsageError("nothing to look at: name a folder with --run or a file with --weights")
    if args.draws < 1 or args.seed < 0:
        raise UsageError(f"--draws must be positive and --seed not negative, got {args.draws} and {args.seed}")
    device = get_device(args.device)
    if args.dry_run:
        announce(
            args,
            MODULE,
            f"pair all filters, and {args.draws} banks of random ones, on {device}",
            ["<source>/histograms.png", "filters.png", "pairing.csv", "summary.json"],
        )
        return 0
    sources = []
    for run in open_runs(args.run):
        trained, start = _filters(run.model(device)), _filters(run.model(device, untrained=run.settings.seed))
        sources.append(Source(run.label, run.name, trained, start))
    if args.weights:
        name = args.weights.stem
        if name in [source.name for source in sources]:
            raise UsageError(f"--run and --weights are both called {name}, and each gets a folder: rename the file")
        sources.append(Source(name, name, read_filters(args.weights, args.layout)))
    names = list(dict.fromkeys(name for source in sources for name in source.layers))
    if unknown := set(args.groups) - set(names):
        raise UsageError(f"--groups names {', '.join(sorted(unknown))}; the layers are {', '.join(names)}")
    for source in sources:
        report(source, out_folder(args, MODULE) / source.name, args, device)
    return 0


class Source(NamedTuple):
    """Filters (kh, kw, C, K) by layer; of a run, also what they were before training."""

    label: str
    name: str
    layers: dict[str, np.ndarray]
    start: dict[str, np.ndarray] | None = None


def _filters(model: Sequential) -> dict[str, np.ndarray]:
    return {name: to_host(conv.weight.data) for name, conv in convolutions(model).items()}


def _groups(text: str) -> dict[str, int]:
    try:
        return {name: int(count) for name, count in (part.split("=") for part in text.split(",") if part)}
    except ValueError:
        raise argparse.ArgumentTypeError("expected names with numbers, such as conv2=2,conv4=2") from None


class Found(NamedTuple):
    """What was measured of a layer."""

    pairs: Pairing
    null: np.ndarray  # (draws, K): mu of random filters
    comparison: Comparison
    expected: float  # E mu of random directions
    kept: float | None  # the mean cosine of a filter with its start, where that is known


def report(source: Source, folder: Path, args: argparse.Namespace, device: Device) -> None:
    """Measure, print, write and draw one source."""
    folder.mkdir(parents=True, exist_ok=True)  # find out now whether it can be made
    found = {}
    with Progress(len(source.layers), source.label, "layer") as progress:
        for name in source.layers:
            found[name] = measure(source, name, args, device)
            progress()
    print(f"\n{source.label}\n\n{_table(source, found)}\n")
    write_json(folder / "summary.json", {name: _as_json(layer) for name, layer in found.items()})
    write_csv(folder / "pairing.csv", _filter_rows(found))
    draw(source, found, folder)
    print(f"saved in {folder}")


def measure(source: Source, name: str, args: argparse.Namespace, device: Device) -> Found:
    """A layer beside random filters of its shape."""
    w, groups = source.layers[name], args.groups.get(name, 1)
    stream = Stream(args.seed).child("random filters", name)
    try:
        pairs = pairing(device.put(w), groups=groups)
        null = random_mu(w.shape, groups=groups, draws=args.draws, stream=stream, device=device)
        comparison = compare(pairs.mu, null)
    except ValueError as error:
        raise UsageError(f"{name} {w.shape}: {error}") from None
    kept = None if source.start is None else float(np.nanmean(cosine_with(w, source.start[name])))
    return Found(pairs, null, comparison, expected_mu(w.shape[3] // groups, w[..., 0].size), kept)


def _table(source: Source, found: dict[str, Found]) -> str:
    rows = [
        [
            name,
            "x".join(map(str, source.layers[name].shape)),
            f"{layer.comparison.mean:.3f}",
            f"{layer.comparison.null_mean:.3f}",
            f"{layer.expected:.3f}",
            f"{layer.comparison.quantiles[QUANTILES.index(0.5)]:.3f}",
            f"{layer.comparison.ks:.2f}",
            f"{layer.comparison.p_value:.1g}",
            "-" if layer.kept is None else f"{layer.kept:.2f}",
        ]
        for name, layer in found.items()
    ]
    return Table(
        ["layer", "filters", "mean mu", "random", "expected", "median", "KS", "p", "cosine with start"], rows
    ).text()


def _as_json(layer: Found) -> dict[str, Any]:
    values = layer.comparison._asdict()
    for key in ("quantiles", "null_quantiles"):
        values[key] = {f"{q:g}": value for q, value in zip(QUANTILES, values[key], strict=True)}
    return values | {"cosine_with_start": layer.kept}


def _filter_rows(found: dict[str, Found]) -> list[dict[str, Any]]:
    return [
        {"layer": name, "filter": i, "pairing_filter": int(j), "mu": None if np.isnan(mu) else float(mu)}
        for name, layer in found.items()
        for i, (j, mu) in enumerate(zip(*layer.pairs, strict=True))
    ]


def draw(source: Source, found: dict[str, Found], folder: Path) -> None:
    """Histograms of all layers, and the pairs of the first if its filters can be seen."""
    draw_pairing_histograms(
        folder / "histograms.png",
        {
            name: (f.pairs.mu[np.isfinite(f.pairs.mu)], f.null.ravel(), f.comparison.p_value)
            for name, f in found.items()
        },
        title=f"Cosine of each filter with its pairing filter: {source.label}",
    )
    first, w = next(iter(source.layers.items()))
    if w.shape[2] in (1, 3):
        title = f"{source.label}, {first}: each filter (left) and its pairing filter (right), by their cosine"
        draw_pairs(folder / "filters.png", w, found[first].pairs, title=title)


if __name__ == "__main__":
    run_main(main, MODULE)
