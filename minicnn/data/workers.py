"""Processes that decode pictures into shared memory.

    with Decoders(workers=2, side=256) as decoders:
        for pixels, errors in decoders.map(chunks):      # a chunk is a list of 1 .. CHUNK Views of one size
            ...                                          # pixels (n, crop, crop, 3) uint8, errors {index: why}

Results come in the order of the chunks, whichever process decoded them.  A chunk goes to the process with the least
to do; each has at most DEPTH at a time, and the memory has SLOTS places per process, so nothing grows with the size of
the data set.  `pixels` is a view of that memory, valid until the next chunk is asked for.

Processes are spawned, not forked: a fork of a program with threads, a BLAS or a GPU may hang.  They ignore Ctrl-C and
SIGTERM, which may reach a whole group of processes: the program ends them, by closing their pipes.
The memory has no name in the file system, so that it is gone with the last process that uses it, however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import numpy as np

from minicnn.data.dataset import DataError
from minicnn.data.decode import ImageError, View, decode, printable

CHUNK = 16  # pictures in a message: some tens of milliseconds of work
DEPTH = 2  # chunks that a process has at a time: one in work, one waiting
SLOTS = 6  # chunks in memory for each process, those done and not yet fetched included
PATIENCE = 5.0  # seconds for a process to end before it is killed

Chunk = Sequence[View]


@dataclass
class _Process:
    process: Any
    pipe: Connection
    given: dict[int, Chunk] = field(default_factory=dict)  # chunks that it has, by number


class Decoders:
    """A pool of decoding processes; close it, or use it in a `with` statement."""

    def __init__(self, workers: int, side: int):
        if workers < 1 or side < 1:
            raise ValueError(f"Decoders: needs at least one process and one pixel, got {workers} and {side}")
        self.side, self._slots = side, SLOTS * workers
        context = multiprocessing.get_context("spawn")
        memory = context.RawArray("B", self._slots * CHUNK * side * side * 3)
        self._memory = np.frombuffer(memory, np.uint8).reshape(self._slots, -1)
        self._processes: list[_Process] = []
        with _ignoring_ctrl_c():  # inherited by the new processes from their first moment on
            for i in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, memory, side), name=f"decoder {i}", daemon=True)
                process.start()
                theirs.close()  # so that the end of the process ends the pipe
                self._processes.append(_Process(process, ours))

    def __enter__(self) -> Decoders:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes.  May be called twice."""
        for one in self._processes:
            one.pipe.close()
        for one in self._processes:
            one.process.join(PATIENCE)
            if one.process.is_alive():
                one.process.kill()
                one.process.join()
        self._processes.clear()

    def map(self, chunks: Iterable[Chunk]) -> Generator[tuple[np.ndarray, dict[int, str]], None, None]:
        """(pixels, errors) of every chunk, in order.  Pixels of pictures with an error mean nothing."""
        if not self._processes:
            raise ValueError("Decoders: map was called after close")
        source, free = enumerate(chunks), list(range(self._slots))
        slot_of: dict[int, int] = {}
        sizes: dict[int, tuple[int, int]] = {}  # pictures and their side, of chunks under way
        done: dict[int, dict[int, str]] = {}
        turn, more = 0, True
        try:
            while True:
                while more and free and (idle := self._idle()):
                    number, chunk = next(source, (-1, ()))
                    if not chunk:
                        more = False
                        break
                    slot_of[number], sizes[number] = free.pop(), (len(chunk), chunk[0].crop)
                    self._give(idle, number, slot_of[number], chunk)
                if turn in done:
                    (count, crop), errors = sizes.pop(turn), done.pop(turn)
                    pixels = self._memory[slot_of[turn], : count * crop * crop * 3]
                    yield pixels.reshape(count, crop, crop, 3), errors
                    free.append(slot_of.pop(turn))
                    turn += 1
                elif slot_of:
                    done.update(self._fetch())
                else:
                    return
        finally:  # what is under way when the caller stops early must not reach the next map
            while any(one.given for one in self._processes):
                with contextlib.suppress(DataError):
                    self._fetch()

    def _idle(self) -> _Process | None:
        """The process with the least to do; None if even that one has enough."""
        least = min(self._processes, key=lambda one: len(one.given))
        return least if len(least.given) < DEPTH else None

    def _give(self, one: _Process, number: int, slot: int, chunk: Chunk) -> None:
        one.given[number] = chunk
        try:
            one.pipe.send((number, slot, chunk))
        except OSError:
            self._report(one)

    def _fetch(self) -> dict[int, dict[int, str]]:
        """Wait for some chunks to be done: their errors, by number."""
        busy = {one.pipe: one for one in self._processes if one.given}
        found = {}
        for pipe in wait(list(busy)):
            one = busy[pipe]  # type: ignore[index]
            try:
                number, errors = one.pipe.recv()
            except (EOFError, OSError):
                self._report(one)
            del one.given[number]
            if isinstance(errors, str):  # not the fault of a picture
                raise DataError(errors)
            found[number] = errors
        return found

    def _report(self, one: _Process) -> NoReturn:
        """Raise: a process has ended by itself."""
        one.process.join(PATIENCE)
        chunk = next(iter(one.given.values()))
        one.given.clear()
        raise DataError(
            f"a decoding process ended with exit code {one.process.exitcode}, at one of {len(chunk)} files from "
            f"{printable(chunk[0].path)} on; if the machine is short of memory, use fewer processes"
        )


@contextlib.contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe: Connection, memory: Any, side: int) -> None:
    """What a process does: decode chunks until its pipe is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # Pillow's, about EXIF data and palettes that it can do without
    slots = np.frombuffer(memory, np.uint8).reshape(-1, CHUNK * side * side * 3)
    with contextlib.suppress(EOFError, OSError):  # of the pipe; `decode` makes a DataError of those of files
        while True:
            number, slot, chunk = pipe.recv()
            size, errors = 3 * chunk[0].crop ** 2, {}
            try:
                for i, view in enumerate(chunk):
                    try:
                        slots[slot, i * size : (i + 1) * size] = decode(view, side).reshape(-1)
                    except ImageError as error:
                        errors[i] = str(error)
            except DataError as error:
                pipe.send((number, str(error)))
            else:
                pipe.send((number, errors))
