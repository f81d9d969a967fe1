"""The dispatch table: which op has faster versions, and when each is used.

A version has the signature of its op and returns the same (y, vjp), up to rounding.  The first row of an op whose
condition holds is used; if none holds, the textbook is.  MINICNN_FAST=0 in the environment switches all off.
"""

from __future__ import annotations

from collections.abc import Callable

from minicnn import ops
from minicnn.autodiff import Op, Pair
from minicnn.fast.pointwise import conv2d_pointwise, is_pointwise

TABLE: list[tuple[Op, Callable[..., bool], Callable[..., Pair]]] = [
    # op            condition       version
    (ops.conv2d, is_pointwise, conv2d_pointwise),
]

for _op, _fits, _version in TABLE:
    _op.faster.append((_fits, _version))
