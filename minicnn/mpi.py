"""The communicator of processes that MPI started.  The only file that imports mpi4py, and not before it is needed.

How a program knows: a launcher (mpiexec, srun) tells every process in its environment how many it has started.  With
one there is nothing to do.  With more, they train together, unless MINICNN_CLUSTER=none makes each work by itself.

Arrays on a GPU travel through the memory of the host, unless MINICNN_MPI_CUDA=1 says that the MPI is CUDA-aware.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np

from minicnn.backend import Array, array_module, device_of, to_host
from minicnn.cluster import ALONE, ClusterError, Communicator, T, in_order

SWITCH = "MINICNN_CLUSTER"  # auto (as the launcher says), mpi, none
LAUNCHERS = {  # how they tell the number of processes, and which one this is
    "PMI_SIZE": "PMI_RANK",  # MPICH, Intel MPI
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",  # Open MPI
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",  # srun
}
SMALL = 1 << 14  # bytes: up to here every rank sends all of an array to every other, in one round instead of two


def launched() -> tuple[int, int]:
    """How many processes a launcher started together, and which one this is; (1, 0) if each works by itself."""
    if os.environ.get(SWITCH) == "none" or pooled():
        return 1, 0
    told = [(_number(size), _number(rank)) for size, rank in LAUNCHERS.items()]
    return max([(1, 0), *told])


def launcher(count: int) -> list[str]:
    """The words before `python` in a command for so many processes."""
    return ["mpiexec", "-n", str(count)] if count > 1 else []


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0


def pooled() -> bool:
    """Whether this process was started by `python -m mpi4py.futures`, as one of a pool."""
    return "mpi4py.futures" in sys.orig_argv


def join() -> Communicator:
    """The communicator of all processes that were started together: over MPI if there is more than one."""
    asked, (count, _) = os.environ.get(SWITCH, "auto"), launched()
    if asked not in ("auto", "mpi", "none"):
        raise ClusterError(f"{SWITCH} must be auto, mpi or none, got {asked!r}")
    if asked == "none" or (asked == "auto" and count == 1):
        return ALONE
    alone = f"For trainings that have nothing to do with each other, set {SWITCH}=none"
    try:
        cluster = Mpi()
    except (ImportError, RuntimeError) as error:  # no mpi4py, or no MPI that it could load
        raise ClusterError(
            f"{count} processes were started together, but they cannot talk: {error}.  "
            f"Install mpi4py, built for the MPI that started them: pip install mpi4py.  {alone}"
        ) from None
    if asked == "auto" and cluster.size != count:
        raise ClusterError(
            f"{count} processes were started together, but mpi4py sees {cluster.size}: it was built for another MPI "
            f"than the one that started them.  Use the mpiexec of its own MPI, or reinstall mpi4py.  {alone}"
        )
    return cluster


class Mpi(Communicator):
    """All processes of MPI's world."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._world = MPI.COMM_WORLD.Dup()
        self._failures = MPI.COMM_WORLD.Dup()  # because a failing rank does not know what the others are doing
        self.rank, self.size = self._world.rank, self._world.size
        self.launcher = launcher(self.size)
        machine = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = machine.rank, machine.size
        self._direct = os.environ.get("MINICNN_MPI_CUDA") == "1"
        machine.Free()

    def gather(self, value: T) -> list[T]:
        return self._world.allgather(value)

    def gather_number(self, number: int) -> list[int]:
        of_all = np.empty(self.size, np.int64)
        self._world.Allgather(np.array(number, np.int64), of_all)
        return of_all.tolist()

    def on_root(self, work: Callable[[], T]) -> T:
        value, error = self.tried_on_root(work)
        self._come_together(self._world)  # asleep: this may take long, and MPI's own waiting keeps a core busy
        value, error = self._world.bcast((value, error))
        if error is not None:
            raise error
        return value

    def sum(self, array: Array) -> Array:
        device = device_of(array)
        if self._direct and array_module(array) is not np:
            return self._added(array.reshape(-1)).reshape(array.shape)
        host = np.ascontiguousarray(to_host(array))
        return device.put(self._added(host.reshape(-1)).reshape(array.shape))

    def _added(self, own: Array) -> Array:
        """The sum over ranks of a vector (n,), in a new one.

        This is not MPI's own sum, whose order of additions is unspecified and may depend on where the ranks run.
        """
        xp, wait = array_module(own), device_of(own).synchronize  # MPI does not wait for a GPU
        wait()
        if own.nbytes <= SMALL:
            of_all = xp.empty((self.size, own.size), own.dtype)
            self._world.Allgather(own, of_all)
            return in_order(of_all)
        # Rank r adds up block r of all, then every rank collects the blocks: 2 n numbers travel from each, whatever
        # the number of ranks.
        ends = [own.size * r // self.size for r in range(self.size + 1)]
        counts = [end - start for start, end in pairwise(ends)]
        mine = counts[self.rank]
        blocks = xp.empty((self.size, mine), own.dtype)
        self._world.Alltoallv([own, (counts, ends[:-1])], [blocks, ([mine] * self.size, None)])
        added, total = in_order(blocks), xp.empty_like(own)
        wait()
        self._world.Allgatherv(added, [total, (counts, ends[:-1])])
        return total

    def all_fail(self, patience: float) -> bool:
        """Called by a rank that fails: whether all others call it too, within `patience` seconds."""
        return self._come_together(self._failures, patience)

    def _come_together(self, over: Any, patience: float = math.inf) -> bool:
        """Whether all ranks come here within `patience` seconds."""
        request, end = over.Ibarrier(), time.monotonic() + patience
        while not request.Test():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        self._world.Abort(code)


def pool(begin: Callable[[], object]) -> tuple[Executor, int]:
    """The other processes that `python -m mpi4py.futures` was started with, as workers that call begin(); how many."""
    from mpi4py.futures import MPIPoolExecutor

    executor = MPIPoolExecutor(initializer=begin)
    return executor, executor.num_workers
