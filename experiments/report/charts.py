"""Charts as inline SVG: they take the colours of the page, and scale with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.tables.html import Html, tag

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 14, 52  # margins
STYLES = 8  # kinds of lines in style.css: .line0, .line1, ...
ROW = 46  # height of a bar with its label


class Line(NamedTuple):
    """Points (x, y), and one at the end that is marked, such as a test error."""

    points: Sequence[tuple[float, float]]
    mark: tuple[float, float]


class Bar(NamedTuple):
    """A mean with an interval, or without."""

    label: str
    mean: float
    low: float | None
    high: float | None


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, at steps of 1, 2 or 5 times a power of ten."""
    span = max(high - low, 1e-9)
    step = 10 ** math.floor(math.log10(span / most))
    step = next(step * k for k in (1, 2, 5, 10, 20) if span / (step * k) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def line_chart(title: str, lines: Mapping[str, Line], *, x: str, y: str) -> Html:
    """Lines by label, y from 0; the legend is below, in words of the page."""
    points = [p for line in lines.values() for p in (*line.points, line.mark)]
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    top = 1.05 * max(p[1] for p in points) or 1.0
    span = max(right - left, 1e-9)

    def at(p: tuple[float, float]) -> tuple[float, float]:
        """From data to pixels."""
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * (p[0] - left) / span,
            TOP + (HEIGHT - TOP - BOTTOM) * (1 - p[1] / top),
        )

    marks = []
    for value in ticks(0, top):
        _, height = at((left, value))
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_px(height), y2=_px(height), class_="grid"))
        marks.append(tag("text", f"{value:g}", x=LEFT - 8, y=_px(height + 4), class_="end"))
    for value in ticks(left, right, 10):
        if value == int(value):
            marks.append(tag("text", f"{value:g}", x=_px(at((value, 0))[0]), y=HEIGHT - BOTTOM + 20, class_="middle"))
    marks.append(tag("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="middle"))
    marks.append(tag("text", y, x=16, y=HEIGHT / 2, class_="middle", transform=f"rotate(-90 16 {HEIGHT / 2:g})"))
    for i, line in enumerate(lines.values()):
        drawn = " ".join(f"{_px(a)},{_px(b)}" for a, b in map(at, line.points))
        marks.append(tag("polyline", points=drawn, class_=f"line line{i % STYLES}"))
        a, b = at(line.mark)
        marks.append(tag("circle", cx=_px(a), cy=_px(b), r=5, class_=f"dot dot{i % STYLES}"))
    return tag("figure", _svg(title, HEIGHT, marks), _legend(list(lines)), tag("figcaption", title))


def _legend(labels: Sequence[str]) -> Html:
    items = []
    for i, label in enumerate(labels):
        sample = tag("line", x1=0, x2=28, y1=6, y2=6, class_=f"line line{i % STYLES}")
        items.append(tag("li", tag("svg", sample, viewBox="0 0 28 12", class_="sample", aria_hidden="true"), label))
    return tag("ul", items, class_="legend")


def interval_chart(title: str, bars: Sequence[Bar], *, x: str) -> Html:
    """A row for each: its mean as a dot, its interval as a line, and where 0 is."""
    ends = [v for bar in bars for v in (bar.mean, bar.low, bar.high, 0.0) if v is not None]
    reach = max(ends) - min(ends) or 1.0
    low, high = min(ends) - 0.08 * reach, max(ends) + 0.08 * reach
    height = ROW * len(bars) + BOTTOM + TOP

    def at(value: float) -> str:
        return _px(24 + (WIDTH - 48) * (value - low) / (high - low))

    bottom = height - BOTTOM
    marks = []
    for value in ticks(low, high, 8):
        kind = "zero" if value == 0 else "grid"
        marks.append(tag("line", x1=at(value), x2=at(value), y1=TOP, y2=bottom, class_=kind))
        marks.append(tag("text", f"{value:+g}" if value else "0", x=at(value), y=bottom + 20, class_="middle"))
    for i, bar in enumerate(bars):
        y = TOP + ROW * i + 32
        marks.append(tag("text", bar.label, x=24, y=y - 13))
        if bar.low is not None and bar.high is not None:
            marks.append(tag("line", x1=at(bar.low), x2=at(bar.high), y1=y, y2=y, class_="interval"))
        marks.append(tag("circle", cx=at(bar.mean), cy=y, r=5, class_="dot0" if bar.low is not None else "hollow"))
    marks.append(tag("text", x, x=WIDTH / 2, y=height - 6, class_="middle"))
    return tag("figure", _svg(title, height, marks), tag("figcaption", title))


def _svg(title: str, height: float, marks: Sequence[Html]) -> Html:
    return tag(
        "svg", marks, viewBox=f"0 0 {WIDTH} {height:g}", role="img", aria_label=title, class_="chart",
        preserveAspectRatio="xMidYMid meet",
    )  # fmt: skip


def _px(value: float) -> str:
    """Pixels, short."""
    return f"{value:.1f}"
