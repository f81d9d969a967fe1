"""conv2d against the loops of exercises/slow_layer.py: the same numbers, in a tenth of the time."""

from __future__ import annotations

from time import process_time
from types import ModuleType

import numpy as np

from exercises import slow_layer
from exercises.grading import AnswerError, call, parts, run, same
from minicnn.blas import one_blas_thread

FACTOR = 10
ROUNDS, CALLS = 3, 3  # calls of the answer per round; the loops are called once, which takes long enough
SHAPES = [  # x, w, stride, pad
    ((1, 3, 3, 1), (2, 2, 1, 1), 1, 0),
    ((2, 5, 6, 3), (3, 3, 3, 4), 1, 1),
    ((2, 7, 6, 2), (3, 3, 2, 3), 2, 1),
    ((1, 6, 6, 2), (2, 2, 2, 2), 3, 0),  # the last row and column are not seen
    ((2, 4, 5, 3), (1, 1, 3, 2), 1, 0),
]


def check(answer: ModuleType, rng: np.random.Generator) -> None:
    for shape, filters, stride, pad in SHAPES:
        x, w = rng.normal(size=shape), rng.normal(size=filters)
        given = f"x {shape}, w {filters}, stride={stride}, pad={pad}"
        y, vjp = slow_layer.conv2d(x, w, stride=stride, pad=pad)
        g = rng.normal(size=y.shape)
        gx, gw = vjp(g)
        got, got_vjp = parts("conv2d(x, w)", call(answer, "conv2d", x, w, stride=stride, pad=pad), 2)
        same("y", got, y, given=given)
        got_gx, got_gw = parts("vjp(g)", run(answer, got_vjp, g), 2)
        same("gx", got_gx, gx, given=given)
        same("gw", got_gw, gw, given=given)
    examine_speed(answer, rng)


def examine_speed(answer: ModuleType, rng: np.random.Generator) -> None:
    """The best of several rounds, loops and answer in turn, in processor seconds, with one BLAS thread.

    Time in which other programs use the processor does not count, nor do threads that wait for each other.
    """
    x, w, g = (rng.normal(size=shape) for shape in ((1, 12, 12, 4), (3, 3, 4, 64), (1, 12, 12, 64)))

    def seconds(module: ModuleType) -> float:
        start = process_time()
        _, vjp = call(module, "conv2d", x, w, pad=1)
        run(module, vjp, g)
        return process_time() - start

    with one_blas_thread():
        rounds = [(seconds(slow_layer), min(seconds(answer) for _ in range(CALLS))) for _ in range(ROUNDS)]
    slow, fast = (min(times) for times in zip(*rounds, strict=True))
    if slow < FACTOR * fast:
        raise AnswerError(
            f"the numbers are right, but it is not fast enough: x {x.shape}, w {w.shape}, pad=1, forward and vjp\n"
            f"  the loops  {1000 * slow:.1f} ms\n  yours      {1000 * fast:.1f} ms\n"
            f"  expected   at least {FACTOR} times as fast\n  got        {slow / fast:.1f} times"
        )
