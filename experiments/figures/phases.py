"""What the two phases of conv1 see of a picture, as a sheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.figures.sheets import Cell, draw_sheet, filter_picture
from minicnn.backend import to_host
from minicnn.data.augment import CENTRE, cut
from minicnn.models import Classifier
from minicnn.nn import Activation, Conv2d

SHOWN, COLUMNS = 12, 3  # filters of a sheet, and how many side by side


def draw_phases(path: Path, classifier: Classifier, image: np.ndarray, *, title: str) -> None:
    """The picture as the network sees it, and for its most active filters of conv1 both phases of the response z.

    image (side, side, 3) uint8.  Each cell shows a filter, max(z, 0) and max(-z, 0), white for the largest |z| of all.
    """
    z, filters, two_sided = responses(classifier, image)
    order = np.argsort(-(z**2).sum(axis=(0, 1)), kind="stable")[:SHOWN]
    largest = max(float(np.abs(z[..., order]).max()), 1e-30)
    cells = [
        Cell(
            [
                _enlarged(filter_picture(filters[..., i]), z.shape[:2]),
                *(_grey(np.maximum(sign * z[..., i], 0) / largest) for sign in (1, -1)),
            ],
            f"filter {i + 1}: + {_share(z[..., i]):.0%}, - {_share(-z[..., i]):.0%}",
        )
        for i in order
    ]
    (seen,) = cut(image[None], CENTRE, classifier.crop)
    rows = [[Cell([seen], "what the network sees")]]
    rows += [cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)]
    kept = "both pass" if two_sided else "the positive one passes"
    draw_sheet(path, rows, title=f"{title}: filters of conv1, positive and negative phase; {kept}", side=96)


def responses(classifier: Classifier, image: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """(z (H, W, filters), the filters (kh, kw, 3, filters), whether both phases pass) of the first convolution.

    z is what enters the first activation, as in the analyses: with the bias, and batch normalisation if there is one.
    """
    x = classifier.device.put(classifier.normalise(cut(image[None], CENTRE, classifier.crop)))
    layers, first, before = dict(classifier.model.modules()), None, x
    for name, y in classifier.model.trace(x):
        layer = layers[name]
        if isinstance(layer, Conv2d) and first is None:
            first = layer
        if isinstance(layer, Activation) and first is not None:
            return to_host(before)[0], to_host(first.weight.data), layer.two_sided
        before = y
    raise ValueError("draw_phases: the network has no convolution with an activation behind it")


def _share(z: np.ndarray) -> float:
    """The share of the places where it is positive."""
    return float((z > 0).mean())


def _grey(values: np.ndarray) -> np.ndarray:
    """Values 0 .. 1 as a grey picture."""
    return np.repeat(np.rint(255 * values).astype(np.uint8)[..., None], 3, axis=2)


def _enlarged(picture: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Each pixel as a block, so that it is as large as pictures of this size."""
    factor = max(1, min(size) // max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)
