"""Training on many processes: each has its share of every batch, and sums over the batch are taken over all of them.

A process is a *rank*, 0 .. size - 1.  A Communicator says which one this is and talks to the others; a Trainer, the
batches and a session are given one.  `ALONE` is that of a single process: it changes nothing and costs nothing.

    cluster = mpi.join()                    ALONE, or that of all processes that `mpiexec -n 4 python ...` started
    part = cluster.part(len(labels))        where this rank's samples lie in the global batch
    cluster.sum_gradients(parameters, ...)  one message per step

Four ranks compute what one computes with the same global batch, up to the rounding of sums.  Sums over ranks are taken
in the order of the ranks, so the same number of ranks gives the same bits, and every rank has the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from minicnn.backend import Array, array_module, device_of
from minicnn.parallel import exchanging

T = TypeVar("T")


class ClusterError(RuntimeError):
    """The processes cannot work together; the message says why and what to do."""


@dataclass(frozen=True)
class Part:
    """The samples that a rank has of a global batch, and how it adds up what all have.

    first   position of its first sample in the global batch
    total   samples in the global batch
    sum     an array -> its sum over all ranks, the same bits on each
    """

    first: int
    total: int
    sum: Callable[[Array], Array] = lambda array: array


class Differentiated(Protocol):
    """A Parameter, or whatever else has a gradient."""

    grad: Array  # or None


class Communicator(ABC):
    """This process among `size`, and what it can ask of the others.  Every rank makes the same calls in order.

    local_rank, local_size   its number among those on the same machine, and how many these are
    launcher                 the words before `python` in the command that starts as many again
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: Sequence[str] = ()

    @abstractmethod
    def gather(self, value: T) -> list[T]:
        """The values of all ranks in order, on every rank."""

    @abstractmethod
    def gather_number(self, number: int) -> list[int]:
        """The same for an integer, as fast as possible: every step does this."""

    @abstractmethod
    def sum(self, array: Array) -> Array:
        """The sum of an array over all ranks, in their order; the same bits on every rank."""

    @abstractmethod
    def on_root(self, work: Callable[[], T]) -> T:
        """What work() returns on rank 0, the only one that calls it; if it raises, all ranks do."""

    def part(self, count: int) -> Part:
        """The place of this rank's `count` samples in a batch of which every rank has some, or none."""
        counts = self.gather_number(count)
        return Part(sum(counts[: self.rank]), sum(counts), self.sum if self.size == 1 else self._sum_within_an_op)

    def _sum_within_an_op(self, array: Array) -> Array:
        exchanging()
        return self.sum(array)

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on some rank."""
        return any(self.gather_number(int(flag)))

    def shard(self, start: int, stop: int) -> slice:
        """This rank's share of start .. stop - 1: as equal as possible, in the order of the ranks."""
        length = stop - start
        return slice(start + length * self.rank // self.size, start + length * (self.rank + 1) // self.size)

    def tried_on_root(self, work: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """On rank 0 what work() returns and None, or None and what it raises; elsewhere two times None."""
        if self.rank > 0:
            return None, None
        try:
            return work(), None
        except Exception as problem:
            return None, problem

    def root_first(self, work: Callable[[], T]) -> T:
        """What work() returns; rank 0 calls it before the others, which find what it has downloaded."""
        done: list[T] = []
        self.on_root(lambda: done.append(work()))
        return done[0] if done else work()

    def sum_gradients(self, parameters: Iterable[Differentiated], *others: Array) -> list[Array]:
        """Replace gradients by their sums over all ranks; return those of the scalars `others`: one message."""
        if self.size == 1:
            return list(others)
        learned = [p for p in parameters if p.grad is not None]
        grads: list[Array] = [p.grad for p in learned]
        xp = array_module(grads[0])
        with device_of(grads[0]).active():
            flat = xp.concatenate([array.reshape(-1).astype(grads[0].dtype, copy=False) for array in (*grads, *others)])
            flat, end = self.sum(flat), 0
            for p, grad in zip(learned, grads, strict=True):
                start, end = end, end + grad.size
                p.grad = flat[start:end].reshape(grad.shape)
            return list(flat[end:].copy())  # not views, which would keep all gradients for as long as a loss is kept


class Alone(Communicator):
    """One process."""

    def gather(self, value: T) -> list[T]:
        return [value]

    def gather_number(self, number: int) -> list[int]:
        return [number]

    def sum(self, array: Array) -> Array:
        return array

    def on_root(self, work: Callable[[], T]) -> T:
        return work()


ALONE = Alone()


def in_order(summands: Sequence[Array]) -> Array:
    """The sum of arrays, one after the other, in the first of them."""
    total = summands[0]
    for summand in summands[1:]:
        total += summand
    return total
