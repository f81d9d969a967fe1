"""The operations: pure functions of arrays, each with its derivative beside it.

Start with activation.py (the paper's subject), then windows.py and conv.py.
"""

from minicnn.ops.activation import (
    antirectifier,
    avr,
    concatenated,
    crelu,
    crelu_inverse,
    leaky_relu,
    relu,
    soft_threshold,
)
from minicnn.ops.basic import add, concat, divide, getitem, linear, matmul, multiply, negative, reshape, subtract
from minicnn.ops.conv import conv2d
from minicnn.ops.dropout import dropout
from minicnn.ops.elementary import exp, log, power, sigmoid
from minicnn.ops.loss import log_softmax, softmax, softmax_cross_entropy, wrong_answers
from minicnn.ops.norm import batch_moments, batch_norm
from minicnn.ops.pool import avg_pool2d, global_avg_pool, max_pool2d, max_pool2d_switches
from minicnn.ops.reduce import reduce_mean, reduce_sum
from minicnn.ops.windows import Windows, fold, unfold

__all__ = [
    "Windows",
    "add",
    "antirectifier",
    "avg_pool2d",
    "avr",
    "batch_moments",
    "batch_norm",
    "concat",
    "concatenated",
    "conv2d",
    "crelu",
    "crelu_inverse",
    "divide",
    "dropout",
    "exp",
    "fold",
    "getitem",
    "global_avg_pool",
    "leaky_relu",
    "linear",
    "log",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "max_pool2d_switches",
    "multiply",
    "negative",
    "power",
    "reduce_mean",
    "reduce_sum",
    "relu",
    "reshape",
    "sigmoid",
    "soft_threshold",
    "softmax",
    "softmax_cross_entropy",
    "subtract",
    "unfold",
    "wrong_answers",
]
