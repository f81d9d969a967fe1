"""Batches of a training set, brought to a GPU without making it wait.

A data set that fits lives there, as bytes: a batch is one kernel (cuda/augment.cu).  If it does not fit, the next batch
is copied while the network computes on the last: to page-locked memory, and from there on a stream of its own.
Both give the same batches as the source they are made from.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, fast_versions
from minicnn.data.loader import Batches, BatchSource, Labelled
from minicnn.fast.cuda.kernels import launch
from minicnn.parallel import memory_for

SHARE = 4  # a data set may take up a quarter of the memory that is free
SLOTS = 3  # batches on their way: one that is computed with, one that is copied, one that is written
ALIGNED = 256  # bytes: where arrays in a buffer may begin


def on_device(source: BatchSource, device: Device) -> BatchSource:
    """The same batches; on a device with CUDA, their arrays are there already."""
    if device.cuda is None or not fast_versions():
        return source
    if type(source) is Batches and SHARE * source.images.nbytes <= device.cuda.free_bytes():
        try:
            return ResidentBatches(source, device)
        except Exception as error:  # what is free may be in pieces
            if not device.out_of_memory(error):
                raise
    return StagedBatches(source, device)


class ResidentBatches:
    """Batches of a data set that lives on the device as bytes."""

    def __init__(self, source: Batches, device: Device):
        self.source, self.device, self.batch = source, device, source.batch
        scale, offset = source.normalise.constants()
        self._images, self._labels, self._scale, self._offset = (
            device.put(np.ascontiguousarray(a))
            for a in (source.images, source.labels.astype(np.int64), scale, offset)  # the kernel's kind of labels
        )

    def __len__(self) -> int:
        return len(self.source)

    def epoch(self, epoch: int, start: int = 0) -> Labelled:
        """(x float32, labels int64) of the batches start, start + 1, ... of an epoch, both on the device."""
        order, flips, shifts = self.source.draw(epoch)
        drawn = [self.device.put(a) for a in (order, flips.view(np.uint8), shifts)]
        _, *pixels = self._images.shape
        data, constants = (self._images, self._labels), (self._scale, self._offset)
        reflect = self.source.augmentation.reflect
        for k in range(start, len(self)):
            at = self.source.share(k)
            with self.device.active(), memory_for(self.device, "a batch"):
                x = self.device.xp.empty((at.stop - at.start, *pixels), np.float32)
                labels = self.device.xp.empty(at.stop - at.start, np.int64)
                launch("augment.augment", (x, labels), *data, *drawn, *constants, *pixels, at.start, reflect)
            yield x, labels


class StagedBatches:
    """Batches from the host, copied a batch ahead."""

    def __init__(self, source: BatchSource, device: Device):
        assert device.cuda is not None
        self.source, self.device, self.batch = source, device, source.batch
        with device.active():
            self._slots, self._stream = [Slot(device) for _ in range(SLOTS)], device.cuda.new_stream()

    def __len__(self) -> int:
        return len(self.source)

    def epoch(self, epoch: int, start: int = 0) -> Labelled:
        """(x, labels) of the batches start, start + 1, ... of an epoch, both on the device until the next is taken."""
        under_way: Slot | None = None
        with closing(self.source.epoch(epoch, start)) as batches:
            for i, batch in enumerate(batches):
                with self.device.active(), memory_for(self.device, "a batch"):
                    self._slots[i % SLOTS].send(batch, self._stream)
                if under_way is not None:
                    yield from under_way.lend()
                under_way = self._slots[i % SLOTS]
            if under_way is not None:
                yield from under_way.lend()


class Slot:
    """A place for one batch: page-locked memory, equally much on the device, and the events after their last use."""

    def __init__(self, device: Device):
        assert device.cuda is not None
        self.copied: Any = None  # the event after the copy to the device
        self.device, self.cuda = device, device.cuda
        self.pinned = np.empty(0, np.uint8)
        self.there: Array = device.xp.empty(0, np.uint8)
        self.used: Any = None  # the event after the last computation on it
        self.arrays: tuple[Array, ...] = ()

    def send(self, batch: tuple[np.ndarray, ...], stream: Any) -> None:
        """Begin to copy a batch to the device."""
        if self.copied is not None:
            self.copied.synchronize()  # the last copy has read the page-locked memory: SLOTS batches ago
        starts = np.cumsum([0, *(-(-a.nbytes // ALIGNED) * ALIGNED for a in batch)]).tolist()
        if self.pinned.size < starts[-1]:
            self.pinned, self.there = self.cuda.pinned(starts[-1]), self.device.xp.empty(starts[-1], np.uint8)
            self.used = self.cuda.current_stream().record()  # the memory may come from an array still in use there
        if self.used is not None:
            stream.wait_event(self.used)
        self.arrays = ()
        for a, start in zip(batch, starts, strict=False):
            here = self.pinned[start : start + a.nbytes].view(a.dtype)
            here[...] = a.reshape(-1)
            there = self.there[start : start + a.nbytes].view(a.dtype)
            there.set(here, stream=stream)
            self.arrays += (there.reshape(a.shape),)
        self.copied = stream.record()

    def __del__(self) -> None:
        if self.copied is not None and not sys.is_finalizing():
            self.copied.synchronize()  # both memories would be given to others while the copy is under way

    def lend(self) -> Generator[Any, None, None]:
        """The batch, for the stream that computes."""
        with self.device.active():
            self.cuda.current_stream().wait_event(self.copied)
        try:
            yield self.arrays
        finally:  # also if the epoch ends here: the network may be computing with them
            with self.device.active():
                self.used = self.cuda.current_stream().record()
