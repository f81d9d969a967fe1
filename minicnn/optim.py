"""Optimisers: rules that turn gradients into steps.

    optimiser = SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    ...
    tape.backward(loss)
    optimiser.step()
    optimiser.zero_grad()

`lr` and `weight_decay` are numbers or schedules (minicnn/schedule.py).  Weight decay is coupled: it is added to
the gradient as wd * p, the gradient of wd/2 ||p||^2 (but for Muon).  A parameter without a gradient is left alone.

Muon is for matrices.  Together joins it with an optimiser for the rest:

    Together(Muon(filters, lr=0.05), SGD(biases, lr=0.04, momentum=0.9))

A rule is a function of arrays, `update`.  minicnn/fast may have a faster version of it, and of `norm` (FASTER).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minicnn.autodiff import Parameter
from minicnn.backend import Array, array_module, device_of, fast_versions, to_host
from minicnn.parallel import cut, memory_for, over_batch, over_slices, sum_over_batch
from minicnn.schedule import Schedule, as_schedule

TEMPORARY_BYTES = 32  # that an update needs per number: a few arrays of 4 or 8 bytes

# function of this file -> [(fits, version)]: faster versions, entered by minicnn/fast/dispatch.py
FASTER: dict[Callable[..., Any], list[tuple[Callable[[Sequence[Array]], bool], Callable[..., Any]]]] = {}


def faster(textbook: Callable[..., Any], arrays: Sequence[Array]) -> Callable[..., Any] | None:
    """The first faster version of a function that fits these arrays; None if there is none."""
    if not fast_versions():
        return None
    return next((version for fits, version in FASTER.get(textbook, ()) if fits(arrays)), None)


def grad_norm(parameters: Iterable[Parameter]) -> Array | None:
    """The Euclidean norm of all gradients together, a scalar on their device (None if there are none)."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return (faster(norm, gradients) or norm)(gradients) if gradients else None


def norm(arrays: Sequence[Array]) -> Array:
    """The Euclidean norm of all these arrays together, a scalar on their device."""
    squares = [_square(array.reshape(-1)) for array in arrays]
    return sum(squares[1:], start=squares[0])[0] ** 0.5


def _square(g: Array) -> Array:
    """||g||^2 of a vector: (n,) -> (1,)."""
    total = array_module(g).zeros(1, g.dtype)

    def work(piece: slice, summand: Array) -> None:
        summand[...] = (g[piece] * g[piece]).sum()

    sum_over_batch(work, len(g), TEMPORARY_BYTES, into=total)
    return total


def _parameters(where: str, given: Any) -> list[Parameter]:
    """What an optimiser was given, as a list: Parameters, at least one, and each once."""
    if callable(getattr(given, "parameters", None)):
        raise TypeError(f"{where}: expected parameters, got a {type(given).__name__}; give model.parameters()")
    found = [given] if isinstance(given, Parameter) else list(given)
    other = next((type(p).__name__ for p in found if not isinstance(p, Parameter)), None)
    if other is not None:
        raise TypeError(f"{where}: expected Parameters, got a {other}; give model.parameters()")
    if len({id(p) for p in found}) != len(found):
        raise ValueError(f"{where}: a parameter was given twice")
    if not found:
        raise ValueError(f"{where}: got no parameters")
    return found


class Optimiser:
    """What all optimisers share: parameters, schedules, clipping, and a state that saves and restores exactly.

    lr, weight_decay   schedules; a number may be given, also later: optimiser.lr = 0.01
    clip               if given, gradients are scaled down together when their common norm exceeds it
    slots              the names of the arrays kept for each parameter
    """

    slots: tuple[str, ...] = ()
    _lr: Schedule
    _weight_decay: Schedule
    _clip: float | None

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float | Schedule,
        weight_decay: float | Schedule = 0.0,
        clip: float | None = None,
    ):
        self.parameters = _parameters(type(self).__name__, parameters)
        self.steps = 0  # taken so far, which is where the schedules are
        self.lr, self.weight_decay, self.clip = lr, weight_decay, clip
        self.updates = [0] * len(self.parameters)  # of each parameter: fewer, if its gradient came late
        self.state: list[dict[str, Array]] = [{} for _ in self.parameters]

    @property
    def lr(self) -> Schedule:
        return self._lr

    @lr.setter
    def lr(self, value: float | Schedule) -> None:
        self._lr = self._schedule("lr", value)

    @property
    def weight_decay(self) -> Schedule:
        return self._weight_decay

    @weight_decay.setter
    def weight_decay(self, value: float | Schedule) -> None:
        self._weight_decay = self._schedule("weight_decay", value)

    @property
    def clip(self) -> float | None:
        return self._clip

    @clip.setter
    def clip(self, value: float | None) -> None:
        if value is not None and not value > 0:
            raise ValueError(f"{type(self).__name__}: clip must be positive, got {value}")
        self._clip = None if value is None else float(value)

    def _schedule(self, name: str, value: float | Schedule) -> Schedule:
        schedule = as_schedule(value)
        self._rate(name, schedule)  # is it a number?
        return schedule

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        """Change every parameter in place, by the rule of `update`."""
        lr, decay = self._rates()
        where = device_of(self.parameters[0].data)
        with where.active(), memory_for(where, f"a step of {type(self).__name__}"):
            scale = self._clip_scale()
            chosen = [i for i, p in enumerate(self.parameters) if p.grad is not None]
            for i in chosen:
                values, state = self.parameters[i].data, self.state[i]
                for array in state.values():
                    if array.dtype != values.dtype:
                        name = type(self).__name__
                        raise TypeError(f"{name}: parameter {i} has become {values.dtype}; make a new optimiser")
                if not state:
                    self.state[i] = {slot: array_module(values).zeros_like(values) for slot in self.slots}
            ready: dict[int, list[int]] = {}  # parameters by the number of their update
            for i in chosen:  # there is memory for all
                self.updates[i] += 1
                ready.setdefault(self.updates[i], []).append(i)
            for t, group in ready.items():
                self._step_group(group, scale, decay, lr, t)
        self.steps += 1

    def _rates(self) -> tuple[float, float]:
        """The learning rate and the weight decay of the next step."""
        return self._rate("lr", self.lr), self._rate("weight_decay", self.weight_decay)

    def _rate(self, name: str, schedule: Schedule) -> float:
        """What a schedule gives for the next step."""
        rate = float(schedule(self.steps))
        if not 0 <= rate < math.inf:  # nor NaN
            raise ValueError(f"{type(self).__name__}: {name} must be finite and not negative, got {rate}")
        return rate

    def _step_group(self, group: list[int], scale: Array | None, decay: float, lr: float, t: int) -> None:
        """Step number t of these parameters: all at once by a faster version of the rule, or one by one.

        A version belongs to one function `update`, so a class that writes its own does not inherit the faster one.
        """
        rows = self._rows(group)
        version = faster(type(self).update, [array for row in rows for array in row])
        if version is not None:
            version(self, rows, scale, decay, lr, t)
        else:
            for i in group:
                self._step_of(i, scale, decay, lr, t)

    def _rows(self, group: list[int]) -> list[list[Array]]:
        """The arrays of these parameters: a row of the parameters, one of their gradients, and one for each slot."""
        rows: list[list[Any]] = [[self.parameters[i].data for i in group], [self.parameters[i].grad for i in group]]
        return rows + [[self.state[i][slot] for i in group] for slot in self.slots]

    def _step_of(self, i: int, scale: Array | None, decay: float, lr: float, t: int) -> None:
        """The step of parameter i, a piece at a time: the temporary arrays of an update stay in the cache."""
        arrays: list[Array] = [self.parameters[i].data, self.parameters[i].grad, *self.state[i].values()]
        if not all(array.flags.c_contiguous for array in arrays):  # then reshape(-1) would be a copy
            arrays = [array[None] for array in arrays]
        else:
            arrays = [array.reshape(-1) for array in arrays]

        def work(piece: slice) -> None:
            p, g, *slots = (array[piece] for array in arrays)
            if scale is not None:
                g = g * scale
            if decay:
                g = g + decay * p
            self.update(p, g, dict(zip(self.state[i], slots, strict=True)), lr, t)

        over_batch(work, len(arrays[0]), TEMPORARY_BYTES, arrays[0])

    def update(self, p: Array, g: Array, state: dict[str, Array], lr: float, t: int) -> None:
        """Step number t = 1, 2, ... of a piece of a parameter and of its slots (zeros at first), in place.

        g includes decay and clipping.  A rule that needs whole parameters overrides `_step_of`, which cuts them up.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define update(p, g, state, lr, t)")

    def _clip_scale(self) -> Array | None:
        """min(1, clip / norm), without waiting for a GPU; NaN if the norm is."""
        norm = None if self.clip is None else grad_norm(self.parameters)
        return None if norm is None else array_module(norm).minimum(1.0, self.clip / (norm + 1e-6))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that `step` depends on besides the parameters: "steps", "updates", "<slot>.<index>"."""
        arrays = {
            f"{slot}.{i}": np.array(to_host(array))
            for i, state in enumerate(self.state)
            for slot, array in state.items()
        }
        return {"steps": np.array(self.steps), "updates": np.array(self.updates), **arrays}

    def load_state_dict(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take over a saved state; if it does not fit these parameters, nothing changes."""
        state: list[dict[str, Array]] = [{} for _ in self.parameters]
        problems = [f"missing: {name}" for name in ("steps", "updates") if name not in saved]
        updates = np.asarray(saved.get("updates", [0] * len(state)))
        if updates.shape != (len(state),):
            problems.append(f"misshapen: updates is {updates.shape} for {len(state)} parameters")
            updates = np.zeros(len(state))
        for name, array in saved.items():
            slot, _, index = name.partition(".")
            if name in ("steps", "updates"):
                continue
            if slot not in self.slots or not index.isdecimal() or int(index) >= len(state):
                problems.append(f"unexpected: {name}")
            elif np.shape(array) != self.parameters[int(index)].shape:
                expected = self.parameters[int(index)].shape
                problems.append(f"misshapen: {name} is {np.shape(array)}, the parameter is {expected}")
            else:
                p = self.parameters[int(index)].data
                with memory_for(device_of(p), f"the state of {type(self).__name__}"):
                    state[int(index)][slot] = device_of(p).put(np.array(array, p.dtype))
        for i, slots in enumerate(state):
            missing = [slot for slot in self.slots if slot not in slots]
            if missing and (slots or updates[i] > 0):
                problems.append(f"incomplete: parameter {i} lacks {', '.join(missing)}")
        if problems:
            raise ValueError(f"{type(self).__name__}: the saved state does not fit:\n  " + "\n  ".join(problems))
        self.steps, self.updates, self.state = int(saved["steps"]), updates.tolist(), state


class SGD(Optimiser):
    """v = momentum v + (1 - dampening) g  (v = g at first),    p = p - lr v    (Nesterov: p - lr (g + momentum v)).

    Torch 7's moving average of gradients is dampening = momentum; at the same lr its steps are 1 - momentum times
    as long.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float | Schedule,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float | Schedule = 0.0,
        clip: float | None = None,
    ):
        super().__init__(parameters, lr, weight_decay, clip)
        if not (0 <= momentum < 1 and 0 <= dampening < 1):
            raise ValueError(f"SGD: momentum and dampening must be in [0, 1), got {momentum} and {dampening}")
        if nesterov and (momentum == 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        self.momentum, self.dampening, self.nesterov = float(momentum), float(dampening), nesterov
        self.slots = ("velocity",) if momentum else ()

    def update(self, p: Array, g: Array, state: dict[str, Array], lr: float, t: int) -> None:
        if self.momentum:
            v = state["velocity"]
            if t == 1:
                v[...] = g
            else:
                v *= self.momentum
                v += (1 - self.dampening) * g
            g = g + self.momentum * v if self.nesterov else v
        p -= lr * g


class Adam(Optimiser):
    """m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   p = p - lr m^ / (sqrt(v^) + eps)   (Kingma and Ba 2015)

    with m^ = m / (1 - b1^t) and v^ = v / (1 - b2^t), which undo the start at zero.
    """

    slots = ("mean", "square")

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float | Schedule = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | Schedule = 0.0,
        clip: float | None = None,
    ):
        super().__init__(parameters, lr, weight_decay, clip)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"Adam: both betas must be in [0, 1), got {betas}")
        if not 0 < eps < math.inf:
            raise ValueError(f"Adam: eps must be positive, got {eps}")
        self.betas, self.eps = (float(betas[0]), float(betas[1])), float(eps)

    def update(self, p: Array, g: Array, state: dict[str, Array], lr: float, t: int) -> None:
        xp, (b1, b2) = array_module(p), self.betas
        m, v = state["mean"], state["square"]
        m *= b1
        m += (1 - b1) * g
        v *= b2
        v += (1 - b2) * g * g
        p -= (lr / (1 - b1**t)) * m / (xp.sqrt(v) / math.sqrt(1 - b2**t) + self.eps)


class Muon(Optimiser):
    """Momentum, and of every step the nearest matrix with orthonormal rows or columns (Jordan et al. 2024).

        v = momentum v + g,    u = g + momentum v,    W = (1 - lr wd) W - lr s Q(u)

    W is a parameter as a matrix: filters w (kh, kw, C, F) as (kh kw C, F).  Q(u) = A B' for the singular value
    decomposition u = A S B', computed by `orthogonal`, nearly.  s = sqrt(max(1, F / (kh kw C))) is longer for matrices
    that have more columns than rows, so that every output moves alike.

    centred      the mean of each column of u is taken out, so that a step does not change the sum of a filter
                 (gradient centralisation: Yong et al. 2020)
    keep_norm    W is then scaled back to the norm that it had (unless that was 0, or would now be)

    The gradient of a filter bank is dominated by a few directions, in which all filters would move; Q gives the same
    weight to all directions.  Whatever the size of the gradient, a step changes the response to an input x by at most
    about lr s ||x||: where no normalisation follows a layer, that is what keeps it from running away.  Without one,
    two things are left to go wrong.  What a layer of ReLUs gives has a large mean, common to all pixels, and a step
    along it moves all responses together: `centred` leaves that to the biases.  And orthogonal steps let the weights
    grow, all layers together, while a step of the same length means less and less to them: `keep_norm`.

    Decay is decoupled: a part of Q would not shrink the weights.  `clip` changes nothing but the weight of a step in v.
    Where u is zero, so is the step.  But a size means nothing to Q: after one gradient, zeros go on moving W by whole
    steps until v has almost died away.  A gradient that is not finite, or too large to be squared (1e19 in float32),
    makes the whole parameter NaN.
    """

    slots = ("velocity",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float | Schedule,
        *,
        momentum: float = 0.95,
        iterations: int = 5,
        centred: bool = False,
        keep_norm: bool = False,
        weight_decay: float | Schedule = 0.0,
        clip: float | None = None,
    ):
        super().__init__(parameters, lr, weight_decay, clip)
        if not 0 <= momentum < 1:
            raise ValueError(f"Muon: momentum must be in [0, 1), got {momentum}")
        if iterations < 1 or iterations != int(iterations):
            raise ValueError(f"Muon: iterations must be a whole number above 0, got {iterations}")
        for i, p in enumerate(self.parameters):
            if len(p.shape) < 2 or 0 in p.shape:
                raise ValueError(
                    f"Muon: parameter {i} has shape {p.shape}, which is no matrix; "
                    "leave it to SGD or Adam: Together(Muon(...), SGD(...))"
                )
        self.momentum, self.iterations = float(momentum), int(iterations)
        self.centred, self.keep_norm = centred, keep_norm

    def _step_group(self, group: list[int], scale: Array | None, decay: float, lr: float, t: int) -> None:
        rows, textbook = self._rows(group), type(self).update_all
        version = faster(textbook, [array for row in rows for array in row])
        (version or textbook)(self, rows, scale, decay, lr, t)

    def update_all(self, rows: list[list[Array]], scale: Array | None, decay: float, lr: float, t: int) -> None:
        """A step of whole parameters, in place: no piece of a matrix would do.

        rows: the parameters, their gradients, their velocities.
        """
        matrices = []
        for _, g, v in zip(*rows, strict=True):
            g = g if scale is None else g * scale
            v *= self.momentum
            v += g
            u = (g + self.momentum * v).reshape(-1, g.shape[-1])
            matrices.append(u - u.mean(axis=0) if self.centred else u)
        for p, step in zip(rows[0], orthogonal(matrices, self.iterations), strict=True):
            before = norm([p]) if self.keep_norm else None
            if decay:
                p *= 1 - lr * decay
            p -= (lr * longer(*step.shape)) * step.reshape(p.shape)
            if before is not None:
                p *= _ratio(before, norm([p]))


def longer(rows: int, columns: int) -> float:
    """s, by which the steps of a matrix are longer."""
    return math.sqrt(max(1.0, columns / rows))


def _ratio(a: Array, b: Array) -> Array:
    """a / b of two numbers on a device that are not negative; 1 if one of them is 0."""
    xp = array_module(a)
    usable = (a != 0) & (b != 0)
    return xp.where(usable, a / xp.where(usable, b, 1), 1)


# Newton-Schulz: with X = A S B', the next X is A q(S) B', where q(s) = a s + b s^3 + c s^5.  These numbers take any s
# in [0.002, 1] to [0.68, 1.21] in five steps: small ones grow fast, because a is large, and none settles at 1, which
# does not matter here.
QUINTIC = (3.4445, -4.7750, 2.0315)
LEAST_NORM = 1e-7  # of a matrix: a smaller one starts with smaller singular values; below 1e-10 its steps shrink, too


def orthogonal(matrices: Sequence[Array], iterations: int = 5) -> list[Array]:
    """The nearest matrices with orthonormal rows or columns, whichever are fewer, nearly: singular values near 1.

    Singular values below 0.002 times the norm of their matrix stay smaller.
    """
    found: list[Array] = [None] * len(matrices)

    def work(piece: slice) -> None:
        for i in order[piece]:
            found[i] = newton_schulz(matrices[i], iterations)

    order = sorted(range(len(matrices)), key=lambda i: -matrices[i].size)  # large ones first: then all end together
    over_slices(work, cut(0, len(matrices), 1), matrices[0])
    return found


def newton_schulz(u: Array, iterations: int) -> Array:
    """`orthogonal` of a matrix, or of a stack of matrices (..., rows, columns)."""
    if u.shape[-2] > u.shape[-1]:
        return newton_schulz(u.swapaxes(-2, -1), iterations).swapaxes(-2, -1)
    a, b, c = QUINTIC
    x = u / divisors((u * u).sum(axis=(-2, -1), keepdims=True) ** 0.5)
    for _ in range(iterations):
        s = x @ x.swapaxes(-2, -1)
        x = a * x + (b * s + c * (s @ s)) @ x
    return x


def divisors(norms: Array) -> Array:
    """Norms to divide by; NaN for those that overflowed, since x / inf = 0 would hide it."""
    xp = array_module(norms)
    return xp.where(xp.isfinite(norms), xp.maximum(norms, LEAST_NORM), xp.nan)


def _of_the_first(name: str) -> Any:
    """An attribute of Together that shows what its first optimiser has, and cannot be set: for which of them?"""

    def show(together: Together) -> Any:
        return getattr(together.optimisers[0], name)

    def refuse(together: Together, value: object) -> None:
        raise AttributeError(
            f"Together: each optimiser has its own {name}; set it there: together.optimisers[0].{name} = {value!r}"
        )

    return property(show, refuse)


class Together(Optimiser):
    """Several optimisers, each with parameters of its own, that take their steps together.

    `lr`, `weight_decay` and `clip` are those of the first; each has its own, and only there can they be set.  The state
    has the names of each one behind its number: "0.steps", "0.velocity.3", "1.steps", ...
    """

    lr, weight_decay, clip = _of_the_first("lr"), _of_the_first("weight_decay"), _of_the_first("clip")

    def __init__(self, *optimisers: Optimiser):
        if not optimisers:
            raise ValueError("Together: got no optimisers")
        self.optimisers = optimisers
        self.parameters = _parameters("Together", [p for o in optimisers for p in o.parameters])
        self.steps = 0

    def step(self) -> None:
        for optimiser in self.optimisers:
            optimiser._rates()  # all are checked before any takes a step
        for optimiser in self.optimisers:
            optimiser.step()
        self.steps += 1

    def state_dict(self) -> dict[str, np.ndarray]:
        return {f"{i}.{name}": a for i, o in enumerate(self.optimisers) for name, a in o.state_dict().items()}

    def load_state_dict(self, saved: Mapping[str, np.ndarray]) -> None:
        before, parts = self.state_dict(), [dict[str, np.ndarray]() for _ in self.optimisers]
        for name, array in saved.items():
            number, _, own = name.partition(".")
            if not number.isdecimal() or int(number) >= len(parts):
                raise ValueError(f"Together: the saved state does not fit:\n  unexpected: {name}")
            parts[int(number)][own] = array
        try:
            for optimiser, part in zip(self.optimisers, parts, strict=True):
                optimiser.load_state_dict(part)
        except ValueError:
            self.load_state_dict(before)
            raise
        self.steps = self.optimisers[0].steps
