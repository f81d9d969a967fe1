"""Stimuli: an image as it is, and transformed versions of it that mean the same (the paper's section S4).

The paper says "horizontal flip, 15 degree rotation and translation"; translation is "horizontal/vertical shifts by 3
pixels" for CIFAR and "cropping from the 4 corners" for ImageNet.  What it leaves open is decided here:

    rotation        by +15 degrees, counterclockwise as one looks at the picture, about the centre of the pixel grid
    interpolation   bilinear
    shifts          four of them: 3 pixels up, down, left and right
    fill            where pixels from outside would be needed: "edge", the nearest pixel of the picture (default), or
                    "mean", zeros, which are the mean of normalised images; it draws a line that was not there

A Stimuli holds functions of a batch of normalised images (N, H, W, C), on any device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from minicnn.backend import Array, array_module, device_of, where_its_arrays_are
from minicnn.data.augment import CENTRE, Crop, cut

Transform = Callable[[Array], Array]
FILLS = ("edge", "mean")
ANGLE = 15  # degrees


@dataclass(frozen=True)
class Stimuli:
    """original(images) is what the network sees; transforms[name](images) the versions of it that mean the same."""

    original: Transform
    transforms: Mapping[str, Transform]


def cifar_stimuli(*, shift: int = 3, fill: str = "edge") -> Stimuli:
    """Flip, rotation, and four shifts of images as they are."""
    moves = {"up": (-shift, 0), "down": (shift, 0), "left": (0, -shift), "right": (0, shift)}
    return Stimuli(
        lambda x: x,
        {
            "flip": flip,
            "rotation": lambda x: rotate(x, ANGLE, fill=fill),
            **{name: partial(translate, down=down, right=right, fill=fill) for name, (down, right) in moves.items()},
        },
    )


def imagenet_stimuli(*, crop: int = 224, fill: str = "edge") -> Stimuli:
    """The centre crop of larger images; flipped, rotated, and the crops from the four corners instead of it."""

    def seen(x: Array, where: Crop) -> Array:
        if min(x.shape[1:3]) < crop:
            raise ValueError(f"imagenet_stimuli: images of {x.shape[1]}x{x.shape[2]} have no crop of {crop}x{crop}")
        return cut(x, where, crop)

    centre = partial(seen, where=CENTRE)
    corners = {"top left": Crop(0, 0), "top right": Crop(0, 1), "bottom left": Crop(1, 0), "bottom right": Crop(1, 1)}
    return Stimuli(
        centre,
        {
            "flip": lambda x: flip(centre(x)),
            "rotation": lambda x: rotate(centre(x), ANGLE, fill=fill),
            **{name: partial(seen, where=corner) for name, corner in corners.items()},
        },
    )


STIMULI: dict[str, Callable[..., Stimuli]] = {"cifar": cifar_stimuli, "imagenet": imagenet_stimuli}


@where_its_arrays_are
def flip(x: Array) -> Array:
    """Left to right."""
    return array_module(x).ascontiguousarray(x[:, :, ::-1])


@where_its_arrays_are
def translate(x: Array, down: int, right: int, *, fill: str = "edge") -> Array:
    """Every image moved by whole pixels: y[p, q] = x[p - down, q - right]."""
    _check_fill("translate", fill)
    xp = array_module(x)
    for axis, by in ((1, down), (2, right)):
        source = np.arange(x.shape[axis]) - by
        x = xp.take(x, xp.asarray(np.clip(source, 0, x.shape[axis] - 1)), axis=axis)
        if fill == "mean":
            inside = (source >= 0) & (source < x.shape[axis])
            x = x * xp.asarray(inside.astype(np.float32)).reshape([-1 if a == axis else 1 for a in range(4)])
    return x


@where_its_arrays_are
def rotate(x: Array, degrees: float, *, fill: str = "edge") -> Array:
    """Every image turned counterclockwise about its centre, with bilinear interpolation.

    The value at (p, q) comes from the place that is turned there: with (u, v) = (p, q) - centre,

        source = centre + (cos t u + sin t v,  -sin t u + cos t v)          rows point down

    and is a mean of the four pixels around it.
    """
    _check_fill("rotate", fill)
    xp = array_module(x)
    n, height, width, channels = x.shape
    place, weight = _rotation(height, width, degrees, fill)
    flat = x.reshape(n, height * width, channels)
    total = xp.zeros_like(flat)
    for corner in range(4):
        w = device_of(x).put(weight[corner].astype(x.dtype))[None, :, None]
        total += w * xp.take(flat, device_of(x).put(place[corner]), axis=1)
    return total.reshape(x.shape)


def _rotation(height: int, width: int, degrees: float, fill: str) -> tuple[np.ndarray, np.ndarray]:
    """The four pixels that each pixel of the result is a mean of: places (4, H W) and weights (4, H W)."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    cy, cx = (height - 1) / 2, (width - 1) / 2
    u, v = np.meshgrid(np.arange(height) - cy, np.arange(width) - cx, indexing="ij")
    # Sums like 15.5 + cos(90 degrees) * 3 must give the pixel itself, not one 1e-15 beside it: round to the grid.
    y, x = (np.round(c, 9) for c in (cy + cos * u + sin * v, cx - sin * u + cos * v))
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    places, weights = [], []
    for down, across in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = top + down, left + across
        weight = (1 - abs(y - row)) * (1 - abs(x - column))
        if fill == "mean":
            weight = weight * ((row >= 0) & (row < height) & (column >= 0) & (column < width))
        places.append(np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1))
        weights.append(weight)
    return np.stack(places).reshape(4, -1), np.stack(weights).reshape(4, -1)


def _check_fill(where: str, fill: str) -> None:
    if fill not in FILLS:
        raise ValueError(f"{where}: fill must be one of {', '.join(FILLS)}, got {fill!r}")
