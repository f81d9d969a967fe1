"""A convolution and the activation that follows it as one op: what lies between them need not be written to memory.

`Sequential` uses it for two such layers (Conv2d.with_activation); minicnn/ops knows nothing of it.  A version for both
is chosen in the dispatch table.  Where there is none, the two ops are called one after the other, each by its own
fastest version.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicnn import ops
from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array
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
