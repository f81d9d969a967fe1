"""One photograph from a file, as the networks for ImageNet see it: a square of side x side pixels, or a part of it.

The square is the centre of the picture with its shorter side brought to `side` pixels (Krizhevsky et al. 2012: 256).
Only the part that is asked for is computed: with f = shorter side / `side`, pixels of the file per pixel of the square,
pixel (top, left) of the square begins at (y0 + top f, x0 + left f) of the picture, where (y0, x0) is the corner of its
centre square.  Pillow then resizes that box with a triangle filter as wide as f, which sees across the box's border.

JPEG files that are much too large are decoded at 1/2, 1/4 or 1/8 of their size (Pillow's draft mode).  What a file is
called does not matter, only what is in it: ImageNet itself has a PNG and some CMYK files called .JPEG.  EXIF data are
ignored, as is usual for ImageNet, so rotated photographs stay rotated, unless `upright` is asked for.
"""

from __future__ import annotations

import errno
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minicnn.data.dataset import DataError

MAX_PIXELS = 80_000_000  # 240 MB when decoded; the largest photographs of ImageNet have less
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


# Errors that say nothing about a file: it may be readable at another time.
OF_THE_MACHINE = {errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT, errno.EAGAIN}


class ImageError(DataError):
    """A file is not a picture that can be used; the message names it and says why."""

    def __init__(self, path: str | Path, why: str):
        super().__init__(f"{printable(path)}: {why}")


class View(NamedTuple):
    """Pixels top .. top + crop, left .. left + crop of the square of a picture, mirrored if `flip`."""

    path: str
    crop: int
    top: int = 0
    left: int = 0
    flip: bool = False


def decode(view: View, side: int, *, upright: bool = False) -> np.ndarray:
    """(crop, crop, 3) uint8.  ImageError for everything that can be wrong with a file."""
    with _opened(view.path) as picture:
        width, height = picture.size
        enough = side / min(width, height)
        picture.draft(None, (math.ceil(enough * width), math.ceil(enough * height)))
        return _part(_rgb(picture, upright), view, side)


def read_square(path: str | Path, side: int) -> np.ndarray:
    """The square of a user's photograph, turned upright, without Pillow's warnings: (side, side, 3) uint8."""
    with warnings.catch_warnings(action="ignore"):
        return decode(View(str(path), side), side, upright=True)


def read_whole(path: str | Path, longest: int) -> np.ndarray:
    """All of a user's photograph, in the same way, its longer side at most `longest` pixels: (H, W, 3) uint8."""
    with warnings.catch_warnings(action="ignore"), _opened(str(path)) as picture:
        rgb = _rgb(picture, upright=True)
        rgb.thumbnail((longest, longest))
        return np.asarray(rgb)


def oddities(path: str | Path, side: int) -> list[str]:
    """What to know about a user's photograph that read_square uses all the same: ["the first of 8 frames"]."""
    with warnings.catch_warnings(action="ignore"), _opened(str(path)) as picture:
        frames, (width, height) = getattr(picture, "n_frames", 1), picture.size
        return [
            *([f"the first of {frames} frames"] if frames > 1 else []),
            *(["transparent parts on white"] if picture.has_transparency_data else []),
            *([f"{width}x{height} pixels, enlarged"] if min(width, height) < side else []),
        ]


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The file as a Pillow picture; whatever is wrong with it becomes an ImageError."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as picture:
            if math.prod(picture.size) > MAX_PIXELS:
                raise ImageError(path, f"{picture.size[0]}x{picture.size[1]} pixels are too many to decode safely")
            yield picture
    except ImageError:
        raise
    except MemoryError as error:
        raise DataError(f"{printable(path)}: no memory to decode it ({error}); use fewer processes") from error
    except Exception as error:  # damaged files make Pillow raise almost anything
        if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
            raise DataError(
                f"{printable(path)} cannot be read and decoded now ({error}); remove the cause, and go on"
            ) from error
        raise ImageError(path, _reason(path, error)) from error


def _rgb(picture: Any, upright: bool) -> Any:
    """The picture in three channels of 8 bits.  A user's is turned upright, and its transparent parts become white.

    In data sets transparency is dropped, as is customary; below it there may be any colour.
    """
    from PIL import Image, ImageOps

    if upright:
        picture = ImageOps.exif_transpose(picture)
        if picture.has_transparency_data:
            clear = picture.convert("RGBA")
            picture = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    if picture.mode.startswith(("I", "F")):  # 16 bits or more of grey; Pillow would clip them to 8
        grey = np.asarray(picture, np.float64)
        return Image.fromarray((grey / max(1.0, grey.max() / 255)).clip(0, 255).astype(np.uint8)).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _part(picture: Any, view: View, side: int) -> np.ndarray:
    """The pixels of a view, resized from the box that it has in the picture."""
    from PIL import Image

    width, height = picture.size
    f = min(width, height) / side
    x, y = (width - side * f) / 2 + view.left * f, (height - side * f) / 2 + view.top * f
    box = (max(0.0, x), max(0.0, y), min(width, x + view.crop * f), min(height, y + view.crop * f))
    pixels = np.asarray(picture.resize((view.crop, view.crop), Image.Resampling.BILINEAR, box=box))
    return pixels[:, ::-1] if view.flip else pixels


def _reason(path: str, error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, FileNotFoundError):
        return "it is a link that leads nowhere" if Path(path).is_symlink() else "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a folder; name the pictures in it"
    if isinstance(error, UnidentifiedImageError):
        return "the file is empty" if not Path(path).stat().st_size else "not a picture in a known format"
    if isinstance(error, OSError) and "truncated" in str(error).lower():
        return "the file is cut short"
    return f"cannot be decoded ({type(error).__name__}: {error})"


def printable(path: str | Path) -> str:
    """A path as a line of text that any terminal can show, whatever bytes are in it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path))
