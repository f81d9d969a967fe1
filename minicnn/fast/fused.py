"""A convolution and what follows it as one op: what lies between them need not be written to memory.

    conv2d_activated     with ReLU or CReLU
    conv2d_normalised    with a batch normalisation by fixed moments, and then perhaps ReLU or CReLU: in evaluation

`Sequential` uses them for such layers (Conv2d.with_next); minicnn/ops knows nothing of it.  Versions are chosen in the
dispatch table.  Where there is none, the ops are called one after the other, each by its own fastest version.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicnn import ops
from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array
from minicnn.ops.reduce import sum_to_channels
from minicnn.ops.windows import Pad, Size

ACTIVATIONS = {"relu": ops.relu, "crelu": ops.crelu}


@op(selective=True)
def conv2d_activated(
    x: Array, w: Array, b: Array | None = None, *, activation: str, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """ops.relu or ops.crelu, as `activation` says, of ops.conv2d."""
    y, conv_vjp = ops.conv2d.pair(x, w, b, stride=stride, pad=pad)
    z, activation_vjp = ACTIVATIONS[activation].pair(y)

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True)) -> Grads:
        return conv_vjp(*activation_vjp(g), needs)

    return z, vjp


@op(selective=True)
def conv2d_normalised(
    x: Array, w: Array, scale: Array, shift: Array, *, activation: str | None = None, stride: Size = 1, pad: Pad = 0
) -> Pair:
    """The activation, if there is one, of scale y + shift, with y = ops.conv2d(x, w) and two numbers per filter."""
    y, conv_vjp = ops.conv2d.pair(x, w, stride=stride, pad=pad)
    z = y * scale + shift
    out, activation_vjp = ACTIVATIONS[activation].pair(z) if activation else (z, lambda g: (g,))

    def vjp(g: Array, needs: Sequence[bool] = (True, True, True, True)) -> Grads:
        (gz,) = activation_vjp(g)
        gx, gw, _ = conv_vjp(gz * scale, (*needs[:2], False))
        return gx, gw, sum_to_channels(gz * y) if needs[2] else None, sum_to_channels(gz) if needs[3] else None

    return out, vjp
