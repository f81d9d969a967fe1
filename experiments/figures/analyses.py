"""The charts of the analyses, drawn by matplotlib; without it, a message and no chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.figures.style import network_colour, new_figure, save_figure
from minicnn.analysis.correlation import Correlation
from minicnn.theory.pooled_maps import RegionBound

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # of networks of one kind, which share a colour; of layers
RANDOM = "tab:gray"  # what is compared with a network: random filters, other pairs
TRAINING, TEST = "tab:blue", "tab:red"
BINS = 25


def draw_pairing_histograms(
    path: Path, layers: Mapping[str, tuple[np.ndarray, np.ndarray, float]], *, label: str
) -> None:
    """One histogram of mu per layer: {name: (mu of the network, mu of random filters, p of the KS test)}.

    Each has the range of its own data: by the same range for all, deep layers would be a few bars.
    """
    columns = min(3 if len(layers) in (5, 6) else 4, len(layers))
    lines = -(-len(layers) // columns)
    figure = new_figure(path, 2.9 * columns, 2.3 * lines + 0.8)
    if figure is None:
        return
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (name, (mu, null, p)) in zip(grid, layers.items(), strict=False):
        mu, null = mu[np.isfinite(mu)], null.ravel()  # a filter of zeros has no mu
        bins = np.histogram_bin_edges(np.concatenate([mu, null]), BINS)
        for values, color in ((null, RANDOM), (mu, network_colour(label))):
            axes.hist(values, bins, weights=np.full(len(values), 1 / len(values)), color=color, alpha=0.5)
            axes.axvline(values.mean(), color=color, lw=1.2)
        test = "p < 1e-300" if p < 1e-300 else f"p = {p:.1g}"
        axes.set_title(
            f"{name}: mean {mu.mean():.3f}, random {null.mean():.3f}\n{len(mu)} filters, KS {test}", fontsize=8
        )
        axes.locator_params(axis="x", nbins=5)
        axes.tick_params(labelsize=8)
    for axes in grid[len(layers) :]:
        axes.set_axis_off()
    handles = [grid[0].patches[0], grid[0].patches[-1]]
    figure.legend(handles, ["random Gaussian filters", "the network"], fontsize=8, loc="outside upper right", ncols=2)
    figure.supxlabel("cosine mu of a filter with its pairing filter (-1: an exact negative)", fontsize=9)
    figure.supylabel("share of filters", fontsize=9)
    figure.suptitle(f"Cosine of each filter with its pairing filter: {label}", fontsize=10, x=0.01, ha="left")
    save_figure(figure, path, dpi=100)


def draw_correlations(path: Path, runs: Mapping[str, Mapping[str, Correlation]]) -> None:
    """Signed cosines per layer of each run, by label: pairs as dots, the middle 90 % of non-pairs as a bar."""
    figure = new_figure(path, 8, 3.1 * len(runs) + 0.4)
    if figure is None:
        return
    for axes, (label, layers) in zip(figure.subplots(len(runs), 1, squeeze=False).ravel(), runs.items(), strict=True):
        for i, found in enumerate(layers.values()):
            if len(found.non_pair):  # a single filter has none
                low, high = np.quantile(found.non_pair, (0.05, 0.95))
                axes.bar(i, high - low, 0.7, low, color=RANDOM, alpha=0.25)
            spread = 1.64 / np.sqrt(found.dimensions)
            axes.hlines((-spread, spread), i - 0.35, i + 0.35, color="black", lw=1, ls=":")
            x = i + np.linspace(-0.25, 0.25, len(found.pair))
            axes.plot(x, np.sort(found.pair), ".", ms=5, color=network_colour(label))
        axes.plot([], [], ".", color=network_colour(label), label="pairs: the two phases of a filter")
        axes.bar(0, 0, color=RANDOM, alpha=0.25, label="non-pairs, middle 90 %")
        axes.plot([], [], ":", color="black", label="random directions, middle 90 %")
        axes.axhline(0, color="grey", lw=0.8)
        axes.set_xticks(range(len(layers)), list(layers))
        axes.set(ylabel="cosine of outgoing weights", ylim=(-1, 1), title=label)
        axes.title.set_fontsize(9)
        axes.legend(fontsize=7, ncols=3, loc="lower center")
    figure.suptitle("Outgoing weights of the two phases of a filter: +1 is |x|, -1 is a linear unit", fontsize=10)
    save_figure(figure, path, dpi=100)


def draw_invariance(path: Path, panels: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Scores: {panel: {line: {layer: score}}}; a line whose label begins with "untrained" is thin and dashed."""
    figure = new_figure(path, 4 * len(panels), 4.1)
    if figure is None:
        return
    plots = figure.subplots(1, len(panels), sharey=True, squeeze=False).ravel()
    layers = max((scores for lines in panels.values() for scores in lines.values()), key=len)
    for axes, (title, lines) in zip(plots, panels.items(), strict=True):
        used: list[str] = []
        for label, scores in lines.items():
            control, colour = label.startswith("untrained"), network_colour(label.removeprefix("untrained "))
            marker = MARKERS[used.count(colour) % len(MARKERS)]
            style = {"ls": "--", "lw": 1, "alpha": 0.7} if control else {"marker": marker, "ms": 4}
            axes.plot(range(len(scores)), list(scores.values()), color=colour, label=label, **style)
            used += [] if control else [colour]
        axes.set_xticks(range(len(layers)), list(layers), rotation=45, fontsize=8)
        axes.set(xlabel="layer", title=title)
        axes.title.set_fontsize(9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower left")
    plots[0].set_ylim(0, 1.05 * plots[0].get_ylim()[1])
    plots[0].set_ylabel("invariance score L / G (100: never changes)")
    save_figure(figure, path, dpi=100)


def draw_gaps(path: Path, networks: Mapping[str, tuple[Sequence[float], Sequence[float], str]]) -> None:
    """Training and test error in percent: {label: (training errors, test errors, words about the gap)}.

    The means are joined by a line; behind them, pale, stand the single errors.
    """
    figure = new_figure(path, 7.5, 0.6 * len(networks) + 1.3)
    if figure is None:
        return
    axes = figure.subplots()
    for i, (train, test, words) in enumerate(networks.values()):
        ends = float(np.mean(train)), float(np.mean(test))
        axes.plot(ends, (i, i), color="grey", lw=2, zorder=1)
        kinds = (train, ends[0], "o", TRAINING, "training"), (test, ends[1], "s", TEST, "test")
        for errors, mean, mark, color, what in kinds:
            if len(errors) > 1:
                axes.plot(errors, [i] * len(errors), mark, color=color, ms=4, alpha=0.35, mew=0)
            axes.plot(mean, i, mark, color=color, label=None if i else what)
        axes.annotate(words, (sum(ends) / 2, i), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(networks)), list(networks), fontsize=8)
    largest = max(max(*train, *test) for train, test, _ in networks.values())
    axes.set(xlabel="error, %", xlim=(0, max(1.05 * largest, 1)), ylim=(len(networks) - 0.5, -0.6))
    figure.suptitle("Training and test error, and the gap between them", fontsize=10, x=0.01, ha="left")
    axes.grid(alpha=0.3, axis="x")
    figure.legend(fontsize=8, loc="outside upper right", ncols=2)
    save_figure(figure, path, dpi=100)


def draw_spectra(path: Path, panels: Mapping[str, Mapping[tuple[str, str], np.ndarray]]) -> None:
    """Singular values of each layer's filters over the largest: {network: {(layer, kind of filters): values}}."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(path, 4.4 * across + 0.6, 3.8 * down + 0.4)
    if figure is None:
        return
    plots = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat
    for axes, (label, layers) in zip(plots, panels.items(), strict=False):
        names = list(dict.fromkeys(layer for layer, _ in layers))
        for (layer, kind), values in layers.items():
            shown = values[values > 1e-7 * values[0]] / values[0]
            share = (np.arange(len(shown)) + 1) / len(values)  # of the dimensions of a window
            i = names.index(layer)
            marked = {"marker": MARKERS[i % len(MARKERS)], "ms": 4, "markevery": (0.02 * i, 0.16)}  # lines may coincide
            style, name, more = ("-", layer, marked) if kind == "trained" else (":", None, {})
            axes.loglog(share, shown, style, color=f"C{i}", lw=1.2, label=name, **more)
        axes.set(xlim=(5e-4, 1.1), ylim=(1e-4, 1.5), title=label)
        axes.title.set_fontsize(9)
        axes.grid(alpha=0.3)
    for axes in plots[len(panels) :]:
        axes.set_axis_off()
    for axes in plots[len(panels) - across : len(panels)]:  # the lowest of every column
        axes.set_xlabel("share of the dimensions of a window")
        axes.tick_params(labelbottom=True)
    for axes in plots[::across]:
        axes.set_ylabel("singular value / largest")
    figure.axes[0].legend(fontsize=8, loc="lower left")
    figure.suptitle(
        "Singular values of the filters; a line that ends at share 1 means that no direction of a window is lost\n"
        "trained filters: lines with marks; Gaussian ones: dots",
        fontsize=10,
    )
    save_figure(figure, path, dpi=100)


def draw_region_bounds(path: Path, layers: Mapping[str, Sequence[RegionBound]], *, title: str) -> None:
    """What pooling leaves of regions against the two bounds: the share 1 - ratio^2 that is recovered, on both axes."""
    figure = new_figure(path, 4.2 * len(layers) + 0.4, 4.0)
    if figure is None:
        return
    for axes, (name, found) in zip(figure.subplots(1, len(layers), squeeze=False)[0], layers.items(), strict=True):
        recovered = np.array([1 - one.ratio**2 for one in found])
        for bound, mark, label in (("shared", "o", "with mu"), ("unconditional", "x", "unconditional")):
            promised = np.array([1 - getattr(one, bound) ** 2 for one in found])
            axes.loglog(np.maximum(promised, 1e-12), np.maximum(recovered, 1e-12), mark, ms=4, mfc="none", label=label)
        low = axes.get_xlim()[0]
        axes.plot([low, 1], [low, 1], "k-", lw=1, label="no more than that")
        axes.set(xlabel="at least, by the bound", ylabel="recovered: 1 - ratio$^2$", title=name)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(f"{title}: energy of a region that survives max pooling", fontsize=10)
    save_figure(figure, path, dpi=100)
