"""EMA: a slow average of a model's weights, which often does better than the weights themselves.

    average = nn.EMA(model, decay=0.999)
    trainer = Trainer(model, optimiser, batches, device="cpu", seed=0, average=average)
    with average.applied():
        evaluate(model, ...)

The trainer updates it after every step, and saves it with the rest.  Inside the block, the model has the average.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from minicnn.backend import Array, device_of, to_host
from minicnn.nn.module import Module, put_like
from minicnn.nn.state import check_state
from minicnn.parallel import memory_for


class EMA:
    """a = decay a + (1 - decay) w after every step, for every parameter and buffer w; a = w at first.

    A buffer that does not hold real numbers is copied.
    """

    def __init__(self, model: Module, decay: float = 0.999):
        if not 0 <= decay < 1:
            raise ValueError(f"EMA: decay must be in [0, 1), got {decay}")
        self.model, self.decay, self.steps = model, float(decay), 0
        self._average: dict[str, Array] = {}

    def update(self) -> None:
        """Take in the weights that the model has now."""
        own = dict(self.model.named_state())
        if self.steps == 0:
            self._average = {name: _copy(value.data) for name, value in own.items()}  # all, or none if memory runs out
        else:
            for name, value in own.items():
                average = self._average[name]
                with device_of(value.data).active():
                    if average.dtype.kind == "f":
                        average *= self.decay
                        average += (1 - self.decay) * value.data
                    else:  # a count, say, which has no mean
                        average[...] = value.data
        self.steps += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block, the model has the averaged weights; do not train it there."""
        if not self.steps:
            raise RuntimeError("EMA: there is no average yet; call update() after each step")
        own = {name: value.data for name, value in self.model.named_state()}
        for name, value in self.model.named_state():
            value.data = self._average[name]
        try:
            yield
        finally:
            for name, value in self.model.named_state():
                value.data = own[name]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of the averages on the host, by path, and "steps"."""
        return {"steps": np.array(self.steps), **{name: np.array(to_host(a)) for name, a in self._average.items()}}

    def load_state_dict(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take over what `state_dict` gave; if it does not fit the model, nothing changes."""
        own = dict(self.model.named_state())
        arrays = {name: array for name, array in saved.items() if name != "steps"}
        steps = int(saved.get("steps", 0))
        if steps or arrays:
            check_state({name: tuple(value.data.shape) for name, value in own.items()}, arrays)
        self._average = {name: put_like(arrays[name], own[name].data) for name in arrays}
        self.steps = steps


def _copy(x: Array) -> Array:
    where = device_of(x)
    with where.active(), memory_for(where, "the average of the weights"):
        return x.copy()
