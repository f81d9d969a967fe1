"""Sheets of filters and images as PNG files.

Pillow draws these, not matplotlib: each pixel becomes a block of whole pixels, never smoothed, and the sheet grows with
its pictures.  matplotlib lays out axes in inches and resamples images to fit them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minicnn.analysis.pairing import Pairing
from minicnn.checkpoint import atomic_write

FONT, TITLE_FONT, GAP = 13, 15, 8
COLUMNS, MOST_PAIRS = 6, 48  # of a sheet of pairs


class Cell(NamedTuple):
    """One or more pictures (h, w, 3) uint8 side by side, and a line of text below them."""

    pictures: Sequence[np.ndarray]
    caption: str


def draw_sheet(
    path: Path,
    rows: Sequence[Sequence[Cell]],
    *,
    title: str,
    side: int,
    heads: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> None:
    """A table of pictures, all enlarged by a whole factor to about `side` pixels.

    heads, labels    stand above the columns, and to the left of the rows
    """
    from PIL import Image, ImageDraw, ImageFont

    font, bold = ImageFont.load_default(FONT), ImageFont.load_default(TITLE_FONT)
    shapes = [picture.shape[:2] for row in rows for cell in row for picture in cell.pictures]
    factor = max(1, round(side / max(map(max, shapes))))
    height, single = (factor * max(sizes) for sizes in zip(*shapes, strict=True))  # room for the largest
    width = max(len(cell.pictures) for row in rows for cell in row) * (single + 2) - 2
    texts = [*heads, *(cell.caption for row in rows for cell in row)]
    column = max([width, *(int(font.getlength(text)) for text in texts)]) + 2 * GAP
    line = height + FONT + 6 + GAP
    margin = max([int(font.getlength(label)) + GAP for label in labels], default=0)
    left, top = GAP + margin, TITLE_FONT + 3 * GAP + (FONT + GAP if heads else 0)
    total = max(left + column * max(map(len, rows)), 2 * GAP + int(bold.getlength(title)))
    sheet = Image.new("RGB", (total, top + line * len(rows)), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((2 * GAP, GAP), title, "black", bold)
    for i, head in enumerate(heads):
        pen.text((left + i * column + GAP, TITLE_FONT + 2 * GAP), head, "black", font)
    for r, label in enumerate(labels):
        pen.text((2 * GAP, top + r * line + (height - FONT) // 2), label, "black", font)
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            x, y = left + c * column + GAP, top + r * line
            for i, picture in enumerate(cell.pictures):
                size = factor * picture.shape[1], factor * picture.shape[0]
                large: Any = Image.fromarray(picture).resize(size, Image.Resampling.NEAREST)
                sheet.paste(large, (x + i * (single + 2), y))
            pen.text((x, y + height + 2), cell.caption, "black", font)
    atomic_write(path, lambda file: sheet.save(file, format="png", optimize=True))


def draw_pairs(path: Path, w: np.ndarray, pairs: Pairing, *, title: str) -> None:
    """Each filter of w (kh, kw, 1 or 3, K) beside its pairing filter, the most opposed pairs first."""
    order = [i for i in np.argsort(pairs.mu) if pairs.partner[i] >= 0][:MOST_PAIRS]
    cells = [
        Cell((filter_picture(w[..., i]), filter_picture(w[..., pairs.partner[i]])), f"{pairs.mu[i]:.2f}") for i in order
    ]
    draw_sheet(path, [cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)], title=title, side=48)


def filter_picture(filter_: np.ndarray) -> np.ndarray:
    """(kh, kw, 1 or 3) as a picture: 0 is grey, the largest weight is black or full colour, and -w is the negative."""
    scaled = 127.5 + 127.5 * filter_ / max(float(np.abs(filter_).max()), 1e-30)
    return np.broadcast_to(np.rint(scaled), (*filter_.shape[:2], 3)).astype(np.uint8)
