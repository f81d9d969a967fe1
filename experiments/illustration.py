"""Draw convolution, CReLU and max pooling of a short signal: the paper's illustration (section S1.2) with real numbers.

examples:
  python -m experiments.illustration --out docs/figures/illustration.svg

Every number in the picture is computed by the operations of minicnn.  It is an SVG file, written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.cli.app import UsageError, argument_parser, run_main
from experiments.figures.svg import Drawing, number
from minicnn.checkpoint import atomic_write_text
from minicnn.ops import conv2d, crelu, max_pool2d, max_pool2d_switches
from minicnn.theory.frames import shift_matrix

MODULE = "experiments.illustration"

SIGNAL = (2, 3, 1, -2, -1, 0, 2, 1)
FILTERS = ((1, 0, -1), (-1, 2, -1))  # a difference and a bump
REGION = 3  # shifts in a pooling region

INK, GREY, FAINT, LINE = "#1d2733", "#5b6672", "#eef1f4", "#cfd6dd"
PLUS, MINUS = "#0b5cad", "#b3410a"  # the positive and the negative phase: told apart by colour-blind readers too
COLOURS = (PLUS, MINUS)
PALE = {PLUS: "#dcebfa", MINUS: "#fbe6da"}

ROW, CELL = 30, 38  # height of a row; width of a cell of the matrix
MATRIX, RESPONSES, PHASES, POOLED = 136, 500, (690, 754), 946  # left edges
TOP = 232  # of the first row
HEADS = 96  # baseline of the headings
UNIT = 11  # length of a bar that stands for 1

CAPTION = (
    "Outlined rows of W\u1d40 are the shifts that survive pooling, the columns of the paper's \u0174\u2093. "
    "Blue: the positive phase; orange: the negative one.",
    "Grey boxes are pooling regions. A pooled 0 has no switch: in that phase no shift of the region was active.",
)


class Layer(NamedTuple):
    """What happens to the signal.  K filters, n shifts, R regions; on the last axis of `halves` and below: 2 K."""

    W: np.ndarray  # (D, K n): the shifts of the filters, a column each
    z: np.ndarray  # (n, K)
    halves: np.ndarray  # (n, 2 K): first the positive phases, then the negative ones
    pooled: np.ndarray  # (R, 2 K)
    switches: np.ndarray  # (R, 2 K): which shift of the region


def compute() -> Layer:
    """The signal as an image of height 1, through the operations that networks use."""
    x = np.array(SIGNAL, float).reshape(1, 1, -1, 1)  # (N, H, W, C)
    w = np.array(FILTERS, float).T  # (l, K)
    z = conv2d(x, w.reshape(1, -1, 1, len(FILTERS)))  # (1, 1, n, K)
    halves = crelu(z)  # (1, 1, n, 2 K)
    pooled, switches = (pool(halves, k=(1, REGION))[0, 0] for pool in (max_pool2d, max_pool2d_switches))
    return Layer(shift_matrix(w, len(SIGNAL)), z[0, 0], halves[0, 0], pooled, switches)


class Winner(NamedTuple):
    """A pooled value that is not 0: the largest response of a phase in a region."""

    filter: int
    region: int
    shift: int
    phase: int  # 0 positive, 1 negative
    value: float


def winners(layer: Layer) -> list[Winner]:
    K = layer.z.shape[1]
    return [
        Winner(i % K, r, r * REGION + int(layer.switches[r, i]), i // K, float(layer.pooled[r, i]))
        for r, i in np.ndindex(layer.pooled.shape)
        if layer.pooled[r, i] > 0
    ]


def top(layer: Layer, i: int, j: int) -> float:
    """The upper edge of the row of filter i, shift j: a gap between regions, a larger one between filters."""
    n = len(layer.z)
    return TOP + (i * n + j) * ROW + 12 * (i * (n // REGION) + j // REGION) + 20 * i


def draw(layer: Layer) -> str:
    n, K = layer.z.shape
    bottom = top(layer, K - 1, n - 1) + ROW
    d = Drawing(
        1200,
        int(bottom) + 76,
        "Convolution, CReLU and max pooling of a short signal",
        f"A signal of {len(SIGNAL)} numbers, all {n} shifts of {K} filters as the rows of a matrix, their responses, "
        "the positive and the negative half that CReLU makes of each, and the largest of each half in regions of "
        f"{REGION} shifts, with the shift where it was found.",
    )
    d.text(40, 46, "What a CReLU layer with max pooling keeps of a signal", size=22, weight=600)
    for line, words in enumerate(CAPTION):
        d.text(40, bottom + 38 + 21 * line, words, fill=GREY)
    draw_links(d, layer)
    draw_matrix(d, layer)
    draw_responses(d, layer)
    draw_halves(d, layer)
    draw_pooled(d, layer)
    return d.finish()


def heading(d: Drawing, left: float, step: int, title: str, formula: str) -> None:
    d.circle(left + 11, HEADS - 5, 11, fill=INK)
    d.text(left + 11, HEADS, str(step), anchor="middle", weight=600, size=13, fill="#ffffff")
    d.text(left + 30, HEADS, title, weight=600, size=15)
    d.text(left + 30, HEADS + 21, formula, fill=GREY)


def draw_matrix(d: Drawing, layer: Layer) -> None:
    """The signal as bars over the columns that it is multiplied with; below, a row for each shift."""
    d.text(40, HEADS, "A signal x, and all shifts of two filters: W\u1d40", weight=600, size=15)
    zero = 158
    for k, value in enumerate(SIGNAL):
        left = MATRIX + k * CELL
        height = UNIT * abs(value)
        colour = PLUS if value > 0 else MINUS
        d.rect(left + 9, zero - height if value > 0 else zero, CELL - 18, height, fill=colour, radius=2)
        d.text(left + CELL / 2, 211, number(value), anchor="middle", weight=600, name=f"x-{k + 1}")
    d.line(MATRIX, zero, MATRIX + len(SIGNAL) * CELL, zero, LINE)
    d.text(MATRIX - 12, 211, "x", anchor="end", weight=600)
    selected = {(w.filter, w.shift): w.phase for w in winners(layer)}
    n, K = layer.z.shape
    for i, j in np.ndindex(K, n):
        y = top(layer, i, j)
        d.text(MATRIX - 12, y + 20, f"filter {i + 1}, shift {j + 1}", anchor="end", fill=GREY, size=12)
        for k, value in enumerate(layer.W[:, i * n + j]):
            inside = j <= k < j + len(FILTERS[0])
            fill = PALE[PLUS if value > 0 else MINUS] if value else "#f6f7f9" if inside else "none"
            d.rect(MATRIX + k * CELL, y, CELL, ROW - 2, fill=fill, stroke=LINE if inside else FAINT)
            if inside:
                colour = GREY if value == 0 else PLUS if value > 0 else MINUS
                d.text(MATRIX + (k + 0.5) * CELL, y + 20, number(value), anchor="middle", fill=colour)
        if (i, j) in selected:
            colour = COLOURS[selected[i, j]]
            d.rect(MATRIX + j * CELL, y, len(FILTERS[0]) * CELL, ROW - 2, stroke=colour, thick=2.5, radius=3)


def draw_responses(d: Drawing, layer: Layer) -> None:
    heading(d, RESPONSES - 12, 1, "Convolution", "z = W\u1d40x")
    n, K = layer.z.shape
    middle = RESPONSES + 48
    for i in range(K):
        d.line(middle, top(layer, i, 0) - 2, middle, top(layer, i, n - 1) + ROW, LINE)
    for j, i in np.ndindex(layer.z.shape):
        value, y = float(layer.z[j, i]), top(layer, i, j)
        width = UNIT * abs(value)
        colour = PLUS if value > 0 else MINUS
        d.rect(middle if value > 0 else middle - width, y + 6, width, ROW - 14, fill=colour, radius=2)
        d.text(RESPONSES + 146, y + 20, number(value), anchor="end", weight=600, name=f"z-{i + 1}-{j + 1}")


def box(
    d: Drawing, left: float, y: float, height: float, value: float, phase: int, *, kept: bool, name: str, size: int = 14
) -> None:
    """A number in the colour of its phase, grey if it is 0; outlined if max pooling keeps it."""
    colour = COLOURS[phase]
    fill, stroke, thick = PALE[colour] if value else "#ffffff", colour if kept else LINE, 2.5 if kept else 1
    d.rect(left, y, 56, height, fill=fill, stroke=stroke, thick=thick, radius=4)
    weight, ink = (600, colour) if value else (400, GREY)
    base = y + height / 2 + 6
    d.text(left + 28, base, number(value), anchor="middle", size=size, weight=weight, fill=ink, name=name)


def draw_halves(d: Drawing, layer: Layer) -> None:
    heading(d, PHASES[0] - 6, 2, "CReLU", "[z]\u208a and [\u2212z]\u208a")
    won = {(w.filter, w.shift, w.phase) for w in winners(layer)}
    K = layer.z.shape[1]
    for j, column in np.ndindex(layer.halves.shape):
        phase, i = divmod(column, K)
        value, name = float(layer.halves[j, column]), f"{'pq'[phase]}-{i + 1}-{j + 1}"
        box(d, PHASES[phase], top(layer, i, j), ROW - 2, value, phase, kept=(i, j, phase) in won, name=name)


def place(layer: Layer, i: int, region: int, phase: int) -> float:
    """The upper edge of a pooled value: two in the middle of a region."""
    first, last = top(layer, i, region * REGION), top(layer, i, region * REGION + REGION - 1) + ROW
    return (first + last) / 2 - 38 + 38 * phase


def draw_links(d: Drawing, layer: Layer) -> None:
    """Regions in the background, and a line from each winner to its pooled value; cells are drawn over them."""
    n, K = layer.z.shape
    for i, r in np.ndindex(K, n // REGION):
        y = top(layer, i, r * REGION)
        d.rect(PHASES[0] - 8, y - 5, 136, REGION * ROW + 8, fill=FAINT, radius=8)
    for w in winners(layer):
        start, end = top(layer, w.filter, w.shift) + ROW / 2 - 1, place(layer, w.filter, w.region, w.phase) + 16
        d.curve(PHASES[w.phase] + 56, start, PHASES[1] + 62, POOLED, end, COLOURS[w.phase])


def draw_pooled(d: Drawing, layer: Layer) -> None:
    heading(d, POOLED - 6, 3, "Max pooling", f"largest of {REGION}, and its switch")
    found = {(w.filter, w.region, w.phase): w for w in winners(layer)}
    K = layer.z.shape[1]
    for r, column in np.ndindex(layer.pooled.shape):
        phase, i = divmod(column, K)
        y, value, name = place(layer, i, r, phase), float(layer.pooled[r, column]), f"{'pq'[phase]}-{i + 1}-{r + 1}"
        box(d, POOLED, y, 32, value, phase, kept=value > 0, name=f"pooled-{name}", size=16)
        switch = f"shift {found[i, r, phase].shift + 1}" if value else "no switch"
        d.text(POOLED + 70, y + 21, switch, fill=INK if value else GREY, name=f"switch-{name}")


def main(arguments: list[str]) -> int:
    p = argument_parser(MODULE, __doc__)
    p.add_argument("--out", type=Path, default=Path("illustration.svg"), help="an .svg file (default illustration.svg)")
    p.add_argument("--dry-run", action="store_true", help="say what would be drawn, and stop")
    args = p.parse_args(arguments)
    if args.out.suffix != ".svg":
        raise UsageError(f"--out must be an .svg file, got {args.out}")
    if args.dry_run:
        print(f"would draw {len(SIGNAL)} numbers and {len(FILTERS)} filters to {args.out}")
        return 0
    args.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(args.out, draw(compute()))
    print(f"Saved {args.out}.")
    return 0


if __name__ == "__main__":
    run_main(main, MODULE)
