"""An op of your own, its derivative checked, and a layer around it: softplus with a sharpness that is learned.

python examples/own_op.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicnn import Parameter, Stream, Tape, nn, op, ops
from minicnn.autodiff import Grads, Pair
from minicnn.backend import Array, array_module
from minicnn.gradcheck import check_gradient
from minicnn.nn.module import Train
from minicnn.optim import SGD


@op
def softplus(x: Array, b: Array) -> Pair:
    """y = ln(1 + e^(b x)) / b.        gx = g s,  gb = sum of g (x s - y) / b,  with s = 1 / (1 + e^(-b x))."""
    xp = array_module(x)  # NumPy or CuPy: one body for both
    y = xp.logaddexp(0, b * x).astype(x.dtype) / b

    def vjp(g: Array) -> Grads:
        s = ops.sigmoid.textbook(b * x)[0]
        return g * s, (g * (x * s - y) / b).sum().reshape(b.shape)

    return y, vjp


class Softplus(nn.Module):
    """A layer owns parameters, and its forward calls ops."""

    def __init__(self) -> None:
        self.sharpness = Parameter(np.ones(1, np.float32))

    def forward(self, x: Any, train: Train, stream: Stream | None) -> Any:
        return softplus(x, self.sharpness)


def main(steps: int = 300) -> float:
    rng = np.random.default_rng(0)
    wrong = check_gradient(softplus, rng.normal(size=5), np.array([1.5]))
    print(f"beyond rounding, the derivative is wrong by {wrong:.1e}")
    x = rng.uniform(-2, 2, (64, 1)).astype(np.float32)
    target = np.abs(x)  # two softplus units learn to be sharp
    model = nn.Sequential(nn.Linear(1, 2), Softplus(), nn.Linear(2, 1)).initialise(seed=1)
    optimiser = SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        with Tape() as tape:
            loss = ((model(x, train=True) - target) ** 2).mean()
        tape.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
    sharpness = next(value for name, value in model.named_state() if name.endswith("sharpness"))
    print(f"mean square error {loss.item():.4f}, sharpness {float(sharpness.data[0]):.2f}")
    return loss.item()


if __name__ == "__main__":
    main()
