"""From bytes to what a network sees: normalisation, flips, shifts, crops.

The paper subtracts the mean of each channel and divides by its standard deviation, both taken over the training set;
it flips images left to right at random, and for VGG also shifts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np

from minicnn.random import Stream


@dataclass(frozen=True)
class Normaliser:
    """(x / 255 - mean) / std for each channel of uint8 images: (N, H, W, C) -> float32."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or len(self.mean) == 0:
            raise ValueError(
                "Normaliser: needs one mean and one deviation for each channel, "
                f"got {len(self.mean)} and {len(self.std)}"
            )
        if not all(0 <= m <= 1 for m in self.mean):  # nor NaN
            raise ValueError(
                f"Normaliser: mean must be that of values 0 .. 1, got {self.mean}; divide that of bytes by 255, "
                "and std too"
            )
        if not all(0 < s < math.inf for s in self.std):
            raise ValueError(f"Normaliser: std must be finite and positive, got {self.std}")

    @staticmethod
    def of(images: np.ndarray) -> Normaliser:
        """The moments of a training set (N, H, W, C), from how often each of the 256 values occurs: no long sums."""
        check_images("Normaliser.of", images)
        if not images.size:
            raise ValueError(f"Normaliser.of: there are no images in an array of shape {images.shape}")
        levels = np.arange(256, dtype=np.float64) / 255
        mean, std = [], []
        for c in range(images.shape[3]):
            share = np.bincount(images[..., c].reshape(-1), minlength=256) / images[..., c].size
            mean.append(float(share @ levels))
            std.append(float(np.sqrt(share @ (levels - mean[-1]) ** 2)))
        if not all(s > 0 for s in std):
            raise ValueError(
                "Normaliser: a channel of the training set is constant; it cannot be divided by its deviation"
            )
        return Normaliser(tuple(mean), tuple(std))

    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """What a byte of each channel is multiplied by, and what is then added: float32."""
        scale = np.array([1 / (255 * s) for s in self.std], np.float32)
        return scale, np.array([-m / s for m, s in zip(self.mean, self.std, strict=True)], np.float32)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        check_images("Normaliser", images, channels=len(self.mean))
        scale, offset = self.constants()
        x = images.astype(np.float32)
        x *= scale
        x += offset
        return x


def check_images(where: str, images: np.ndarray, channels: int | None = None) -> None:
    """Images must be bytes (N, H, W, C): pixels that are numbers from 0 to 1 already would be divided by 255 again.

    channels   how many there must be; if that is not known, a second axis of 1 or 3 and more than 4 at the end are
               taken for the channels and the columns of (N, C, H, W)
    """
    if not isinstance(images, np.ndarray):
        raise TypeError(f"{where}: images must be a NumPy array of uint8, (N, H, W, C), got {type(images).__name__}")
    if images.dtype != np.uint8:
        remedy = "give bytes from 0 to 255; of numbers from 0 to 1: (255 * images).round().astype('uint8')"
        raise TypeError(f"{where}: images must be uint8, (N, H, W, C), got {images.dtype} {images.shape}; {remedy}")
    if images.ndim != 4:
        remedy = "add the axis of the channels: images[..., None]" if images.ndim == 3 else "reshape them"
        raise ValueError(f"{where}: images must have four axes, (N, H, W, C), got {images.shape}; {remedy}")
    first, last = images.shape[1], images.shape[3]
    if first in (1, 3) and last > 4 if channels is None else first == channels != last:
        remedy = "turn them: images.transpose(0, 2, 3, 1)"
        raise ValueError(f"{where}: images must be (N, H, W, C), but {images.shape} looks like (N, C, H, W); {remedy}")
    if channels not in (None, last):
        raise ValueError(f"{where}: images {images.shape} have {last} channels, the mean and the deviation {channels}")


def check_labels(where: str, labels: np.ndarray, images: int) -> None:
    """Labels must be integers (N,), one for each image: (N, 1), say, would be compared with all images at once."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.ndim != 1:
        got = f"{labels.dtype} {labels.shape}" if isinstance(labels, np.ndarray) else type(labels).__name__
        raise TypeError(
            f"{where}: labels must be a NumPy array of integers, (N,), got {got}; "
            "use numpy.array(labels, 'int64'), where 0, 1, ... number the classes"
        )
    if len(labels) != images or not images:
        raise ValueError(f"{where}: got {images} images and {len(labels)} labels")


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images.

    flip       mirror each image left to right with probability 1/2
    shift      move each image by up to this many pixels along each axis; zeros (the mean) move in
    reflect    what moves in is instead what lies inside of the edge, mirrored
    alternate  mirror an image in every other epoch instead, half of the images in the first: so each is seen from both
               sides equally often, and not three times from the same (Jordan 2024)
    """

    flip: bool = True
    shift: int = 0
    alternate: bool = False
    reflect: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.shift, Integral) or self.shift < 0:
            raise ValueError(f"Augmentation: shift must be a number of pixels, 0 or more, got {self.shift!r}")

    def draw(self, n: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        """The choices for n images: flips (n,) bool, shifts (n, 2) rows and columns."""
        rng = stream.generator()
        flips = rng.integers(0, 2, n).astype(bool) & self.flip
        return flips, rng.integers(-self.shift, self.shift + 1, (n, 2))


def flip_and_shift(x: np.ndarray, flips: np.ndarray, shifts: np.ndarray, *, reflect: bool = False) -> np.ndarray:
    """A batch x (n, H, W, C), each image flipped or not, then moved by shifts (n, 2): down and to the right.

    Zeros move in or, with `reflect`, mirrored pixels: of a row a b c that is moved to the right by two, c b a.
    """
    x = np.where(flips[:, None, None, None], x[:, :, ::-1], x)
    if not shifts.any():
        return x
    room = int(np.abs(shifts).max())
    h, w = x.shape[1:3]
    around = ((0, 0), (room, room), (room, room), (0, 0))
    padded = np.pad(x, around, mode="reflect" if reflect else "constant")
    for i, (down, right) in enumerate(shifts):
        x[i] = padded[i, room - down : room - down + h, room - right : room - right + w]
    return x


class View(NamedTuple):
    """How an image is looked at in evaluation: mirrored or not, then moved by some pixels; mirrored pixels move in."""

    flip: bool = False
    down: int = 0
    right: int = 0

    def of(self, images: np.ndarray) -> np.ndarray:
        """All images (N, H, W, C), seen like this."""
        n = len(images)
        return flip_and_shift(images, np.full(n, self.flip), np.tile((self.down, self.right), (n, 1)), reflect=True)


MIRRORED = (View(), View(flip=True))
SIX = tuple(View(flip, pixel, pixel) for flip in (False, True) for pixel in (0, 1, -1))  # Jordan 2024


class Crop(NamedTuple):
    """Where a crop lies: 0 is at the top (left), 1 at the bottom (right), 0.5 in the middle; mirrored if `flip`."""

    down: float
    across: float
    flip: bool = False


CENTRE = Crop(0.5, 0.5)
_FIVE = (Crop(0, 0), Crop(0, 1), Crop(1, 0), Crop(1, 1), CENTRE)
TEN = (*_FIVE, *(crop._replace(flip=True) for crop in _FIVE))  # Krizhevsky et al. 2012, for evaluation


def cut(images: np.ndarray, crop: Crop, size: int) -> np.ndarray:
    """The crop of size x size from images (N, H, W, C): a view."""
    _, height, width, _ = images.shape
    if not 1 <= size <= min(height, width):
        raise ValueError(f"cut: a crop of {size}x{size} does not fit in images of {height}x{width}")
    top, left = round(crop.down * (height - size)), round(crop.across * (width - size))
    seen = images[:, top : top + size, left : left + size]
    return seen[:, :, ::-1] if crop.flip else seen
