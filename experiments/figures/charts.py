"""The charts of the report, as SVG to put into a page: learning curves, and means with their intervals."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.figures.style import NETWORKS, network_colour, new_figure

STYLES = ("-", "--", ":", "-.")  # of networks of one kind, which share a colour
INK = "C7"  # of what is no network
WIDTH = 5.5  # inches: narrow, so that letters are large enough on a phone


class Line(NamedTuple):
    """Points (x, y), and a marked one at the end, such as a test error."""

    points: Sequence[tuple[float, float]]
    mark: tuple[float, float]


class Bar(NamedTuple):
    """A mean, with or without an interval."""

    label: str
    mean: float
    low: float | None
    high: float | None


def line_chart(lines: Mapping[str, Line], *, x: str, y: str) -> str | None:
    """Lines by label, y from 0; None where matplotlib is missing."""
    figure = new_figure(Path("learning curves"), WIDTH, 3.1)
    if figure is None:
        return None
    axes = figure.subplots()
    used: list[str] = []
    for label, line in lines.items():
        colour = network_colour(label)
        style = STYLES[used.count(colour) % len(STYLES)]
        used.append(colour)
        axes.plot(*zip(*line.points, strict=True), style, color=colour, label=label)
        axes.plot(*line.mark, "o", color=colour)
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return _svg(figure)


def interval_chart(bars: Sequence[Bar], *, x: str, left: str = "", right: str = "") -> str | None:
    """One row per bar: its mean as a dot, its interval as a line, and a line at 0; None where matplotlib is missing.

    left, right    what lies on either side of 0, such as "better" and "worse"
    """
    figure = new_figure(Path("intervals"), WIDTH, 0.36 * len(bars) + 0.8)
    if figure is None:
        return None
    axes = figure.subplots()
    for i, bar in enumerate(bars):
        ink = _ink(bar.label)
        if bar.low is not None and bar.high is not None:
            axes.plot((bar.low, bar.high), (i, i), color=ink, lw=2.5, solid_capstyle="round")
        axes.plot(bar.mean, i, "o", color=ink, mfc=ink if bar.low is not None else "none")
    axes.axvline(0, color="black", lw=1)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    words = f"\N{LEFTWARDS ARROW} {left}  ·  {x}  ·  {right} \N{RIGHTWARDS ARROW}" if left else x
    axes.set(xlabel=words, ylim=(len(bars) - 0.5, -0.5))
    axes.grid(alpha=0.3, axis="x")
    return _svg(figure)


def depth_chart(lines: Mapping[str, Sequence[Bar]], *, y: str) -> str | None:
    """Lines by label, each from layer to layer, with intervals; None where matplotlib is missing.

    A bar is the mean of one layer, which is its label.
    """
    figure = new_figure(Path("by layer"), WIDTH, 3.1)
    if figure is None:
        return None
    axes = figure.subplots()
    layers = list(dict.fromkeys(bar.label for bars in lines.values() for bar in bars))
    used: list[str] = []
    for i, (label, bars) in enumerate(lines.items()):
        ink, beside = _ink(label), 0.12 * (i - (len(lines) - 1) / 2)  # so that intervals do not hide each other
        at = [layers.index(bar.label) + beside for bar in bars]
        known = [(x, bar) for x, bar in zip(at, bars, strict=True) if bar.low is not None]
        filled = ink if known else "none"
        style = STYLES[used.count(ink) % len(STYLES)]
        axes.plot(at, [bar.mean for bar in bars], f"o{style}", color=ink, mfc=filled, ms=4, lw=1.2, label=label)
        axes.vlines([x for x, _ in known], [b.low for _, b in known], [b.high for _, b in known], color=ink, lw=2.5)
        used.append(ink)
    axes.axhline(0, color="black", lw=1)
    axes.set_xticks(range(len(layers)), layers, fontsize=8)
    axes.set(ylabel=y)
    axes.grid(alpha=0.3, axis="y")
    figure.legend(fontsize=8, loc="outside upper right", ncols=2)
    return _svg(figure)


def _ink(label: str) -> str:
    return network_colour(label) if label.partition(" ")[0] in NETWORKS else INK


def _svg(figure: Any) -> str:
    """The same text for the same figure, with words kept as text."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minicnn"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
