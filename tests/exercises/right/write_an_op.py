from minicnn.autodiff import Grads, Pair, op
from minicnn.backend import Array, array_module


@op
def glu(x: Array, *, axis: int = -1) -> Pair:
    """y = a s, s = sigmoid(b), [a, b] = x.        ga = g s,  gb = g a s (1 - s)."""
    xp = array_module(x)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: axis {axis} of x {x.shape} must hold two blocks of equal size, so be even")
    a, b = xp.split(x, 2, axis)
    s = (1 + xp.tanh(b / 2)) / 2

    def vjp(g: Array) -> Grads:
        return (xp.concatenate((g * s, g * a * s * (1 - s)), axis),)

    return a * s, vjp
