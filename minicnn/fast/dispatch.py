"""The dispatch table: which op has faster versions, and when each is used.

A version has the signature of its op and returns the same (y, vjp), up to rounding.  The first row of an op whose
condition holds is used; if none holds, the textbook is.  MINICNN_FAST=0 in the environment switches all off, and
MINICNN_CONV=textbook, im2col, winograd or taps (where it applies) chooses among the convolutions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from minicnn import ops
from minicnn.autodiff import Op, Pair
from minicnn.fast.cpu import elementwise, im2col, norm, pool, taps, winograd, winograd_wide

Condition = Callable[..., bool]


def _chosen(name: str, fits: Condition) -> Condition:
    """`fits`, unless MINICNN_CONV names another convolution."""

    def condition(*arrays: Any, **static: Any) -> bool:
        return os.environ.get("MINICNN_CONV", name) == name and fits(*arrays, **static)

    return condition


TABLE: list[tuple[Op, Condition, Callable[..., Pair]]] = [
    # op              condition                                  version
    (ops.conv2d, _chosen("taps", taps.fits), taps.conv2d),
    (ops.conv2d, _chosen("winograd", winograd_wide.fits), winograd_wide.conv2d),
    (ops.conv2d, _chosen("winograd", winograd.fits), winograd.conv2d),
    (ops.conv2d, _chosen("im2col", im2col.fits), im2col.conv2d),
    (ops.linear, im2col.fits_linear, im2col.linear),
    (ops.relu, elementwise.fits, elementwise.relu),
    (ops.crelu, elementwise.fits_crelu, elementwise.crelu),
    (ops.dropout, elementwise.fits_dropout, elementwise.dropout),
    (ops.max_pool2d, pool.fits, pool.max_pool2d),
    (ops.batch_norm, norm.fits, norm.batch_norm),
]

for _op, _fits, _version in TABLE:
    _op.faster.append((_fits, _version))
