"""Every kernel in C on awkward sizes, against the textbook: a program, for builds that need a process of their own.

CC="gcc -fsanitize=address" ... python -m tests.fast.native.cases float32 8

It is told the precision (bf16: float32 with products in bf16), and may be told how many numbers a vector must have.
Arrays end where their memory ends, so that a sanitiser sees who reads on.
"""

import itertools
import os
import sys

import numpy as np
import pytest

from minicnn import Tape, ops
from minicnn.fast.fused import conv2d_activated, conv2d_normalised
from minicnn.fast.native import im2col, library, pool, winograd
from minicnn.precision import PRECISION
from tests.fast.native import test_bf16
from tests.fast.native.ways import share_out

CHANNELS = [(1, 1), (3, 5), (7, 9), (8, 16), (13, 17), (33, 31)]
POOLS = [{"k": 2}, {"k": 3, "stride": 2, "pad": 1, "ceil": True}, {"k": (3, 2), "stride": (1, 3), "pad": (2, 1)}]


def exact_scratch(name, shape, dtype):
    return np.empty(shape, dtype)


def check(op, version, tolerance, arrays, **static):
    y, vjp = version(*arrays, **static)
    doubles = [None if a is None else a.astype(np.float64) for a in arrays]
    expected, expected_vjp = op.textbook(*doubles, **static)
    g = np.random.default_rng(1).normal(size=y.shape).astype(y.dtype)
    for ours, theirs in zip((y, *vjp(g)), (expected, *expected_vjp(g.astype(np.float64))), strict=True):
        if theirs is not None:
            assert ours.dtype == g.dtype
            assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max(), (version, static, arrays[0].shape)
    if op.selective:
        for needs in itertools.product([False, True], repeat=len(arrays)):
            vjp(g, needs)  # for the sanitisers: the numbers are tested elsewhere


def convolutions(dtype, tolerance):
    rng = np.random.default_rng(0)
    for (c, f), by_places in ((pair, places) for pair in CHANNELS for places in (False, True)):
        x = rng.normal(size=(3, 9, 6, c)).astype(dtype)
        b = (40 * rng.choice([-1, 1], f)).astype(dtype)  # so large that no kink is near
        with pytest.MonkeyPatch.context() as patch:
            share_out(patch, by_places=by_places)
            for module in (im2col, winograd):
                patch.setattr(module, "scratch", exact_scratch)
            for k, stride, pad, version in (
                (3, 1, 1, winograd.conv2d),
                (3, 1, ((0, 2), (1, 0)), winograd.conv2d),
                (5, 1, ((1, 2), (2, 0)), winograd.conv2d),
                (1, 1, 0, im2col.conv2d),
                (1, 2, 1, im2col.conv2d),
                (3, 2, 1, im2col.conv2d),
                (5, 1, (4, 0), im2col.conv2d),
            ):
                if by_places and version is im2col.conv2d:
                    continue
                w = (rng.uniform(-1, 1, (k, k, c, f)) / (k * k * c)).astype(dtype)
                static = {"pad": pad} | ({} if version is winograd.conv2d else {"stride": stride})
                check(ops.conv2d, version, tolerance, (x, w, None), **static)
                for activation in ("relu", "crelu"):
                    check(conv2d_activated, version, tolerance, (x, w, b), activation=activation, **static)
                module = im2col if version is im2col.conv2d else winograd
                for activation in (None, "crelu"):
                    arrays = (x, w, np.full(f, -1.5, dtype), b)
                    check(
                        conv2d_normalised, module.conv2d_normalised, tolerance, arrays, activation=activation, **static
                    )
        with pytest.MonkeyPatch.context() as patch:
            share_out(patch, by_places=by_places, tiles=64, pixels=200, blocks=1 << 26)  # large products
            check(ops.conv2d, winograd.conv2d, tolerance, (x, w[:3, :3].copy(), b), pad=2)
            check(ops.conv2d, im2col.conv2d, tolerance, (x, w, b), pad=2)


def few_rows(dtype, tolerance):
    """Products whose few rows meet a wide matrix as it is in memory."""
    rng = np.random.default_rng(0)
    for n, size, f in ((1, 2, 16), (1, 4, 48), (1, 5, 64), (6, 4, 80)):
        x, w = rng.normal(size=(n, size, size, 21)).astype(dtype), rng.normal(size=(3, 3, 21, f)).astype(dtype)
        check(ops.conv2d, im2col.conv2d, tolerance, (x, w, rng.normal(size=f).astype(dtype)), pad=1)


def main(precision, lanes=None):
    os.environ["MINICNN_FAST"] = "0"  # for the textbook of conv2d_activated
    dtype = np.dtype("float32" if precision == "bf16" else precision)
    tolerance = {"float32": 3e-5, "float64": 1e-13, "bf16": 0.2}[precision]
    os.environ[PRECISION] = "bf16" if precision == "bf16" else "float32"
    assert library.kernels_with_products(dtype) is not None, library._problem
    assert lanes is None or library.lanes(dtype) == int(lanes), library.lanes(dtype)
    if precision == "bf16":  # above, errors may be large; these know what is rounded, and how
        test_bf16.test_numbers_halfway_go_to_the_even_one()
        test_bf16.test_factors_are_rounded_and_nothing_else()
        test_bf16.test_nan_and_infinity_pass_through_to_their_row_alone(transposed=False)
    convolutions(dtype, tolerance)
    few_rows(dtype, tolerance)
    for c in sorted({c for pair in CHANNELS for c in pair}):
        x = np.random.default_rng(0).permutation(2 * 7 * 8 * c).reshape(2, 7, 8, c).astype(dtype)
        for static in POOLS:
            with Tape():  # then it notes the maxima at once
                check(ops.max_pool2d, pool.max_pool2d, tolerance, (x,), **static)
            check(ops.max_pool2d, pool.max_pool2d, tolerance, (x,), **static)
    print("all kernels are right")


if __name__ == "__main__":
    main(*sys.argv[1:])
