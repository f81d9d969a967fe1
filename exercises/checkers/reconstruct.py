"""The image of least norm, from the layer written out as a matrix."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from exercises.grading import call, same

CASES = [  # size, filters (k, k, C, F), stride, what it shows
    ((4, 4), (2, 2, 1, 4), 2, "windows that do not overlap, as many filters as pixels in a window"),
    ((6, 6), (3, 3, 2, 20), 1, "more filters than numbers in a window"),
    ((7, 6), (3, 3, 1, 4), 1, "fewer filters than pixels in a window: the windows overlap and help each other"),
    ((6, 6), (2, 2, 1, 2), 2, "too few filters: the image of least norm"),
    ((6, 7), (3, 3, 1, 9), 2, "a last column that no window sees: it is 0 in the image of least norm"),
]


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    for size, shape, stride, why in CASES:
        k, _, channels, filters = shape
        w, b = rng.normal(size=shape), rng.normal(size=filters)
        x = rng.normal(size=(2, *size, channels))
        A = layer_matrix(w, size, stride)  # (OH OW F, H W C)
        out = tuple((side - k) // stride + 1 for side in size)
        z = (x.reshape(2, -1) @ A.T).reshape(2, *out, filters)
        y = np.concatenate((np.maximum(z + b, 0), np.maximum(-z - b, 0)), axis=-1)
        expected = (z.reshape(2, -1) @ np.linalg.pinv(A).T).reshape(x.shape)
        got = call(answer, "reconstruct", y, w, b, size, stride=stride)
        given = f"images of size {size}, w {shape}, stride={stride} ({why})"
        same("x'", got, expected, given=given, tolerance=1e-6)


def layer_matrix(w: np.ndarray, size: tuple[int, int], stride: int) -> np.ndarray:
    """The matrix of a convolution: (OH OW F, H W C)."""
    k, _, channels, filters = w.shape
    rows = []
    for p in range(0, size[0] - k + 1, stride):
        for q in range(0, size[1] - k + 1, stride):
            for f in range(filters):
                image = np.zeros((*size, channels))
                image[p : p + k, q : q + k] = w[..., f]
                rows.append(image.ravel())
    return np.array(rows)
