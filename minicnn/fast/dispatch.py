"""The dispatch tables: which functions have faster versions, and when each is used.

TABLE is about ops on NumPy's arrays, GPU_TABLE about ops on arrays where kernels run.  A version has the signature of
its op and returns the same (y, vjp), up to rounding.  The first row of an op whose condition holds is used; if none
holds, the textbook is.

OPTIMISERS is about the functions of minicnn/optim.py: the rules, which are the functions `update` (or `update_all`,
where whole parameters are needed), and the norm of all gradients.  A new optimiser with a kernel is a class in
optim.py, a kernel in cuda/update.cu that cuda/update.py starts, and a row here; without a row the textbook is used.

MOMENTS, RUNNING and COUNTS are about ops.batch_moments, what BatchNorm keeps of them, and ops.wrong_answers, which are
not ops: nothing is differentiated through them.

MINICNN_FAST=0 in the environment switches all off, and MINICNN_CONV=textbook, im2col, winograd or taps (where it
applies) chooses among the convolutions.

batches.py is not in a table, because there is no textbook that it has to agree with.  It decides once per training,
from the size of the data set, where the batches wait for the GPU; the Trainer calls it, and MINICNN_FAST=0 switches it
off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from minicnn import ops, optim
from minicnn.autodiff import Op, Pair
from minicnn.fast import fused
from minicnn.fast.cpu import elementwise, im2col, linear, norm, pool, taps, winograd, winograd_wide
from minicnn.fast.cuda import elementwise as cuda_elementwise
from minicnn.fast.cuda import im2col as cuda_im2col
from minicnn.fast.cuda import linear as cuda_linear
from minicnn.fast.cuda import loss as cuda_loss
from minicnn.fast.cuda import muon as cuda_muon
from minicnn.fast.cuda import norm as cuda_norm
from minicnn.fast.cuda import pool as cuda_pool
from minicnn.fast.cuda import update as cuda_update
from minicnn.fast.cuda import winograd as cuda_winograd
from minicnn.fast.native import im2col as native_im2col
from minicnn.fast.native import pool as native_pool
from minicnn.fast.native import winograd as native_winograd
from minicnn.fast.native.library import available
from minicnn.ops.loss import FASTER_COUNTS
from minicnn.ops.norm import FASTER_MOMENTS, FASTER_RUNNING

Condition = Callable[..., bool]
TAPS_BATCH = 16  # images: with fewer, reading the weights is most of the work
CONVOLUTIONS = ("textbook", "im2col", "winograd", "taps")


def _chosen(name: str, fits: Condition) -> Condition:
    """`fits`, unless MINICNN_CONV names another convolution."""

    def condition(*arrays: Any, **static: Any) -> bool:
        return fits(*arrays, **static) and forced_convolution() in (None, name)

    return condition


def _tiny(x: Any, *others: Any, **static: Any) -> bool:
    """Images that are best done tap by tap; not few of them where a kernel in C reads each weight once."""
    if not taps.fits(x, *others, **static):
        return False
    return len(x) >= TAPS_BATCH or not available(x) or forced_convolution() == "taps"


def _fused(name: str, fits: Condition) -> Condition:
    """The same for a convolution with what follows it: as the table chooses for the convolution alone."""
    alone, tiny = _chosen(name, fits), _chosen("taps", _tiny)

    def condition(x: Any, w: Any, *others: Any, activation: str | None = None, **static: Any) -> bool:
        return alone(x, w, **static) and not tiny(x, w, **static)

    return condition


def forced_convolution() -> str | None:
    """What MINICNN_CONV says; None: the table chooses."""
    name = os.environ.get("MINICNN_CONV")
    if name not in (None, *CONVOLUTIONS):
        raise ValueError(f"MINICNN_CONV must be one of {', '.join(CONVOLUTIONS)}, got {name!r}")
    return name


TABLE: list[tuple[Op, Condition, Callable[..., Pair]]] = [
    # op              condition                                  version
    (ops.conv2d, _chosen("taps", _tiny), taps.conv2d),
    (ops.conv2d, _chosen("winograd", native_winograd.fits), native_winograd.conv2d),
    (ops.conv2d, _chosen("im2col", native_im2col.fits), native_im2col.conv2d),
    (fused.conv2d_activated, _fused("winograd", native_winograd.fits), native_winograd.conv2d),
    (fused.conv2d_activated, _fused("im2col", native_im2col.fits), native_im2col.conv2d),
    (fused.conv2d_normalised, _fused("winograd", native_winograd.fits), native_winograd.conv2d_normalised),
    (fused.conv2d_normalised, _fused("im2col", native_im2col.fits), native_im2col.conv2d_normalised),
    (ops.max_pool2d, native_pool.fits, native_pool.max_pool2d),
    # where there is no C compiler
    (ops.conv2d, _chosen("winograd", winograd_wide.fits), winograd_wide.conv2d),
    (ops.conv2d, _chosen("winograd", winograd.fits), winograd.conv2d),
    (ops.conv2d, _chosen("im2col", im2col.fits), im2col.conv2d),
    (ops.linear, linear.fits, linear.linear),
    (ops.relu, elementwise.fits, elementwise.relu),
    (ops.crelu, elementwise.fits_crelu, elementwise.crelu),
    (ops.dropout, elementwise.fits_dropout, elementwise.dropout),
    (ops.max_pool2d, pool.fits, pool.max_pool2d),
    (ops.batch_norm, norm.fits, norm.batch_norm),
]

GPU_TABLE: list[tuple[Op, Condition, Callable[..., Pair]]] = [
    (ops.conv2d, _chosen("winograd", cuda_winograd.fits), cuda_winograd.conv2d),
    (ops.conv2d, _chosen("im2col", cuda_im2col.fits), cuda_im2col.conv2d),
    (fused.conv2d_activated, _chosen("winograd", cuda_winograd.fits), cuda_winograd.conv2d),
    (fused.conv2d_activated, _chosen("im2col", cuda_im2col.fits), cuda_im2col.conv2d),
    (ops.linear, cuda_linear.fits, cuda_linear.linear),
    (ops.relu, cuda_elementwise.fits, cuda_elementwise.relu),
    (ops.leaky_relu, cuda_elementwise.fits, cuda_elementwise.leaky_relu),
    (ops.avr, cuda_elementwise.fits, cuda_elementwise.avr),
    (ops.crelu, cuda_elementwise.fits_crelu, cuda_elementwise.crelu),
    (ops.dropout, cuda_elementwise.fits_dropout, cuda_elementwise.dropout),
    (ops.max_pool2d, cuda_pool.fits_max, cuda_pool.max_pool2d),
    (ops.avg_pool2d, cuda_pool.fits, cuda_pool.avg_pool2d),
    (ops.global_avg_pool, cuda_pool.fits_global, cuda_pool.global_avg_pool),
    (ops.batch_norm, cuda_norm.fits, cuda_norm.batch_norm),
    (ops.softmax_cross_entropy, cuda_loss.fits, cuda_loss.softmax_cross_entropy),
]

OPTIMISERS: list[tuple[Callable[..., Any], Condition, Callable[..., Any]]] = [
    # function        condition                                  version: all parameters in one launch
    (optim.norm, cuda_update.fits, cuda_update.norm),
    (optim.SGD.update, cuda_update.fits, cuda_update.sgd),
    (optim.Adam.update, cuda_update.fits, cuda_update.adam),
    (optim.Muon.update_all, cuda_update.fits, cuda_muon.muon),
]

MOMENTS = [(cuda_norm.fits_moments, cuda_norm.batch_moments)]
RUNNING = [(cuda_norm.fits_running, cuda_norm.update_running)]
COUNTS = [(cuda_loss.fits_count, cuda_loss.wrong_answers)]

for _op, _fits, _version in TABLE:
    _op.faster.append((_fits, _version))
for _op, _fits, _version in GPU_TABLE:
    _op.faster_on_gpu.append((_fits, _version))
for _function, _fits, _version in OPTIMISERS:
    optim.FASTER.setdefault(_function, []).append((_fits, _version))
FASTER_MOMENTS.extend(MOMENTS)
FASTER_RUNNING.extend(RUNNING)
FASTER_COUNTS.extend(COUNTS)
