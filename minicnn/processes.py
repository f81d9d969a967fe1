"""The communicator of processes that a command starts by itself, on one machine and without MPI.

    with Leader(4) as cluster:     rank 0 is the process that the user has started; the others run the same command line
    cluster = joined()             in one of those: its communicator; None in a process that was not started so

Messages go through rank 0: every other rank has a pair of sockets with it, sends, and sleeps until the answer comes.
Large vectors stay in memory that all processes see: each writes its own, adds up its block of all of them, in the
order of the ranks, and copies the total.

Nothing outlives the processes.  The memory and the sockets have no names in the file system.  A rank that ends closes
its sockets, so whoever waits for it learns of that at once; and in each rank but the first a thread waits for the end
of rank 0, however that comes about, and then ends the process.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple, Self

import numpy as np

from minicnn.backend import Array, device_of, to_host
from minicnn.cluster import ClusterError, Communicator, T, in_order

PLACE = "MINICNN_PROCESS"  # how a started process learns: rank, size, and the descriptors of two sockets and the memory
SMALL = 1 << 14  # bytes: up to here rank 0 adds up the vectors, in one round of messages instead of two
REPORT = 4_000  # characters of what a failed rank has to say: less than a socket holds, so that sending never waits
PATIENCE = 5.0  # seconds for a process to end after it has closed its sockets


class RankLostError(ClusterError):
    """Raised on rank 0 when another rank has ended: a message for the user, and the exit code to end with."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class Processes(Communicator):
    """This process among those that rank 0 has started; all are on one machine.

    memory   the descriptor of a file that all may map
    """

    def __init__(self, rank: int, size: int, memory: int):
        self.rank, self.size, self.local_rank, self.local_size = rank, size, rank, size
        self._memory = memory
        self._vectors = np.empty((size + 1, 0), np.uint8)  # one of each rank, and the total

    @abstractmethod
    def _ask_root(self, own: bytes, answer: Callable[[list[bytes]], bytes]) -> bytes:
        """answer(the messages of all ranks), which rank 0 computes, on every rank."""

    def gather(self, value: T) -> list[T]:
        of_all = self._ask_root(pickle.dumps(value), pickle.dumps)
        return [pickle.loads(one) for one in pickle.loads(of_all)]

    def gather_number(self, number: int) -> list[int]:
        return np.frombuffer(self._ask_root(np.int64(number).tobytes(), b"".join), np.int64).tolist()

    def on_root(self, work: Callable[[], T]) -> T:
        value, error = self.tried_on_root(work)
        told = self._ask_root(b"", lambda _: pickle.dumps((value, error)))
        if self.rank > 0:
            value, error = pickle.loads(told)
        if error is not None:
            raise error
        return value

    def sum(self, array: Array) -> Array:
        host = np.ascontiguousarray(to_host(array))
        add = self._add_small if host.nbytes <= SMALL else self._add_large
        return device_of(array).put(add(host.reshape(-1)).reshape(array.shape))

    def _add_small(self, own: np.ndarray) -> np.ndarray:
        def add(of_all: list[bytes]) -> bytes:
            first, *others = (np.frombuffer(one, own.dtype) for one in of_all)
            return in_order([first.copy(), *others]).tobytes()

        return np.frombuffer(bytearray(self._ask_root(own.tobytes(), add)), own.dtype)

    def _add_large(self, own: np.ndarray) -> np.ndarray:
        if own.nbytes > self._vectors.shape[1]:
            self._make_room(own.nbytes)
        *each, total = self._vectors[:, : own.nbytes].view(own.dtype)
        each[self.rank][:] = own
        self._meet()
        block = slice(own.size * self.rank // self.size, own.size * (self.rank + 1) // self.size)
        np.add(each[0][block], each[1][block], out=total[block])
        in_order([total[block], *(vector[block] for vector in each[2:])])
        self._meet()  # the next total is written after the next of these, when everybody has copied this one
        return total.copy()

    def _make_room(self, size: int) -> None:
        """Memory for vectors of `size` bytes; every rank comes here for the same vector."""
        self._meet()  # somebody may still be copying the old total, which lies where new vectors will be
        shape = (self.size + 1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        if self.rank == 0:
            os.ftruncate(self._memory, math.prod(shape))
        self._meet()
        self._vectors = np.frombuffer(mmap.mmap(self._memory, math.prod(shape)), np.uint8).reshape(shape)

    def _meet(self) -> None:
        """Wait until all ranks are here."""
        self._ask_root(b"", b"".join)


class Leader(Processes):
    """Rank 0: starts the others, each with the command line of this process; after its `with` block none is left.

    They are out of reach of Ctrl-C, which comes to this process alone: it tells them to stop.
    """

    def __init__(self, count: int):
        if count < 2:
            raise ValueError(f"Leader: needs at least 2 processes, got {count}")
        if os.name != "posix":
            raise ClusterError("processes without MPI need Linux or macOS; elsewhere, use mpiexec (docs/cluster.md)")
        super().__init__(0, count, _anonymous_memory())
        self._others: list[_Other] = []
        try:
            for rank in range(1, count):
                self._others.append(_started(rank, count, self._memory))
        except BaseException as error:  # Ctrl-C among them
            self.close()
            if isinstance(error, OSError):
                raise ClusterError(f"cannot start {count} processes: {error}; use fewer") from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all ranks at once: they write no files.  One that has ended is not touched."""
        for other in self._others:
            other.process.kill()
        for other in self._others:
            other.process.wait()
            other.talk.close()
            other.failure.close()
        os.close(self._memory)

    def finish(self) -> None:
        """Wait for the ends of all ranks, when nothing is left to do; RankLostError if one fails."""
        for other in self._others:
            if other.process.wait() != 0:
                raise self._ended(other)

    def _ask_root(self, own: bytes, answer: Callable[[list[bytes]], bytes]) -> bytes:
        of_all = [own, *map(self._heard, self._others)]
        answered = answer(of_all)
        for other in self._others:
            try:
                other.talk.send_bytes(answered)
            except OSError:
                raise self._ended(other) from None
        return answered

    def _heard(self, other: _Other) -> bytes:
        try:
            return other.talk.recv_bytes()
        except (EOFError, OSError):
            raise self._ended(other) from None

    def _ended(self, other: _Other) -> RankLostError:
        """Why a rank no longer answers."""
        who = f"rank {other.rank} of {self.size}"
        with contextlib.suppress(EOFError, OSError):
            if other.failure.poll():
                text, code = other.failure.recv()
                return RankLostError(f"{text}{who} failed; ending all ranks", code)
        try:
            code = other.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return RankLostError(f"error: {who} no longer answers; ending all ranks", 1)
        if code >= 0:
            return RankLostError(f"error: {who} ended with exit code {code}; ending all ranks", code or 1)
        killed = f"error: {who} was killed by signal {-code} ({signal.strsignal(-code)}); ending all ranks"
        if -code == signal.SIGKILL:
            killed += ".  If the machine is short of memory, use fewer processes or a smaller batch"
        return RankLostError(killed, 128 - code)


class _Other(NamedTuple):
    """What rank 0 has of another rank: `failure` brings what it has to say if it fails."""

    rank: int
    process: subprocess.Popen[bytes]
    talk: Connection
    failure: Connection


def _started(rank: int, size: int, memory: int) -> _Other:
    """Start a rank.  Spawned, not forked: a fork of a program with threads, a BLAS or a GPU may hang."""
    (talk, their_talk), (failure, their_failure) = socket.socketpair(), socket.socketpair()
    with talk, their_talk, failure, their_failure:
        inherited = [their_talk.fileno(), their_failure.fileno(), memory]
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, PLACE: " ".join(map(str, [rank, size, *inherited]))},
            pass_fds=inherited,
            start_new_session=True,
        )
        return _Other(rank, process, Connection(talk.detach()), Connection(failure.detach()))


class Follower(Processes):
    """A rank that rank 0 has started."""

    def __init__(self, rank: int, size: int, talk: Connection, failure: Connection, memory: int):
        super().__init__(rank, size, memory)
        self._talk, self._failure = talk, failure
        threading.Thread(target=self._end_with_root, name="end with rank 0", daemon=True).start()

    def _end_with_root(self) -> None:
        """Rank 0 never writes here: reading ends when it has ended."""
        os.read(self._failure.fileno(), 1)
        os._exit(1)

    def _ask_root(self, own: bytes, answer: Callable[[list[bytes]], bytes]) -> bytes:
        try:
            self._talk.send_bytes(own)
            return self._talk.recv_bytes()
        except (EOFError, OSError):  # rank 0 is ending, and has said why
            raise SystemExit(1) from None

    def report(self, text: str, code: int) -> None:
        """Called by a rank that fails: rank 0 will say why, unless it fails as well."""
        with contextlib.suppress(OSError):
            self._failure.send((text[-REPORT:], code))
        self._talk.close()  # rank 0 notices


def joined() -> Follower | None:
    """The communicator of this process, if a Leader has started it."""
    place = os.environ.pop(PLACE, None)  # not for programs that this one starts
    if place is None:
        return None
    rank, size, talk, failure, memory = map(int, place.split())
    for inherited in (talk, failure, memory):
        os.set_inheritable(inherited, False)
    return Follower(rank, size, Connection(talk), Connection(failure), memory)


def _anonymous_memory() -> int:
    """The descriptor of an empty file without a name, which is gone with the last process that uses it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("minicnn")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
