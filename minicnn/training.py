"""Training: the loop over steps and epochs, evaluation, and what can go wrong.

A Trainer can be stopped after any step, saved, and continued in another process with the same result to the last bit:
its position is (epoch, step), and everything random follows from the seed and the position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from minicnn import ops
from minicnn.autodiff import Parameter, Tape
from minicnn.backend import Array, Device, to_device, to_host
from minicnn.backend import device as as_device
from minicnn.cluster import ALONE, Communicator, Part
from minicnn.data.augment import Crop, Normaliser, View, check_labels, cut
from minicnn.data.loader import BatchSource
from minicnn.fast.batches import on_device
from minicnn.fast.graph import Passes
from minicnn.nn import EMA, Module
from minicnn.nn.fixed import problem, snapshot
from minicnn.nn.init import equal_pair
from minicnn.optim import Optimiser
from minicnn.parallel import memory_for
from minicnn.precision import precision
from minicnn.random import Stream

EVALUATION_BATCH = 250  # images
FETCH_EVERY = 20  # steps between looks at the losses: each look makes the program wait for a GPU


class TrainingError(RuntimeError):
    """Training cannot go on; the message says where, why, and what to try."""


class Interrupted(Exception):  # noqa: N818  (not an error)
    """Training was asked to stop and did so after a whole step: its state can be saved."""


@dataclass
class Totals:
    """Sums over the part of an epoch that is done."""

    loss: float = 0.0
    wrong: int = 0
    images: int = 0
    lowest: float = math.inf  # loss of a step
    highest: float = -math.inf

    def add(self, loss: float, wrong: int, images: int) -> None:
        self.loss += loss * images
        self.wrong += wrong
        self.images += images
        self.lowest, self.highest = min(self.lowest, loss), max(self.highest, loss)

    @property
    def mean_loss(self) -> float:
        return self.loss / max(1, self.images)

    @property
    def error(self) -> float:
        """Percent."""
        return 100 * self.wrong / max(1, self.images)


class Pending(NamedTuple):
    """A step (1, 2, ... of its epoch) whose results nobody has looked at: those of all ranks, still on the device."""

    step: int
    loss: Array
    wrong: Array
    images: int


class Trainer:
    """Trains a model on batches; `epoch` and `step` say what comes next.

    device      where it computes, "cpu", "gpu", ... or a Device: the model is moved there
    cluster     the processes that train together: each has its own part of every batch (`batches` gives it that)
    smoothing   of the labels, as softmax_cross_entropy takes it
    average     an average of the weights, which it updates after every step (minicnn/nn/average.py)
    """

    def __init__(
        self,
        model: Module,
        optimiser: Optimiser,
        batches: BatchSource,
        *,
        device: str | Device,
        seed: int,
        cluster: Communicator = ALONE,
        smoothing: float = 0.0,
        average: EMA | None = None,
    ):
        own = {id(value) for _, value in model.named_state()}
        averaged = [] if average is None else [value for _, value in average.model.named_state()]
        for what, values in (("optimiser", optimiser.parameters), ("average", averaged)):
            if not all(id(value) in own for value in values):
                raise ValueError(
                    f"Trainer: the {what} has parameters that the model does not have; make a new one of this model"
                )
        self.smoothing, self.average = smoothing, average
        self.device, self.cluster = as_device(device), cluster
        self.model, self.optimiser = model.to(self.device), optimiser
        _check_start(model)
        self.batches = on_device(batches, self.device)
        self._passes = Passes(self.device, alone=cluster.size == 1)
        self.dropout = Stream(seed).child("dropout")
        self.epoch, self.step, self.totals = 0, 0, Totals()
        self._others: list[Parameter] = []  # which learn, but not by this optimiser: they get gradients all the same

    def finish_epoch(
        self,
        on_step: Callable[[Trainer], object] = lambda trainer: None,
        stop: Callable[[], bool] = lambda: False,
        *,
        every: int = FETCH_EVERY,
    ) -> Totals:
        """Train from the current position to the end of the epoch; return the totals of the whole epoch.

        on_step(trainer) is called after every `every` steps and at the end, with `totals` up to date; 1 is every step,
        for which a GPU has to wait each time.  stop() is called after every step, and if it returns True, Interrupted
        is raised.
        """
        if every < 1:
            raise ValueError(f"finish_epoch: every must be at least 1, got {every}")
        pending: list[Pending] = []
        optimised = {id(p) for p in self.optimiser.parameters}
        self._others = [p for p in self.model.parameters() if id(p) not in optimised]
        self._look_at_the_model()
        with closing(self.batches.epoch(self.epoch, self.step)) as batches:
            for x, labels in batches:
                part = self.cluster.part(len(labels))
                if part.total:  # a batch whose pictures are all damaged is empty
                    loss, wrong = self._train(x, labels, part)
                    pending.append(Pending(self.step + 1, loss, wrong, part.total))
                self.step += 1
                stopping = self.cluster.any(stop())
                if len(pending) >= every or self.step == len(self.batches) or stopping:
                    self._fetch(pending)
                    on_step(self)
                    self._look_at_the_model()
                if stopping:
                    raise Interrupted
        totals, self.totals = self.totals, Totals()
        self.epoch, self.step = self.epoch + 1, 0
        return totals

    def _train(self, x: Array, labels: Array, part: Part) -> list[Array]:
        """One step: the loss and the number of wrong answers of the whole batch, both still on the device."""
        try:
            with memory_for(self.device, "a training step"):
                loss, wrong = self._passes(self._pass, to_device(x, self.device), labels, part, self.optimiser.steps)
                sums = self.cluster.sum_gradients(self.optimiser.parameters, loss, wrong)
                self.optimiser.step()
                if self.average is not None:
                    self.average.update()
        finally:
            self.optimiser.zero_grad()  # also after an error: the next step would add to them
            for p in self._others:
                p.grad = None
        return sums

    def _pass(self, x: Array, labels: Array, part: Part, step: int) -> tuple[Array, Array]:
        """Forward and backward: the loss and the number of wrong answers of this part; gradients in the parameters."""
        with Tape() as tape:
            logits = self.model(x, train=part, stream=self.dropout.at(step, part.first))
            loss = ops.softmax_cross_entropy(logits, labels, total=part.total, smoothing=self.smoothing)
        wrong = ops.wrong_answers(logits.data, to_device(labels, self.device))
        tape.backward(loss)
        return loss.data, wrong

    def _look_at_the_model(self) -> None:
        """Somebody else's code may have changed what a pass computes: then a graph of it is made anew."""
        if self._passes.possible:
            values = [value for _, value in self.model.named_state()]
            others = (snapshot(self.model), self.smoothing, self.dropout, precision())
            self._passes.look_at(values, problem(self.model), others)

    def _fetch(self, pending: list[Pending]) -> None:
        """Look at the results of steps, which waits for them, and add them to the totals."""
        for done in pending:
            loss = float(done.loss)
            if not math.isfinite(loss):
                raise TrainingError(
                    f"the loss became {loss} in epoch {self.epoch + 1}, step {done.step} of {len(self.batches)}; "
                    "the weights are lost from there on.  Try a lower learning rate or gradient clipping"
                )
            self.totals.add(loss, int(done.wrong), done.images)
        pending.clear()

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and metadata from which `restore` continues."""
        arrays = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        arrays |= {f"optimiser/{name}": value for name, value in self.optimiser.state_dict().items()}
        if self.average is not None:
            arrays |= {f"average/{name}": value for name, value in self.average.state_dict().items()}
        return arrays, {"epoch": self.epoch, "step": self.step, "totals": asdict(self.totals)}

    def restore(self, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
        self.model.load_state_dict(arrays_under("model/", arrays))
        self.optimiser.load_state_dict(arrays_under("optimiser/", arrays))
        if self.average is not None:
            self.average.load_state_dict(arrays_under("average/", arrays))
        self.epoch, self.step, self.totals = int(metadata["epoch"]), int(metadata["step"]), Totals(**metadata["totals"])


def arrays_under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, such as "model/"; by their names without it."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _check_start(model: Module) -> None:
    """Raise if two parameters that learn start alike: in branches beside each other they would never differ.

    Layers of one shape do that until somebody initialises them.  Frozen parameters may be equal: they stay as they are.
    """
    learned = {id(p): (name, p) for name, p in model.named_state() if isinstance(p, Parameter) and p.requires_grad}
    pair = equal_pair(dict(learned.values()))
    if pair is not None:
        raise ValueError(
            f"Trainer: the parameters {pair[0]} and {pair[1]} have the same values, so they may learn the same for "
            "ever; draw them with model.initialise(seed), or use one Parameter in both places"
        )


def check_alive(totals: Totals, classes: int) -> None:
    """Raise if the network has stopped answering: every step of an epoch had the loss ln(classes) of a blind guess.

    That happens when all logits are 0 whatever the input, for example behind a ReLU with only negative inputs: no
    gradient passes, so nothing will ever change.
    """
    if abs(totals.mean_loss - math.log(classes)) < 1e-4 and totals.highest - totals.lowest < 1e-5:
        raise TrainingError(
            f"the loss is stuck at ln({classes}) = {math.log(classes):.4f}: the network gives the same logits for "
            "every image, and no gradient reaches its weights (dead ReLUs).  Try a lower learning rate, another seed, "
            "or no ReLU on the logits"
        )


def probabilities(
    model: Module,
    images: np.ndarray,
    normalise: Normaliser,
    *,
    device: str | Device,
    cluster: Communicator = ALONE,
) -> Iterator[np.ndarray]:
    """The softmax outputs of a model for uint8 images, batch by batch, as host arrays (n, classes).

    In a cluster every rank gives those of its own batches; joined in the order of the ranks, they are complete.
    """
    starts, device = range(0, len(images), EVALUATION_BATCH), as_device(device)
    for start in starts[cluster.shard(0, len(starts))]:
        x = device.put(normalise(images[start : start + EVALUATION_BATCH]))
        yield to_host(ops.softmax(model(x)).data)


def crop_probabilities(
    model: Module, images: np.ndarray, normalise: Normaliser, crops: Sequence[Crop], size: int, *, device: str | Device
) -> np.ndarray:
    """The mean over crops (of size x size) of the softmax outputs, (N, classes), for uint8 images."""
    each = [
        np.concatenate(list(probabilities(model, cut(images, crop, size), normalise, device=device))) for crop in crops
    ]
    return np.mean(each, axis=0)


@dataclass(frozen=True)
class Evaluation:
    """How a model does on a set of images: the mean loss, the error in percent, and its softmax outputs.

    The loss is computed from these outputs, as anybody can who kept them.  They are float32, and what is below its
    smallest normal number counts as that: an image adds at most 87.34, however wrong the model is about it.
    """

    loss: float
    error: float
    probabilities: np.ndarray  # (N, classes)


def evaluate(
    model: Module,
    images: np.ndarray,
    labels: np.ndarray,
    normalise: Normaliser,
    *,
    device: str | Device,
    on_batch: Callable[[int], object] = lambda images: None,
    cluster: Communicator = ALONE,
) -> Evaluation:
    """Loss and error of a model; on_batch(number of images) is called as they are done."""
    check_labels("evaluate", labels, len(images))
    own = []
    for p in probabilities(model, images, normalise, device=device, cluster=cluster):
        own.append(p)
        on_batch(len(p))
    return evaluate_probabilities(np.concatenate([p for of_rank in cluster.gather(own) for p in of_rank]), labels)


def evaluate_probabilities(p: np.ndarray, labels: np.ndarray) -> Evaluation:
    """The loss and the error of softmax outputs p (N, classes)."""
    _check_outputs(p, labels)
    picked = p[np.arange(len(labels)), labels].astype(np.float64)
    loss = -np.log(np.maximum(picked, np.finfo(np.float32).tiny)).mean()
    return Evaluation(float(loss), float(100 * (p.argmax(axis=1) != labels).mean()), p)


def errors_of_views(
    plain: np.ndarray,
    probabilities: Callable[[View], np.ndarray],
    labels: np.ndarray,
    sets: Mapping[str, Sequence[View]],
) -> dict[str, float]:
    """For each set of views, the error when the outputs (N, classes) for all of them are averaged.

    plain            the outputs for the images as they are
    probabilities    computes those for another view; each is computed once
    """
    seen = {View(): plain}
    for view in (view for views in sets.values() for view in views):
        if view not in seen:
            seen[view] = probabilities(view)
    return {
        name: evaluate_probabilities(np.mean([seen[view] for view in views], axis=0), labels).error
        for name, views in sets.items()
    }


def is_chance(error: float, classes: int, images: int) -> bool:
    """Whether an error (percent) on this many images is what guessing would give, up to three standard deviations."""
    p = 1 - 1 / classes
    return error >= 100 * (p - 3 * math.sqrt(p * (1 - p) / images))


def top_error(p: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Percent of the rows of p (N, classes) whose label is not among the k largest; in a tie the first wins."""
    _check_outputs(p, labels)
    own = p[np.arange(len(labels)), labels][:, None]
    before = (p > own) | ((p == own) & (np.arange(p.shape[1]) < labels[:, None]))
    return float(100 * (before.sum(axis=1) >= k).mean())


def _check_outputs(p: np.ndarray, labels: np.ndarray) -> None:
    """Outputs must be finite: NaN is not larger than anything, so every label would come first.  Labels are classes."""
    if p.ndim != 2:  # argmax(axis=1), say, would look for the largest row of an image
        raise ValueError(
            f"evaluate: the outputs of the network must be (N, classes), got {p.shape}; "
            "end it with GlobalAvgPool, or with Flatten and Linear"
        )
    check_labels("evaluate", labels, len(p))
    if not (labels.min() >= 0 and labels.max() < p.shape[1]):
        raise ValueError(f"evaluate: labels must be in 0 .. {p.shape[1] - 1}, got {labels.min()} .. {labels.max()}")
    wrong = int((~np.isfinite(p)).any(axis=1).sum())
    if wrong:
        raise TrainingError(
            f"the outputs for {wrong:,} of {len(p):,} images are not finite: the network has diverged; lower the "
            "learning rate"
        )
