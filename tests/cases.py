"""The table that drives the tests of the ops: a new op is one row here.

example   (arrays, static, expected): worked out by hand
reference the loops of reference/, called with the same arguments
draw      how to draw arguments (tests/draw.py)
law       an algebraic identity that must hold for drawn arguments: law(op, *arrays, **static) asserts it
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import reference.activation
import reference.basic
import reference.conv
import reference.loss
import reference.norm
import reference.pool
from minicnn import Stream, ops
from minicnn.autodiff import Op
from minicnn.fast.fused import conv2d_activated, conv2d_normalised
from tests import draw, laws

A = np.array


@dataclass(frozen=True)
class Case:
    op: Op
    example: tuple[tuple[Any, ...], dict[str, Any], Any]
    reference: Callable[..., np.ndarray]
    draw: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
    law: Callable[..., None]


def _draw_dropout(d):
    (x,), _ = draw.one_array(d)
    return (x,), {"rate": 0.3, "stream": Stream(1).child("test").at(step=2)}


def _dropout_by_mask(x, *, rate, stream):
    """The bits of the stream are checked in tests/test_random.py; here, what becomes of them."""
    threshold = round(rate * 65536)
    keep = stream.uniform16(len(x), x[0].size).reshape(x.shape) >= threshold
    return reference.basic.dropout_with_mask(x, keep, scale=65536 / (65536 - threshold))


def _draw_soft_threshold(d):
    arrays, static = draw.with_axis(d)
    return arrays, {**static, "threshold": 1 / math.pi}  # no drawn magnitude is that close to it


def _draw_concatenated(d):
    arrays, static = draw.with_axis(d)
    return arrays, {**static, "activation": ops.leaky_relu, "slope": 0.3}


def _concatenated_by_loops(x, *, activation, **static):
    return reference.activation.concatenated(x, activation=getattr(reference.activation, activation.name), **static)


def _conv2d_activated_by_loops(x, w, b, *, activation, **static):
    y = reference.conv.conv2d(x, w, b, **static)
    return reference.activation.relu(y) if activation == "relu" else reference.activation.crelu(y, axis=-1)


def _conv2d_normalised_by_loops(x, w, scale, shift, *, activation, **static):
    y = reference.conv.conv2d(x, w, np.zeros_like(shift), **static)
    for channel in range(len(scale)):
        y[..., channel] = scale[channel] * y[..., channel] + shift[channel]
    return getattr(reference.activation, activation)(y) if activation else y


_image = A([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]).reshape(1, 3, 3, 1)
_pair = (A([[1.0, -2], [3, 4]]), A([10.0, 20]))

CASES = [
    Case(ops.add, (_pair, {}, [[11, 18], [13, 24]]), reference.basic.add, draw.broadcastable, laws.add),
    Case(
        ops.subtract, (_pair, {}, [[-9, -22], [-7, -16]]), reference.basic.subtract, draw.broadcastable, laws.subtract
    ),
    Case(ops.multiply, (_pair, {}, [[10, -40], [30, 80]]), reference.basic.multiply, draw.broadcastable, laws.multiply),
    Case(ops.divide, (_pair, {}, [[0.1, -0.1], [0.3, 0.2]]), reference.basic.divide, draw.broadcastable, laws.divide),
    Case(ops.negative, ((A([1.0, -2]),), {}, [-1, 2]), reference.basic.negative, draw.one_array, laws.involution),
    Case(
        ops.matmul,
        ((A([[1.0, 2], [3, 4]]), A([[0.0, 1], [1, 0]])), {}, [[2, 1], [4, 3]]),
        reference.basic.matmul,
        draw.matrices,
        laws.matmul,
    ),
    Case(
        ops.linear,
        ((A([[1.0, 2]]), A([[1.0, 0, 3], [0, 1, 1]]), A([0.5, 0, 0])), {}, [[1.5, 2, 5]]),
        reference.basic.linear,
        draw.linear,
        laws.linear,
    ),
    Case(
        ops.reduce_sum,
        ((A([[1.0, 2], [3, 4]]),), {"axis": 0}, [4, 6]),
        reference.basic.reduce_sum,
        draw.reduction,
        laws.reduce_sum,
    ),
    Case(
        ops.reduce_mean,
        ((A([[1.0, 2], [3, 4]]),), {"axis": 1, "keepdims": True}, [[1.5], [3.5]]),
        reference.basic.reduce_mean,
        draw.reduction,
        laws.reduce_mean,
    ),
    Case(
        ops.reshape,
        ((A([[1.0, 2, 3], [4, 5, 6]]),), {"shape": (3, -1)}, [[1, 2], [3, 4], [5, 6]]),
        reference.basic.reshape,
        draw.reshape,
        laws.keeps_values,
    ),
    Case(
        ops.exp, ((A([0.0, math.log(2), -1]),), {}, [1, 2, 1 / math.e]), reference.basic.exp, draw.one_array, laws.exp
    ),
    Case(ops.log, ((A([1.0, math.e, 0.5]),), {}, [0, 1, -math.log(2)]), reference.basic.log, draw.positive, laws.log),
    Case(
        ops.sigmoid,
        ((A([0.0, math.log(3), -math.log(3)]),), {}, [0.5, 0.75, 0.25]),
        reference.basic.sigmoid,
        draw.one_array,
        laws.sigmoid,
    ),
    Case(
        ops.power,
        ((A([-2.0, 0.5, 3]),), {"exponent": 3}, [-8, 0.125, 27]),
        reference.basic.power,
        draw.power,
        laws.power,
    ),
    Case(
        ops.getitem,
        ((A([[1.0, 2, 3], [4, 5, 6]]),), {"at": (1, None, slice(None, None, -2))}, [[6, 4]]),
        reference.basic.getitem,
        draw.getitem,
        laws.getitem,
    ),
    Case(
        ops.concat,
        ((A([[1.0], [2]]), A([[3.0, 4], [5, 6]])), {}, [[1, 3, 4], [2, 5, 6]]),
        reference.basic.concat,
        draw.several,
        laws.concat,
    ),
    Case(
        # the three samples are alike but their masks are not; the bits are those of reference/philox.py
        ops.dropout,
        (
            (np.ones((3, 4)),),
            {"rate": 0.5, "stream": Stream(0).child("dropout")},
            [[2, 0, 0, 2], [2, 2, 0, 0], [0, 0, 0, 0]],
        ),
        _dropout_by_mask,
        _draw_dropout,
        laws.dropout,
    ),
    Case(ops.relu, ((A([-1.0, 0, 2]),), {}, [0, 0, 2]), reference.activation.relu, draw.one_array, laws.relu),
    Case(
        ops.leaky_relu,
        ((A([-1.0, 0, 2]),), {"slope": 0.1}, [-0.1, 0, 2]),
        reference.activation.leaky_relu,
        draw.one_array,
        laws.leaky_relu,
    ),
    Case(ops.avr, ((A([-1.0, 0, 2]),), {}, [1, 0, 2]), reference.activation.avr, draw.one_array, laws.avr),
    Case(
        ops.crelu,
        ((A([[-1.0, 2], [3, 0]]),), {}, [[0, 2, 1, 0], [3, 0, 0, 0]]),
        reference.activation.crelu,
        draw.with_axis,
        laws.crelu,
    ),
    Case(
        ops.crelu_inverse,
        ((A([[0.0, 2, 1, 0], [3, 0, 0, 0]]),), {}, [[-1, 2], [3, 0]]),
        reference.activation.crelu_inverse,
        lambda d: draw.with_axis(d, even=True),
        laws.crelu_inverse,
    ),
    Case(
        ops.concatenated,
        ((A([[-1.0, 2]]),), {"activation": ops.leaky_relu, "slope": 0.5}, [[-0.5, 2, 1, -1]]),
        _concatenated_by_loops,
        _draw_concatenated,
        laws.concatenated,
    ),
    Case(
        ops.soft_threshold,
        ((A([[-1.0, 0.1, 2]]),), {"threshold": 0.5}, [[0, 0, 1.5, 0.5, 0, 0]]),
        reference.activation.soft_threshold,
        _draw_soft_threshold,
        laws.soft_threshold,
    ),
    Case(
        ops.antirectifier,
        ((A([[1.0, 1, 7]]),), {}, A([[0, 0, 4, 2, 2, 0]]) / math.sqrt(24)),
        reference.activation.antirectifier,
        draw.vectors,
        laws.antirectifier,
    ),
    Case(
        ops.conv2d,
        (
            (_image, A([[1.0, 0], [0, -1]]).reshape(2, 2, 1, 1), A([0.5])),
            {"pad": ((1, 0), (0, 0))},
            A([[-1.5, -2.5], [-3.5, -3.5], [-3.5, -3.5]]).reshape(1, 3, 2, 1),
        ),
        reference.conv.conv2d,
        draw.any_conv,
        laws.conv2d,
    ),
    Case(
        conv2d_activated,
        (
            (_image, A([[1.0, 0], [0, -1]]).reshape(2, 2, 1, 1), A([3.0])),
            {"pad": ((1, 0), (0, 0)), "activation": "crelu"},
            A([[[1.0, 0], [0, 0]], [[0, 1], [0, 1]], [[0, 1], [0, 1]]])[None],
        ),
        _conv2d_activated_by_loops,
        draw.activated(draw.any_conv),
        laws.conv2d_activated,
    ),
    Case(
        conv2d_normalised,
        (
            (_image, A([[1.0, 0], [0, -1]]).reshape(2, 2, 1, 1), A([-2.0]), A([-6.0])),
            {"pad": ((1, 0), (0, 0)), "activation": "crelu"},
            A([[[0.0, 2], [0, 0]], [[2, 0], [2, 0]], [[2, 0], [2, 0]]])[None],
        ),
        _conv2d_normalised_by_loops,
        draw.normalised(draw.any_conv),
        laws.conv2d_normalised,
    ),
    Case(
        ops.max_pool2d,
        ((_image,), {"k": 2, "ceil": True}, A([[5.0, 6], [8, 9]]).reshape(1, 2, 2, 1)),
        reference.pool.max_pool2d,
        draw.pool,
        laws.max_pool2d,
    ),
    Case(
        ops.avg_pool2d,
        ((_image,), {"k": 2, "ceil": True}, A([[3.0, 4.5], [7.5, 9]]).reshape(1, 2, 2, 1)),
        reference.pool.avg_pool2d,
        draw.avg_pool,
        laws.avg_pool2d,
    ),
    Case(
        ops.global_avg_pool,
        ((_image,), {}, [[5]]),
        reference.pool.global_avg_pool,
        draw.images,
        laws.global_avg_pool,
    ),
    Case(
        ops.batch_norm,
        ((A([[1.0], [3]]), A([2.0]), A([10.0])), {"eps": 3.0}, [[9], [11]]),
        reference.norm.batch_norm,
        draw.norm,
        laws.batch_norm,
    ),
    Case(
        ops.softmax,
        ((A([[0.0, math.log(3)]]),), {}, [[0.25, 0.75]]),
        reference.loss.softmax,
        lambda d: (draw.logits(d)[0][:1], {}),
        laws.softmax,
    ),
    Case(
        ops.log_softmax,
        ((A([[0.0, math.log(3)]]),), {}, [[-math.log(4), math.log(0.75)]]),
        reference.loss.log_softmax,
        lambda d: (draw.logits(d)[0][:1], {}),
        laws.log_softmax,
    ),
    Case(
        ops.softmax_cross_entropy,
        ((A([[0.0, math.log(3)], [0, 0]]), A([0, 1])), {}, math.log(8) / 2),
        reference.loss.softmax_cross_entropy,
        draw.logits,
        laws.softmax_cross_entropy,
    ),
]
