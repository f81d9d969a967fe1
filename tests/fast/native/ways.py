"""The kernels in C, shared out in pieces so small that small images are several of them."""

import shutil

import pytest

from minicnn.fast.native import im2col, library, pool, winograd

COMPILER = shutil.which(library.compiler()[0])
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler: kernels cannot be built on this machine")

HUGE = 1 << 40


def share_out(patch, *, by_places=False, tiles=3, pixels=5, blocks=1):
    """Pieces of so many tiles or pixels; Winograd's algorithm by tiles or by places, in blocks of so many bytes."""
    patch.setattr(winograd, "PIECE_TILES", tiles)
    patch.setattr(winograd, "BLOCK_BYTES", blocks)
    patch.setattr(winograd, "MOST_READ_U", 0 if by_places else HUGE)
    patch.setattr(winograd, "MOST_SUMMED_U", 0 if by_places else HUGE)
    patch.setattr(winograd, "LEAST_SHARE", tiles)
    patch.setattr(winograd, "COLUMNS", 7)
    patch.setattr(winograd, "tiles_of", winograd.Tiles)  # not what was made for larger pieces
    patch.setattr(im2col, "pixels_of", im2col.Pixels)
    patch.setattr(pool, "PIECE_BYTES", 1)
    patch.setattr(im2col, "PIECE_BYTES", 1)
    patch.setattr(im2col, "LEAST_PIXELS", pixels)
    patch.setattr(im2col, "LEAST_PRODUCTS", 1)
