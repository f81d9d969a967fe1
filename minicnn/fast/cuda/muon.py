"""A step of Muon in some fifty launches, however many parameters there are.

All matrices go through Newton and Schulz's iteration as one stack (update.cu), each turned to have no more rows than
columns.  Zeros fill up the smaller ones.  They stay zeros, and change nothing else: they are directions of their own,
whose singular value is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicnn.backend import Array, array_module, device_of
from minicnn.fast.cuda.kernels import launch
from minicnn.fast.cuda.update import Rows, table
from minicnn.optim import QUINTIC, Muon, divisors, longer

COLUMN_SHARES = 32  # threads that share the sum of a column
NORM_SHARES = 1 << 10  # and those that share the norm of a parameter


def muon(rule: Muon, rows: Rows, scale: Array | None, decay: float, lr: float, t: int) -> None:
    """Muon.update_all."""
    parameters = rows[0]
    xp, real, total = array_module(parameters[0]), parameters[0].dtype, sum(p.size for p in parameters)
    shapes = [(p.size // p.shape[-1], p.shape[-1]) for p in parameters]
    turned = [height > width for height, width in shapes]
    places = table(rows, [width for _, width in shapes], turned)
    stack = xp.zeros((len(shapes), max(map(min, shapes)), max(map(max, shapes))), real)
    launch("update.muon_gather", (stack,), places, scale, *stack.shape, rule.momentum, count=total)
    if rule.centred:
        most = max(width for _, width in shapes)
        sums = xp.empty((len(shapes), most, COLUMN_SHARES), real)
        launch("update.muon_column_sums", (sums,), stack, places, *stack.shape, most, COLUMN_SHARES)
        launch("update.muon_centre", (stack,), sums.sum(axis=2), places, *stack.shape, most, count=total)
    stack = orthogonal(stack, rule.iterations)
    before = _squares(places, parameters) if rule.keep_norm else None
    lengths = device_of(stack).put(np.array([longer(*shape) for shape in shapes], real))
    own = (1 - lr * decay, lr)
    launch("update.muon_descend", (places,), stack, lengths, *stack.shape, *own, count=total, real=real)
    if before is not None:
        after = _squares(places, parameters)
        launch("update.restore_norms", (places,), before, after, len(shapes), count=total, real=real)


def orthogonal(stack: Array, iterations: int) -> Array:
    """optim.newton_schulz of a stack, which it changes; the sums of matrices in one launch each."""
    a, b, c = QUINTIC
    x = stack / divisors((stack * stack).sum(axis=(1, 2), keepdims=True) ** 0.5)
    for _ in range(iterations):
        s = x @ x.swapaxes(1, 2)
        square = s @ s
        launch("update.combine", (s,), s, square, b, c)
        launch("update.combine", (x,), x, s @ x, a, 1.0)
    return x


def _squares(places: Array, parameters: Sequence[Array]) -> Array:
    """The square of the norm of each parameter, (tensors,)."""
    squares = array_module(places).empty((len(parameters), NORM_SHARES), parameters[0].dtype)
    launch("update.parameter_squares", (squares,), places, len(parameters), NORM_SHARES)
    return squares.sum(axis=1)
