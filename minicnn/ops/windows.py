"""Windows sliding over images: the geometry that convolution and pooling share.

An axis of length `size`, padded with `before` and `after` cells, seen through windows of k cells every `stride`:

    out = floor((size + before + after - k) / stride) + 1

In ceil mode the division rounds up, so the last window may reach beyond the padded image; as in PyTorch, a window
that would start beyond the image and the padding before it is dropped.

    unfold   U : image -> one row per window (im2col)
    fold     U': adds every row back to where it came from (col2im); <U x, r> = <x, U' r> exactly
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

from minicnn.backend import Array, array_module

Pair2 = tuple[int, int]  # (rows, columns)
Size = int | Pair2
Pad = int | Pair2 | tuple[Pair2, Pair2]


def as_pair(where: str, name: str, value: Any, least: int = 1) -> Pair2:
    """An int, or a pair (rows, columns), as a pair."""
    if type(value) is int and value >= least:
        return (value, value)
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    whole = len(pair) == 2 and all(isinstance(v, Integral) and not isinstance(v, bool) for v in pair)
    if not whole or min(pair) < least:
        raise ValueError(f"{where}: {name} must be an integer >= {least} or a pair of them, got {value!r}")
    return (int(pair[0]), int(pair[1]))


def as_pad(where: str, pad: Any) -> tuple[Pair2, Pair2]:
    """An int, a pair (rows, columns), or ((top, bottom), (left, right)), as the last of these."""
    if type(pad) is int and pad >= 0:
        return (pad, pad), (pad, pad)
    if isinstance(pad, (tuple, list)) and len(pad) == 2 and all(isinstance(side, (tuple, list)) for side in pad):
        rows, columns = (as_pair(where, "pad", side, least=0) for side in pad)
        return rows, columns
    row, column = as_pair(where, "pad", pad, least=0)
    return (row, row), (column, column)


@dataclass(frozen=True)
class Windows:
    """The windows of size `k` over images of size `size`; `out` of them along each axis."""

    size: Pair2  # (H, W)
    k: Pair2  # (kh, kw)
    stride: Pair2
    pad: tuple[Pair2, Pair2]  # ((top, bottom), (left, right))
    out: Pair2  # (OH, OW)

    @staticmethod
    def over(where: str, x: Array, k: Any, stride: Any, pad: Any, ceil: bool = False) -> Windows:
        """Of the images x (N, H, W, C), for the op called `where`, with the arguments checked."""
        return Windows.of_shape(where, x.shape, k, stride, pad, ceil)

    @staticmethod
    def of_shape(where: str, shape: tuple[int, ...], k: Any, stride: Any, pad: Any, ceil: bool = False) -> Windows:
        """Of images of this shape."""
        if len(shape) != 4:
            raise ValueError(f"{where}: x must be images of shape (N, H, W, C), got shape {shape}")
        k, stride, pad = as_pair(where, "k", k), as_pair(where, "stride", stride), as_pad(where, pad)
        return _windows(where, tuple(shape), k, stride, pad, ceil)

    def padded(self, x: Array, value: float = 0.0) -> Array:
        """x (N, H, W, C) with `value` around it, large enough for every window."""
        xp = array_module(x)
        (top, _), (left, _) = self.pad
        h, w = self.size
        height, width = self.padded_size()
        if (height, width) == (h, w):
            return x
        image = xp.full((x.shape[0], height, width, x.shape[3]), value, x.dtype)
        image[:, top : top + h, left : left + w] = x
        return image

    def padded_size(self) -> Pair2:
        axes = zip(self.size, self.k, self.stride, self.pad, self.out, strict=True)
        height, width = (max(size + sum(pad), (out - 1) * stride + k) for size, k, stride, pad, out in axes)
        return height, width

    def crop(self, image: Array) -> Array:
        """The adjoint of `padded` with zeros: the part of a padded image that lies in x."""
        (top, _), (left, _) = self.pad
        return image[:, top : top + self.size[0], left : left + self.size[1]]

    def cells(self, image: Array) -> Iterator[tuple[int, int, Array]]:
        """For every cell (i, j) of a window: i, j, and that cell of all windows, a view (N, OH, OW, C) of `image`."""
        (kh, kw), (sh, sw), (oh, ow) = self.k, self.stride, self.out
        for i in range(kh):
            for j in range(kw):
                yield i, j, image[:, i : i + sh * (oh - 1) + 1 : sh, j : j + sw * (ow - 1) + 1 : sw]


@lru_cache(1024)  # the shapes of a network come again in every step
def _windows(
    where: str, shape: tuple[int, ...], k: Pair2, stride: Pair2, pad: tuple[Pair2, Pair2], ceil: bool
) -> Windows:
    """Of images of this shape (N, H, W, C)."""
    if 0 in shape[1:]:
        raise ValueError(f"{where}: the images have no pixels or no channels: x has shape {shape}")
    size = (shape[1], shape[2])
    axes = zip(size, k, stride, pad, strict=True)
    out = tuple(_output_size(where, shape, *axis, ceil) for axis in axes)
    return Windows(size, k, stride, pad, (out[0], out[1]))


def _output_size(where: str, shape: Any, size: int, k: int, stride: int, pad: Pair2, ceil: bool) -> int:
    before, after = pad
    room = size + before + after - k
    out = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (out - 1) * stride >= size + before:
        out -= 1
    if out < 1:
        raise ValueError(
            f"{where}: the kernel ({k}) is larger than the padded image ({size} + {before} + {after}), x has shape "
            f"{tuple(shape)}; use a smaller k or more pad"
        )
    return out


def unfold(x: Array, windows: Windows) -> Array:
    """Every window as a block: (N, H, W, C) -> (N, OH, OW, kh, kw, C), a view of the (padded) image."""
    xp = array_module(x)
    if x.ndim != 4 or x.shape[1:3] != windows.size:  # as_strided would read what is behind x
        raise ValueError(f"unfold: x must have shape {('N', *windows.size, 'C')}, got {x.shape}")
    image = windows.padded(x)
    n, _, _, c = x.shape
    sh, sw = windows.stride
    step_n, step_h, step_w, step_c = image.strides  # in bytes; to the next window it is `stride` pixels
    return xp.lib.stride_tricks.as_strided(
        image,
        shape=(n, *windows.out, *windows.k, c),
        strides=(step_n, sh * step_h, sw * step_w, step_h, step_w, step_c),
    )


def fold(rows: Array, windows: Windows) -> Array:
    """The adjoint of unfold: (N, OH, OW, kh, kw, C) -> (N, H, W, C), overlapping cells added.

    One strided addition for each of the kh*kw cells: no index is written twice, so the order is fixed.
    """
    xp = array_module(rows)
    if rows.ndim != 6 or rows.shape[1:5] != (*windows.out, *windows.k):
        raise ValueError(f"fold: rows must have shape {('N', *windows.out, *windows.k, 'C')}, got {rows.shape}")
    image = xp.zeros((rows.shape[0], *windows.padded_size(), rows.shape[5]), rows.dtype)
    for i, j, cell in windows.cells(image):
        cell += rows[:, :, :, i, j]
    return windows.crop(image)
