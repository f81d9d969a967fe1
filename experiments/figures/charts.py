"""The charts of the report, as SVG to put into a page: learning curves, and differences with their intervals."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.figures.style import NETWORKS, network_colour, new_figure

STYLES = ("-", "--", ":", "-.")  # of networks of one kind, which share a colour
INK = "C7"  # of what is no network


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
    figure = new_figure(Path("learning curves"), 7, 3.4)
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
    figure = new_figure(Path("intervals"), 7, 0.42 * len(bars) + 0.9)
    if figure is None:
        return None
    axes = figure.subplots()
    for i, bar in enumerate(bars):
        ink = network_colour(bar.label) if bar.label.partition(" ")[0] in NETWORKS else INK
        if bar.low is not None and bar.high is not None:
            axes.plot((bar.low, bar.high), (i, i), color=ink, lw=2.5, solid_capstyle="round")
        axes.plot(bar.mean, i, "o", color=ink, mfc=ink if bar.low is not None else "none")
    axes.axvline(0, color="black", lw=1)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    words = f"\N{LEFTWARDS ARROW} {left}  ·  {x}  ·  {right} \N{RIGHTWARDS ARROW}" if left else x
    axes.set(xlabel=words, ylim=(len(bars) - 0.5, -0.5))
    axes.grid(alpha=0.3, axis="x")
    return _svg(figure)


def _svg(figure: Any) -> str:
    """The same text for the same figure, with words kept as text."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minicnn"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
