"""Where every matplotlib figure starts and ends."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from minicnn.checkpoint import atomic_write

COLOURS = 128  # of a plot, including the shades at the edges of letters
NETWORKS = {"ReLU": "C0", "CReLU": "C1", "AVR": "C2"}  # the colour of a kind of network, in every figure


def network_colour(label: str) -> str:
    """By the label of a network, such as "CReLU (half)"; others have one colour."""
    return NETWORKS.get(label.partition(" ")[0], "C4")


def new_figure(path: Path, width: float, height: float) -> Any:
    """A matplotlib figure, or None (and a message) where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure  # no pyplot: no window system, no global state
    except ImportError:
        print(f"no {path.name}: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
        return None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path, *, dpi: int) -> None:
    """Save it whole or not at all, like every file; a palette, enough for a plot, cuts the size to a third."""
    from PIL import Image  # matplotlib needs it, too

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    with Image.open(drawn) as image:
        plain = image.convert("RGB").quantize(COLOURS)
    atomic_write(path, lambda file: plain.save(file, format="png", optimize=True))
