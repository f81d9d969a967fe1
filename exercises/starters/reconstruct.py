"""Get images back from y = crelu(conv2d(x, w, b, stride=stride))."""

import numpy as np


def reconstruct(y: np.ndarray, w: np.ndarray, b: np.ndarray, size: tuple[int, int], *, stride: int = 1) -> np.ndarray:
    """y (N, OH, OW, 2 F), w (k, k, C, F), b (F,), size (H, W) of the images -> x' (N, H, W, C).

    x' is the image that gives these features; if there are several, the one of least norm.
    """
    raise NotImplementedError
