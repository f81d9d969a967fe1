"""Convolution, CReLU and max pooling of a short signal, computed by the operations of minicnn and drawn as SVG.

The SVG is written by hand, not by matplotlib: every number in it has an id, by which a test finds and checks it, the
file has a title and a description for readers who cannot see it, and the same numbers always give the same bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from minicnn.ops import conv2d, crelu, max_pool2d, max_pool2d_switches
from minicnn.theory.frames import shift_matrix

SIGNAL = (2, 3, 1, -2, -1, 0, 2, 1)
FILTERS = ((1, 0, -1), (-1, 2, -1))  # a difference and a bump
K, SHIFTS = len(FILTERS), len(SIGNAL) - len(FILTERS[0]) + 1
REGION = 3  # shifts in a pooling region

INK, GREY, FAINT, LINE = "#1d2733", "#5b6672", "#eef1f4", "#cfd6dd"
PLUS, MINUS = "#0b5cad", "#b3410a"  # the positive and the negative phase, also for colour-blind readers
COLOURS = (PLUS, MINUS)
PALE = {PLUS: "#dcebfa", MINUS: "#fbe6da"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"

ROW, CELL = 30, 38  # height of a row; width of a cell of the matrix
MATRIX, RESPONSES, PHASES, POOLED = 136, 500, (690, 754), 946  # left edges
TOP = 232  # of the first row
HEADS = 96  # baseline of the headings
UNIT = 11  # length of a bar that stands for 1

DESCRIPTION = (
    f"A signal of {len(SIGNAL)} numbers, all {SHIFTS} shifts of {K} filters as the rows of a matrix, their responses, "
    "the positive and the negative half that CReLU makes of each, and the largest of each half in regions of "
    f"{REGION} shifts, with the shift where it was found."
)
CAPTION = (
    "Outlined rows of W\u1d40 are the shifts that survive pooling, the columns of the paper's \u0174\u2093. "
    "Blue: the positive phase; orange: the negative one.",
    "Grey boxes are pooling regions. A pooled 0 has no switch: in that phase no shift of the region was active.",
)


class Layer(NamedTuple):
    """What happens to the signal.  R regions; on the last axis of `halves` and below: 2 K."""

    W: np.ndarray  # (D, K SHIFTS): one column per shift of a filter
    z: np.ndarray  # (SHIFTS, K)
    halves: np.ndarray  # (SHIFTS, 2 K): first the positive phases, then the negative ones
    pooled: np.ndarray  # (R, 2 K)
    switches: np.ndarray  # (R, 2 K): the shift at which the maximum was found, in all SHIFTS


def compute() -> Layer:
    """The signal as an image of height 1, through the operations that networks use."""
    x = np.array(SIGNAL, float).reshape(1, 1, -1, 1)  # (N, H, W, C)
    w = np.array(FILTERS, float).T  # (l, K)
    z = conv2d(x, w.reshape(1, -1, 1, K))  # (1, 1, SHIFTS, K)
    halves = crelu(z)  # (1, 1, SHIFTS, 2 K)
    pooled, switches = (pool(halves, k=(1, REGION))[0, 0] for pool in (max_pool2d, max_pool2d_switches))
    switches = switches + REGION * np.arange(len(switches))[:, None]
    return Layer(shift_matrix(w, len(SIGNAL)), z[0, 0], halves[0, 0], pooled, switches)


def winners(layer: Layer) -> list[tuple[int, int, int, int]]:
    """(filter, region, shift, phase) of every pooled value that is not 0; phase 0 is positive, 1 negative."""
    found = np.argwhere(layer.pooled > 0).tolist()
    return [(column % K, region, int(layer.switches[region, column]), column // K) for region, column in found]


class Drawing:
    """Lines of an SVG file, in the order in which the shapes are drawn; styles have the names of SVG, with _ for -."""

    def __init__(self, width: int, height: int, title: str, description: str):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-labelledby="title description" font-family={quoteattr(FONT)}>',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
        ]
        self.rect(0, 0, width, height, fill="#ffffff", rx=14)

    def add(self, element: str, words: str | None = None, /, **attributes: Any) -> None:
        """One element; an attribute that is None is left out."""
        given = {name.replace("_", "-"): value for name, value in attributes.items() if value is not None}
        shown = [f"{name}={quoteattr(v if isinstance(v, str) else f'{v:g}')}" for name, v in given.items()]
        end = "/>" if words is None else f">{escape(words)}</{element}>"
        self.lines.append(f"<{' '.join([element, *shown])}{end}")

    def rect(self, left: float, top: float, width: float, height: float, **style: Any) -> None:
        look = {"rx": 0, "fill": "none", "stroke": "none", "stroke_width": 1} | style
        self.add("rect", x=left, y=top, width=width, height=height, **look)

    def bar(self, left: float, top: float, width: float, height: float, *, positive: bool) -> None:
        self.rect(left, top, width, height, fill=PLUS if positive else MINUS, rx=2)

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=LINE)

    def curve(self, x1: float, y1: float, turn: float, x2: float, y2: float, stroke: str) -> None:
        """From (x1, y1) level to x = turn, then gently to (x2, y2)."""
        bend = (turn + x2) / 2
        path = f"M{x1:g} {y1:g}H{turn:g}C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}"
        self.add("path", d=path, fill="none", stroke=stroke, stroke_width=2)

    def text(self, left: float, base: float, words: str | float, name: str | None = None, **style: Any) -> None:
        """Words, or a number, on a baseline; `name` is an id by which they are found."""
        if not isinstance(words, str):
            words = f"{words:g}".replace("-", "\N{MINUS SIGN}")
        look = {"font_size": 14, "font_weight": 400, "fill": INK, "text_anchor": "start"} | style
        self.add("text", words, id=name, x=left, y=base, **look)


def top(i: int, j: int) -> float:
    """The upper edge of the row of filter i, shift j: a gap between regions, a larger one between filters."""
    return TOP + (i * SHIFTS + j) * ROW + 12 * (i * (SHIFTS // REGION) + j // REGION) + 20 * i


def place(i: int, region: int, phase: int) -> float:
    """The upper edge of a pooled value: two in the middle of a region."""
    first, last = top(i, region * REGION), top(i, region * REGION + REGION - 1) + ROW
    return (first + last) / 2 - 38 + 38 * phase


def draw(layer: Layer) -> str:
    bottom = top(K - 1, SHIFTS - 1) + ROW
    d = Drawing(1200, int(bottom) + 76, "Convolution, CReLU and max pooling of a short signal", DESCRIPTION)
    d.text(40, 46, "What a CReLU layer with max pooling keeps of a signal", font_size=22, font_weight=600)
    for line, words in enumerate(CAPTION):
        d.text(40, bottom + 38 + 21 * line, words, fill=GREY)
    for part in (draw_links, draw_matrix, draw_responses, draw_halves, draw_pooled):
        part(d, layer)
    return "\n".join([*d.lines, "</svg>", ""])


def heading(d: Drawing, left: float, step: int, title: str, formula: str) -> None:
    d.add("circle", cx=left + 11, cy=HEADS - 5, r=11, fill=INK)
    d.text(left + 11, HEADS, str(step), text_anchor="middle", font_weight=600, font_size=13, fill="#ffffff")
    d.text(left + 30, HEADS, title, font_weight=600, font_size=15)
    d.text(left + 30, HEADS + 21, formula, fill=GREY)


def draw_links(d: Drawing, layer: Layer) -> None:
    """Regions in the background, and a line from each winner to its pooled value; cells are drawn over them."""
    for i, region in np.ndindex(K, SHIFTS // REGION):
        d.rect(PHASES[0] - 8, top(i, region * REGION) - 5, 136, REGION * ROW + 8, fill=FAINT, rx=8)
    for i, region, shift, phase in winners(layer):
        start, end = top(i, shift) + ROW / 2 - 1, place(i, region, phase) + 16
        d.curve(PHASES[phase] + 56, start, PHASES[1] + 62, POOLED, end, COLOURS[phase])


def draw_matrix(d: Drawing, layer: Layer) -> None:
    """The signal as bars over the columns that it is multiplied with; below, one row per shift."""
    d.text(40, HEADS, "A signal x, and all shifts of two filters: W\u1d40", font_weight=600, font_size=15)
    zero, length = 158, len(FILTERS[0])
    for k, value in enumerate(SIGNAL):
        left, height = MATRIX + k * CELL, UNIT * abs(value)
        d.bar(left + 9, zero - height if value > 0 else zero, CELL - 18, height, positive=value > 0)
        d.text(left + CELL / 2, 211, value, text_anchor="middle", font_weight=600, name=f"x-{k + 1}")
    d.line(MATRIX, zero, MATRIX + len(SIGNAL) * CELL, zero)
    d.text(MATRIX - 12, 211, "x", text_anchor="end", font_weight=600)
    selected = {(i, shift): COLOURS[phase] for i, _, shift, phase in winners(layer)}
    for i, j in np.ndindex(K, SHIFTS):
        y = top(i, j)
        d.text(MATRIX - 12, y + 20, f"filter {i + 1}, shift {j + 1}", text_anchor="end", fill=GREY, font_size=12)
        for k, value in enumerate(layer.W[:, i * SHIFTS + j]):
            inside, colour = j <= k < j + length, PLUS if value > 0 else MINUS
            fill = PALE[colour] if value else "#f6f7f9" if inside else "none"
            d.rect(MATRIX + k * CELL, y, CELL, ROW - 2, fill=fill, stroke=LINE if inside else FAINT)
            if inside:
                ink = colour if value else GREY
                d.text(MATRIX + (k + 0.5) * CELL, y + 20, value, text_anchor="middle", fill=ink)
        if (i, j) in selected:
            d.rect(MATRIX + j * CELL, y, length * CELL, ROW - 2, stroke=selected[i, j], stroke_width=2.5, rx=3)


def draw_responses(d: Drawing, layer: Layer) -> None:
    heading(d, RESPONSES - 12, 1, "Convolution", "z = W\u1d40x")
    middle = RESPONSES + 48
    for i in range(K):
        d.line(middle, top(i, 0) - 2, middle, top(i, SHIFTS - 1) + ROW)
    for (j, i), value in np.ndenumerate(layer.z):
        y, width = top(i, j), UNIT * abs(value)
        d.bar(middle if value > 0 else middle - width, y + 6, width, ROW - 14, positive=value > 0)
        d.text(RESPONSES + 146, y + 20, value, text_anchor="end", font_weight=600, name=f"z-{i + 1}-{j + 1}")


def box(d: Drawing, left: float, y: float, height: float, value: float, phase: int, kept: bool, **text: Any) -> None:
    """A number in the colour of its phase, grey if it is 0; outlined if max pooling keeps it."""
    colour = COLOURS[phase]
    outline = {"stroke": colour, "stroke_width": 2.5} if kept else {"stroke": LINE}
    d.rect(left, y, 56, height, fill=PALE[colour] if value else "#ffffff", rx=4, **outline)
    ink = {"font_weight": 600, "fill": colour} if value else {"fill": GREY}
    d.text(left + 28, y + height / 2 + 6, value, text_anchor="middle", **ink, **text)


def draw_halves(d: Drawing, layer: Layer) -> None:
    heading(d, PHASES[0] - 6, 2, "CReLU", "[z]\u208a and [\u2212z]\u208a")
    won = {(i, shift, phase) for i, _, shift, phase in winners(layer)}
    for (j, column), value in np.ndenumerate(layer.halves):
        phase, i = divmod(column, K)
        name = f"{'pq'[phase]}-{i + 1}-{j + 1}"
        box(d, PHASES[phase], top(i, j), ROW - 2, value, phase, (i, j, phase) in won, name=name)


def draw_pooled(d: Drawing, layer: Layer) -> None:
    heading(d, POOLED - 6, 3, "Max pooling", f"largest of {REGION}, and its switch")
    for (region, column), value in np.ndenumerate(layer.pooled):
        phase, i = divmod(column, K)
        y, name = place(i, region, phase), f"{'pq'[phase]}-{i + 1}-{region + 1}"
        box(d, POOLED, y, 32, value, phase, value > 0, name=f"pooled-{name}", font_size=16)
        switch = f"shift {layer.switches[region, column] + 1}" if value else "no switch"
        d.text(POOLED + 70, y + 21, switch, fill=INK if value else GREY, name=f"switch-{name}")
