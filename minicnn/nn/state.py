"""Whether saved values fit a model: by name, by shape, and the right way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FROM_PYTORCH = (
    "PyTorch's matrices are (out, in), ours (in, out): give w.numpy().T; its filters are (out, in, kh, kw), ours "
    "(kh, kw, in, out): give w.numpy().transpose(2, 3, 1, 0)"
)


def check_state(own: Mapping[str, tuple[int, ...]], state: Mapping[str, Any]) -> None:
    """Raise if `state` does not have an array for each of our names, of our shape, and no other."""
    if not isinstance(state, Mapping):
        remedy = "minicnn.load gives (arrays, metadata): take [0]" if isinstance(state, tuple) else "see state_dict"
        raise TypeError(f"load_state_dict: expected a dict of arrays by name, got a {type(state).__name__}; {remedy}")
    problems = [f"missing: {name} {own[name]}" for name in own if name not in state]
    problems += [f"unexpected: {name} {np.shape(state[name])}" for name in state if name not in own]
    misshapen = [name for name in own if name in state and np.shape(state[name]) != own[name]]
    problems += [f"misshapen: {name} is {np.shape(state[name])}, the model has {own[name]}" for name in misshapen]
    if any(_turned(np.shape(state[name])) == own[name] for name in misshapen):
        problems.append(FROM_PYTORCH)
    if problems:
        raise ValueError("load_state_dict: the state does not fit the model:\n  " + "\n  ".join(problems))
    unclear = [f"{name} {own[name]}" for name in own if _turned(own[name]) == own[name] and _of_pytorch(state[name])]
    if unclear:
        raise TypeError(f"load_state_dict: from PyTorch, {', '.join(unclear)} fits either way round.  {FROM_PYTORCH}")


def _turned(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that a matrix or filters of PyTorch have here; () for all that nobody can confuse."""
    if len(shape) == 2:
        return (shape[1], shape[0])
    return (shape[2], shape[3], shape[1], shape[0]) if len(shape) == 4 else ()


def _of_pytorch(values: Any) -> bool:
    """Whether these are PyTorch's as they were there: its tensor, or an array in the memory of one (tensor.numpy()).

    An array that was turned shows it: it does not lie in the memory in the order of its axes.
    """
    types = [type(values), type(getattr(values, "base", None))]
    turned = isinstance(values, np.ndarray) and not values.flags.c_contiguous
    return not turned and any(kind.__module__.partition(".")[0] == "torch" for kind in types)
