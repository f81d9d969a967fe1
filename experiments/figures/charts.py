"""The charts of the report, as SVG to put into a page: learning curves, and differences with their intervals."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.figures.style import new_figure

STYLES = ("-", "--", ":", "-.")  # so that lines can be told apart without colours, too
INK = "tab:blue"


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
    for i, (label, line) in enumerate(lines.items()):
        colour = f"C{i}"
        axes.plot(*zip(*line.points, strict=True), STYLES[i % len(STYLES)], color=colour, label=label)
        axes.plot(*line.mark, "o", color=colour)
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return _svg(figure)


def interval_chart(bars: Sequence[Bar], *, x: str) -> str | None:
    """One row per bar: its mean as a dot, its interval as a line, and a line at 0; None where matplotlib is missing."""
    figure = new_figure(Path("intervals"), 7, 0.42 * len(bars) + 0.9)
    if figure is None:
        return None
    axes = figure.subplots()
    for i, bar in enumerate(bars):
        if bar.low is not None and bar.high is not None:
            axes.plot((bar.low, bar.high), (i, i), color=INK, lw=2.5, solid_capstyle="round")
        axes.plot(bar.mean, i, "o", color=INK, mfc=INK if bar.low is not None else "none")
    axes.axvline(0, color="black", lw=1)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    axes.set(xlabel=x, ylim=(len(bars) - 0.5, -0.5))
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
