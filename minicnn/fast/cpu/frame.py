"""Images with a frame around them, in scratch memory."""

from __future__ import annotations

import numpy as np

from minicnn.ops.windows import Pair2
from minicnn.parallel import scratch


def framed(name: str, x: np.ndarray, top: int, left: int, size: Pair2, value: float = 0.0) -> np.ndarray:
    """The images x (n, H, W, C) in larger ones of this size, at (top, left), with `value` around them."""
    n, h, w, c = x.shape
    image = scratch(name, (n, *size, c), x.dtype)
    image[:, :top], image[:, top + h :] = value, value
    image[:, top : top + h, :left], image[:, top : top + h, left + w :] = value, value
    image[:, top : top + h, left : left + w] = x
    return image
