"""Convolutions with stride 1 by Winograd's algorithm: 3x3, F(4x4, 3x3), with a quarter of the multiplications.

And 5x5, F(2x2, 5x5), with 0.36 of them; what is said of the first holds for the second, with other numbers (below).

In one dimension, four outputs of a filter of three taps need six inputs and, done directly, 12 multiplications.
Winograd (Lavin and Gray 2016) computes them with six:

    y = A' [ (G g) * (B' d) ]        d: 6 inputs,  g: 3 taps,  y: 4 outputs,  *: element by element

This is multiplication of polynomials by their values at 0, 1, -1, 2, -2 and infinity, transposed.
In two dimensions the same is done along both axes, with 36 multiplications for 16 outputs instead of 144:

    Y = A' [ (G g G') * (B' d B) ] A

An image is cut into tiles of 6x6 that overlap by two.  Sums over input channels commute with all of this, so each of
the 36 places is a matrix product (tiles x C) (C x F):

    d                     (6, 6, tiles, C)              the tiles: gather
    V = B' d B            (36, tiles, C)                along both axes of the 36 places
    U = G g G'            (36, C, F)                    the filters, once
    M = V U               (36, tiles, F)                36 matrix products: this is where the time goes
    Y = A' M A            (4, 4, tiles, F)              along both axes;  then scatter

The derivative.  Every step is linear in d and in g, so its derivative is the transpose, taken backwards.  With gY the
gradient cut into 4x4 tiles:

    gM = A gY A'          (36, tiles, F)
    gU = V' gM            (36, C, F)                    gg = G' gU G
    gV = gM U'            (36, tiles, C)
    gd = B gV B'          (6, 6, tiles, C)              then add the overlapping tiles: the transpose of the gather

V is 2.25 times as large as x; it is computed again for the derivative rather than kept.  The gradient of the image is
also a 3x3 convolution, of g with the filters turned around, and that takes fewer passes over memory than the last two
lines: cpu/winograd.py does that, while cpu/winograd_wide.py and cuda/winograd.py, which have gM at hand, follow the
lines.

The bias.  The column of A' that belongs to the point 1 is (1, 1, 1, 1): what is added to M at the place (1, 1) of a
tile comes out at all 16 pixels.  And the sum of a tile's gradients is gM at that place.

The other size.  Six points determine a product of degree 5, whether of 4 outputs and 3 taps or of 2 outputs and 5 taps:
F(2x2, 5x5) has the same 6x6 tiles and the same B, every 2 pixels; G takes 5 taps to 6 places, A' 6 places to 2 outputs.

Rounding: the matrices have entries up to 8, so errors are some ten times those of a direct sum; in float32 about 1e-5
of the largest value (tests/fast/test_winograd.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from minicnn.backend import Array
from minicnn.ops.windows import Size, as_pair

B_T = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
POINTS = np.array([0, 1, -1, 2, -2])  # and infinity, which sees the last coefficient alone
SCALE = np.array([6, -4, -4, 1, 1]) / 24  # 1 / the product of a point's differences from the others


@dataclass(frozen=True)
class Algorithm:
    """F(m x m, r x r): m x m outputs of r x r taps from a 6x6 tile, m + r = 7."""

    outputs: int  # m
    taps: int  # r

    @property
    def output_matrix(self) -> np.ndarray:
        """A' (m, 6)."""
        powers = POINTS ** np.arange(self.outputs)[:, None]
        return np.c_[powers, np.eye(self.outputs)[-1]]

    @property
    def filter_matrix(self) -> np.ndarray:
        """G (6, r)."""
        powers = POINTS[:, None] ** np.arange(self.taps)
        return np.r_[SCALE[:, None] * powers, np.eye(self.taps)[-1:]]

    @property
    def filter_transform(self) -> np.ndarray:
        """G g G' of all filters at once: (36, r r)."""
        return np.kron(self.filter_matrix, self.filter_matrix)


@cache
def matrices(algorithm: Algorithm, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B' (6, 6), A' (m, 6) and the transformation of the filters (36, r r), in this precision."""
    exact = (B_T, algorithm.output_matrix, algorithm.filter_transform)
    b_t, a_t, filter_transform = (np.ascontiguousarray(matrix, dtype) for matrix in exact)
    return b_t, a_t, filter_transform


ALGORITHMS = {3: Algorithm(4, 3), 5: Algorithm(2, 5)}  # by the size of the kernel
BIAS = 7  # the place (1, 1) of a tile, where a bias is added to M


def computes(x: Array, w: Array, stride: Size, least: int) -> bool:
    """Whether there is an algorithm for this convolution, and `least` channels and filters or more.

    The transforms cost 2 * 6 for each place of a tile and channel, and several passes over memory, which enough
    channels and filters must outweigh.
    """
    return (
        x.ndim == w.ndim == 4
        and w.shape[0] == w.shape[1]
        and w.shape[0] in ALGORITHMS
        and as_pair("conv2d", "stride", stride) == (1, 1)
        and min(w.shape[2:]) >= least
        and x.shape[0] > 0
    )
