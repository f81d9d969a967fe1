"""Work over a batch, a piece at a time, on every core.

Operations that need large temporary arrays (im2col copies every pixel k*k times) say how many bytes one sample
needs and are called for pieces of the batch:

    over_batch(work, n, sample_bytes, x)          work(piece) writes its part of a result; `piece` is a slice
    sum_over_batch(work, n, sample_bytes, into)   what work(piece, summand) writes to `summand` is added to `into`

On a CPU a piece fits in the cache and pieces run on all cores at once, each with one BLAS thread: many small
matrix products side by side are faster than one after the other, each spread over the cores.  On a GPU a piece is a
share of the memory, and pieces run in order.

The same bits come out whatever the number of threads: the size of a piece depends on the shape of the data alone, and
sums are taken in an order that is fixed beforehand.
"""

from __future__ import annotations

import itertools
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, DeviceError, array_module, no_memory_left
from minicnn.blas import one_blas_thread

HOST_PIECE_BYTES = 4 << 20  # of temporary arrays: about what stays in the caches of one core
LEAST_SHARED_BYTES = 1 << 20  # less than this is not worth a second thread
DEVICE_PIECE_BYTES = 256 << 20  # enough to keep a GPU busy, and little compared with its memory
PARTIAL_SUMS = 16  # a sum over a batch is taken as at most that many sums, which are then added in order


def threads() -> int:
    """How many threads work on the CPU: as `use_threads` says, else MINICNN_THREADS, else all cores we may use."""
    if _chosen is not None:
        return _chosen
    asked = os.environ.get("MINICNN_THREADS")
    if asked is None:
        return len(usable_cores())
    if not (asked.isdecimal() and int(asked) >= 1):
        raise ValueError(f"MINICNN_THREADS must be a positive integer, got {asked!r}")
    return int(asked)


def threads_here() -> int:
    """The same for work that shares itself out: one inside of work that is already shared out."""
    return 1 if _here.busy else threads()


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


_chosen: int | None = None


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Inside it that many threads work, in the whole process."""
    global _chosen
    if count < 1:
        raise ValueError(f"use_threads: needs at least 1, got {count}")
    before, _chosen = _chosen, count
    try:
        yield
    finally:
        _chosen = before


def pieces(n: int, sample_bytes: int, like: Array) -> list[slice]:
    """Slices that cover range(n); the temporary arrays of one slice fit in the budget of `like`'s device.

    On the CPU their number is a multiple of four where that is worth it: with five for two threads, one thread would
    wait while the other does the last.
    """
    if array_module(like) is not np:
        return cut(0, n, device_piece_bytes() // max(1, sample_bytes))
    count = -(-n // max(1, HOST_PIECE_BYTES // max(1, sample_bytes)))
    if n * sample_bytes >= LEAST_SHARED_BYTES:
        count = 4 * -(-count // 4)
    count = min(n, count)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]


def device_piece_bytes() -> int:
    """The budget of a piece on a GPU: less, once its memory was used up (`within_memory`)."""
    return DEVICE_PIECE_BYTES // _share


def taken(x: Array, piece: slice) -> Array:
    """x[piece]; x itself if that is all of it, because CuPy needs as long for a view as for a launch."""
    return x if piece.stop - piece.start == len(x) else x[piece]


SMALLER = 16  # after an out-of-memory error, pieces are this many times smaller for the rest of the process
_share = 1
_exchanges = 0


def exchanging() -> None:
    """Must be called before a message to other ranks: one rank alone cannot repeat the work that sends it."""
    global _exchanges
    _exchanges += 1


def within_memory(where: Device, name: str, work: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """work(*args, **options); if that uses up the memory of a GPU, it is done once more, in smaller pieces.

    There is no second try if it has exchanged messages: the other ranks, which had enough memory, would take them for
    those of the next op.
    """
    global _share
    exchanges = _exchanges
    try:
        return work(*args, **options)
    except Exception as error:
        if not where.out_of_memory(error):
            raise
        if _exchanges != exchanges:
            raise DeviceError(no_memory_left(where, name)) from error
        # else leave this block first: the error keeps the arrays of the first attempt
    where.free_memory()
    if _share == 1:
        print(f"{where} is short of memory: from {name} on, work is done in smaller pieces", file=sys.stderr)
    _share = SMALLER
    with memory_for(where, f"{name}, also in smaller pieces"):
        return work(*args, **options)


@contextmanager
def memory_for(where: Device, what: str) -> Iterator[None]:
    """Inside it, running out of the memory of a GPU is a DeviceError that says what to do; nothing is tried again."""
    try:
        yield
    except Exception as error:
        if not where.out_of_memory(error):
            raise
        raise DeviceError(no_memory_left(where, what)) from error


def cut(start: int, stop: int, length: int) -> list[slice]:
    """range(start, stop) in slices of this length (at least 1); the last may be shorter."""
    length = max(1, length)
    return [slice(i, min(i + length, stop)) for i in range(start, stop, length)]


def over_batch(work: Callable[[slice], object], n: int, sample_bytes: int, like: Array) -> None:
    """Call work(piece) for every piece of a batch of n samples."""
    over_slices(work, pieces(n, sample_bytes, like), like)


def sum_over_batch(work: Callable[[slice, Array], object], n: int, sample_bytes: int, into: Array) -> None:
    """Add to `into` what work(piece, summand) writes to `summand`, for every piece of a batch of n samples."""
    sum_over_slices(work, pieces(n, sample_bytes, into), into)


def over_slices(work: Callable[[slice], object], slices: list[slice], like: Array) -> None:
    """Call work(piece) for every one of the slices."""
    _run(work, slices, like)


def sum_over_slices(work: Callable[[slice, Array], object], slices: list[slice], into: Array) -> None:
    """Add to `into`, in C order, what work(piece, summand) writes to `summand`, an array like it, for all the slices.

    The slices are dealt to at most PARTIAL_SUMS sums, each added up by one thread, and these are added in order.
    """
    assert into.flags.c_contiguous
    groups = np.array_split(np.arange(len(slices)), min(PARTIAL_SUMS, len(slices))) if slices else []
    host = array_module(into) is np
    # Not `scratch` in a nested call: the one around it may be using it.
    empty = scratch if host and not _here.busy else lambda _, shape, dtype: array_module(into).empty(shape, dtype)
    sums = empty("sums", (len(groups), *into.shape), into.dtype)

    def add_up(group: int) -> None:
        first, *others = groups[group]
        work(slices[first], sums[group])
        if others:
            summand = empty("summand", into.shape, into.dtype)
            for i in others:
                work(slices[i], summand)
                sums[group] += summand

    _run(add_up, range(len(groups)), into)
    if not groups:
        return
    if not host or into.nbytes < LEAST_SHARED_BYTES:
        into += sums.sum(axis=0)
        return
    total, flat = into.reshape(-1), sums.reshape(len(groups), -1)

    def add_columns(some: slice) -> None:
        total[some] += flat[:, some].sum(axis=0)

    _run(add_columns, cut(0, total.size, -(-total.size // 4)), into)


# Worker threads


class _Here(threading.local):
    """What belongs to one thread: whether it is already inside a parallel region, and its scratch memory."""

    def __init__(self) -> None:
        self.busy = False
        self.scratch: dict[str, np.ndarray] = {}


_here = _Here()
_lock = threading.Lock()
_jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_workers = 0  # threads that wait for jobs


def _run(work: Callable[[Any], object], items: Any, like: Array) -> None:
    """work(item) for every item; on the CPU by several threads, this one among them."""
    if _here.busy or array_module(like) is not np:
        for item in items:
            work(item)
        return
    helpers = max(0, min(threads(), len(items)) - 1)
    if helpers:
        _start_workers(helpers)
        _Job(work, items).run(helpers)
        return
    with one_blas_thread():
        try:
            _here.busy = True
            for item in items:
                work(item)
        finally:
            _here.busy = False


class _Job:
    """Items that several threads work through: the caller, and workers that join it when they are free.

        caller    asks for helpers    works      closes the job    waits for those who joined    raises the first error
        worker                 joins, unless it is closed    works    leaves

    To work is to take the next item until there is none, or until somebody has failed.
    """

    def __init__(self, work: Callable[[Any], object], items: Any):
        self.work, self.items = work, items
        self.take = itertools.count()  # whoever is free takes the next item; next() on it is atomic
        self.errors: list[BaseException] = []
        self.change = threading.Condition()  # guards the next two
        self.open, self.helping = True, 0  # whether workers may join; how many have, and have not left

    def run(self, helpers: int) -> None:
        """The caller's side."""
        with one_blas_thread():
            try:
                for _ in range(helpers):
                    _jobs.put(partial(copy_context().run, self.join))  # with the caller's np.errstate
                self.share()
            finally:
                # Nobody leaves while a helper works: it writes to memory that the next call will use.  Ctrl-C may come
                # at any moment, here too, hence the loop; with an error in the list helpers stop after their item.
                while self.open or self.helping:
                    try:
                        with self.change:
                            self.open = False
                            self.change.wait_for(lambda: not self.helping)
                    except BaseException as interruption:
                        self.errors.append(interruption)
                _here.busy = False
        if self.errors:
            raise self.errors[0]

    def join(self) -> None:
        """A worker's side."""
        with self.change:
            if not self.open:
                return
            self.helping += 1
        self.share()
        with self.change:
            self.helping -= 1
            self.change.notify()

    def share(self) -> None:
        """Work, as the caller and the workers do alike."""
        try:
            _here.busy = True
            while (i := next(self.take)) < len(self.items) and not self.errors:
                self.work(self.items[i])
        except BaseException as error:
            self.errors.append(error)
        finally:
            _here.busy = False


def _start_workers(count: int) -> None:
    global _workers
    with _lock:
        while _workers < count:
            threading.Thread(target=_serve, name=f"minicnn worker {_workers}", daemon=True).start()
            _workers += 1


def _serve() -> None:
    while True:
        _jobs.get()()


def _after_fork() -> None:
    """In a forked child the worker threads are gone, and locks may be held by threads that are gone too."""
    global _lock, _jobs, _workers
    _lock, _jobs, _workers = threading.Lock(), queue.SimpleQueue(), 0
    _here.busy = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory of this thread for a temporary array; the next call with the same name gives the same memory.

    Fresh memory costs as much as the work that is done in it: the system clears every page.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    block = _here.scratch.get(name)
    if block is None or block.size < size:
        block = _here.scratch[name] = np.empty(size, np.uint8)
    return block[:size].view(dtype).reshape(shape)
