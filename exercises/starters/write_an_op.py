"""Write an operation and its derivative: the gated linear unit.

Split x into two halves of equal size along `axis`, first a, then b.  Then

    y = a * sigmoid(b),        sigmoid(t) = 1 / (1 + exp(-t)).
"""

from minicnn.autodiff import Pair, op
from minicnn.backend import Array


@op
def glu(x: Array, *, axis: int = -1) -> Pair:
    """y = a * sigmoid(b), [a, b] = x.        gx = ?"""
    raise NotImplementedError("return y and vjp: vjp(g) returns a tuple with one array, the gradient of x")
