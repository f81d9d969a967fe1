"""Invariance scores (Goodfellow et al. 2009, as the paper's section S4 adapts them; Figure 4).

Let h be what a filter gives at a place of a map: its response z, through max(z, 0) ("one" side) or |z| ("two" sides).

    fires          h > t
    threshold t    the smallest number with  P(h > t) <= rate  over all places of all images; the paper's rate is 0.01
    global rate    G = P(h > t), measured: it is below `rate` where a filter is active less often than that (t = 0)
    local rate     L = P(it also fires for the transformed image, at the same place | it fires for the image), the mean
                   over the transformations
    score          S = L / G: 1 if the two have nothing to do with each other, 1 / G = 100 if it never changes its mind

The score of a layer is the mean over its filters.  **Rare filters**: one that is active at less than `rate` of all
places has t = 0, G < rate and a scale of its own: at G = 0.00005 it may score 20,000, and decide the mean alone.  So
may one that gives the same number at many places (behind padding, the bias), if t is that number.  `mean` leaves both
kinds out unless asked, and they are counted.  A filter that never fires has no score at all.

Chance is 1 only where all places are alike.  Places where a filter gives the same number whatever the image (the border
of a padded 1x1 convolution, conv7 of the CIFAR networks) never fire, so the others fire more often: with 36 such places
among 100, chance is 1 / 0.64 = 1.56.

The paper takes one side for ReLU networks and two for CReLU networks, so a difference may be one of the measure
rather than of the network.  Both are taken here for every network, from the same forward passes.

**Cost.**  Thresholds need one pass over the images, the counting one more and one for every transformation.  Each
pass serves all layers.  A filter fires at a hundredth of the places, so the counting looks at those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from minicnn.analysis.layers import responses
from minicnn.analysis.stimuli import Stimuli
from minicnn.backend import Array, Device, array_module, device_of, to_host, where_its_arrays_are
from minicnn.backend import device as as_device
from minicnn.nn import Sequential

SIDES = ("one", "two")
RATE = 0.01
LEAST = 0.5  # of the rate: a filter that fires less often is rare
BATCH = 100  # images in one pass


@where_its_arrays_are
def sided(z: Array, side: str) -> Array:
    """h: what may fire, from responses z."""
    xp = array_module(z)
    return xp.abs(z) if side == "two" else xp.maximum(z, 0)


class Largest:
    """The k largest positive values of each column of a stream of blocks (n, F), exactly.

    A positive float32 and its bits, read as an integer, are in the same order.  So a value of column f is kept as the
    key f 2^32 + bits, and one sort puts each column in order.  What is below the k largest so far is not kept: of a
    stream of n rows about k (1 + log(n / k)) F keys are ever looked at, and 1.5 k F and one block are in memory.
    """

    @where_its_arrays_are
    def __init__(self, k: int, columns: int, like: Array):
        self.k, self.columns, self.xp, self.device = k, columns, array_module(like), device_of(like)
        self.floor = self.xp.zeros(columns, np.float32)  # values up to here are not among the k largest
        self.keys = [self.xp.zeros(0, np.uint64)]

    @where_its_arrays_are
    def add(self, values: Array) -> None:
        """values (n, F), float32, none negative."""
        flat = values.reshape(-1)
        at = self.xp.flatnonzero((values > self.floor).reshape(-1))
        bits = flat[at].view(np.uint32).astype(np.uint64)
        self.keys.append(((at % self.columns).astype(np.uint64) << 32) | bits)
        if sum(map(len, self.keys)) > 1.5 * self.k * self.columns:
            self._shrink()

    @where_its_arrays_are
    def kth(self) -> Array:
        """The k-th largest value of every column, (F,); 0 where fewer than k are positive."""
        self._shrink()
        return self.floor

    def _shrink(self) -> None:
        xp, keys = self.xp, self.xp.sort(self.xp.concatenate(self.keys))
        column = (keys >> 32).astype(np.int64)
        counts = xp.bincount(column, minlength=self.columns)  # (F,)
        ends = xp.cumsum(counts)
        self.keys = [keys[xp.arange(len(keys)) >= (ends - self.k)[column]]]
        if len(keys):
            bits = keys[xp.maximum(ends - self.k, 0)].astype(np.uint32)  # the low half of a key
            self.floor = xp.where(counts >= self.k, bits.view(np.float32), 0)


class Thresholds:
    """The threshold of every filter of a layer, from responses (N, H, W, F) that come in pieces."""

    def __init__(self, places: int, rate: float, like: Array):
        """places    how many responses of each filter there will be: images * H * W"""
        self.places, self.allowed = places, int(rate * places * (1 + 1e-12))
        self.seen = 0
        self.largest = Largest(self.allowed + 1, like.shape[-1], like)

    @where_its_arrays_are
    def add(self, h: Array) -> None:
        if h.dtype != np.float32:
            raise TypeError(f"Thresholds: the values must be float32, got {h.dtype}; use model.to(dtype=np.float32)")
        if not bool(array_module(h).isfinite(h.max())):  # the maximum is NaN if one is
            raise ValueError("Thresholds: responses that are NaN or infinite: the network has diverged")
        self.seen += h.size // h.shape[-1]
        self.largest.add(h.reshape(-1, h.shape[-1]))

    def values(self) -> Array:
        """t (F,): the value of rank (places * rate) + 1, so that at most places * rate values are larger."""
        if self.seen != self.places:
            raise ValueError(f"Thresholds: {self.places} places were announced, {self.seen} came")
        return self.largest.kth()


@dataclass(frozen=True)
class Score:
    """The counts and scores of the F filters of one layer, on one side; on the host."""

    threshold: np.ndarray  # (F,)
    fired: np.ndarray  # (F,) places where it fires for the images themselves
    both: dict[str, np.ndarray]  # by transformation: (F,) places where it fires for both
    places: int
    rate: float  # the one that was asked for

    @property
    def global_rate(self) -> np.ndarray:
        """G (F,)."""
        return self.fired / self.places

    @property
    def local_rate(self) -> np.ndarray:
        """L (F,), NaN where the filter never fires."""
        return np.mean([self._share(counts) for counts in self.both.values()], axis=0)

    @property
    def scores(self) -> np.ndarray:
        """S (F,)."""
        return self.local_rate / np.where(self.fired > 0, self.global_rate, np.nan)

    @property
    def rare(self) -> np.ndarray:
        """(F,) which filters do not fire at the rate asked for: active too seldom, or often the same number."""
        return (self.threshold == 0) | (self.global_rate < LEAST * self.rate)

    def mean(self, transformation: str | None = None, *, with_rare: bool = False) -> float:
        """The score of the layer, for all transformations together or for one; NaN if no filter has one."""
        rate = self.local_rate if transformation is None else self._share(self.both[transformation])
        known = (self.fired > 0) & (with_rare | ~self.rare)
        return float((rate[known] / self.global_rate[known]).mean()) if known.any() else float("nan")

    def _share(self, counts: np.ndarray) -> np.ndarray:
        return counts / np.where(self.fired > 0, self.fired, np.nan)


class Counter:
    """Counts where the filters of one layer fire on one side, for images and then for their transformed versions."""

    @where_its_arrays_are
    def __init__(self, threshold: Array, side: str, transformations: list[str], rate: float):
        self.threshold, self.side, self.rate, xp = threshold, side, rate, array_module(threshold)
        self.places = 0
        self.fired = xp.zeros(len(threshold), np.int64)
        self.both = {name: xp.zeros(len(threshold), np.int64) for name in transformations}

    @where_its_arrays_are
    def original(self, z: Array) -> None:
        """The responses (N, H, W, F) to images; what is counted next refers to these."""
        xp, filters = array_module(z), z.shape[-1]
        self.shape, self.places = z.shape, self.places + z.size // filters
        fires = z > self.threshold
        if self.side == "two":
            fires |= z < -self.threshold
        self._at = xp.flatnonzero(fires.reshape(-1))
        self._filter = self._at % filters
        self.fired += xp.bincount(self._filter, minlength=filters)

    @where_its_arrays_are
    def transformed(self, name: str, z: Array) -> None:
        """The responses to a transformed version of the same images."""
        if z.shape != self.shape:
            raise ValueError(f"Counter: {name} gives responses {z.shape}, the images themselves {self.shape}")
        h = sided(z.reshape(-1)[self._at], self.side)
        again = self._filter[h > self.threshold[self._filter]]
        self.both[name] += array_module(z).bincount(again, minlength=len(self.threshold))

    def score(self) -> Score:
        both = {name: to_host(counts) for name, counts in self.both.items()}
        return Score(to_host(self.threshold), to_host(self.fired), both, self.places, self.rate)


@where_its_arrays_are
def invariance(
    model: Sequential,
    batches: Callable[[], Iterator[np.ndarray]],
    images: int,
    stimuli: Stimuli,
    *,
    device: str | Device,
    rate: float = RATE,
    on_pass: Callable[[int], object] = lambda images: None,
) -> dict[str, dict[str, Score]]:
    """The scores of all filter layers of a model on its device: {layer: {"one": Score, "two": Score}}.

    batches    called twice: gives the normalised images (n, H, W, C) float32, `images` of them in all, batch by batch
    on_pass    called with the number of images after every forward pass; there are 2 + transformations passes
    """
    if not 0 < rate < 1:
        raise ValueError(f"invariance: the firing rate must be between 0 and 1, got {rate}")
    device, found = as_device(device), dict[tuple[str, str], Thresholds]()
    for batch in batches():
        for name, z in responses(model, stimuli.original(device.put(batch))):
            for side in SIDES:
                if (name, side) not in found:
                    found[name, side] = Thresholds(images * z.shape[1] * z.shape[2], rate, z)
                found[name, side].add(sided(z, side))
        on_pass(len(batch))
    names = list(stimuli.transforms)
    counters = {(name, side): Counter(t.values(), side, names, rate) for (name, side), t in found.items()}
    del found
    for batch in batches():
        x = device.put(batch)
        for name, z in responses(model, stimuli.original(x)):
            for side in SIDES:
                counters[name, side].original(z)
        on_pass(len(batch))
        for which, transform in stimuli.transforms.items():
            for name, z in responses(model, transform(x)):
                for side in SIDES:
                    counters[name, side].transformed(which, z)
            on_pass(len(batch))
    layers = dict.fromkeys(name for name, _ in counters)
    return {name: {side: counters[name, side].score() for side in SIDES} for name in layers}
