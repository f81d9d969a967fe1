"""What the tests run on many ranks (tests/ranks.py starts it):

mpiexec -n 3 python -m tests.jobs <job> ...         or
python -m tests.jobs <job> ... --processes 3
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from experiments import cifar, imagenet
from experiments.cli.app import StopSignal
from experiments.cli.ranks import cluster_executor, run_on_ranks, run_program
from minicnn.backend import CPU
from minicnn.cluster import ALONE
from minicnn.data.dataset import DataError
from minicnn.processes import PLACE
from minicnn.training import Trainer


def train(cluster, out):
    """Train twice and save both results; the ranks must agree on every bit."""
    from tests.test_cluster import train as train_on

    results = [train_on(CPU, cluster)[0] for _ in range(2)]
    for result in results:
        for theirs in cluster.gather(result):
            assert all(np.array_equal(theirs[name], value) for name, value in result.items())
    if cluster.rank == 0:
        np.savez(out, **{f"{i}/{name}": value for i, result in enumerate(results) for name, value in result.items()})


def primitives(cluster, device):
    """Sums of small and large arrays, and what is said among ranks, against what a hand would write."""
    from tests.devices import STANDIN

    there = {"cpu": CPU, "standin": STANDIN}[device]
    for shape in [(), (3,), (2, 3), (5000,), (101, 103), (4, 1000)]:
        own = np.random.default_rng(cluster.rank).normal(size=shape)
        each = [np.random.default_rng(rank).normal(size=shape) for rank in range(cluster.size)]
        expected = each[0]
        for other in each[1:]:
            expected = expected + other  # in the order of the ranks, to the last bit
        array = there.put(own.copy())
        found = cluster.sum(array)
        assert found.shape == shape
        np.testing.assert_array_equal(there.get(found), expected)
        np.testing.assert_array_equal(there.get(array), own)  # is left as it was
    assert cluster.gather("a" * cluster.rank) == ["a" * rank for rank in range(cluster.size)]
    assert cluster.gather_number(cluster.rank**2) == [rank**2 for rank in range(cluster.size)]
    assert cluster.on_root(lambda: cluster.rank) == 0
    try:
        cluster.on_root(lambda: 1 / 0)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("an error on rank 0 must be raised on all")
    assert (cluster.local_rank, cluster.local_size) == (cluster.rank, cluster.size)
    if cluster.rank == 0:
        print(f"{cluster.size} ranks agree")


def fail(cluster, how):
    """Rank 1 fails, the others wait for it, or are done."""
    print("hello")
    print(f"rank {cluster.rank} is here", file=sys.stderr)
    if cluster.rank == 1 or how == "together":
        if how == "bug":
            raise RuntimeError("a bug")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise DataError("a file is damaged")
    if how != "last":
        cluster.gather(None)


def wait(cluster, folder):
    """Rank 1 computes without an end, the others wait for it; a file named by each rank has its process id."""
    Path(folder, f"writing{cluster.rank}").write_text(str(os.getpid()))
    Path(folder, f"writing{cluster.rank}").rename(Path(folder, str(cluster.rank)))
    while cluster.rank == 1:
        np.ones((100, 100)) @ np.ones((100, 100))
    cluster.gather(None)


def command(name, folder, stop_rank, stop_after, *arguments):
    """A command line of which rank `stop_rank` gets a signal in step `stop_after`; only rank 0 may write `folder`."""
    rank, train_step, steps = int(os.environ.get("PMI_RANK", os.environ.get(PLACE, "0")).split()[0]), Trainer._train, []

    def counted(self, *batch):
        steps.append(1)
        if rank == int(stop_rank) and len(steps) == int(stop_after):
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(self, *batch)

    def guard(event, details):
        writes = event in ("os.rename", "os.mkdir", "os.remove", "os.link") or (
            event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if writes and isinstance(details[0], (str, Path)) and Path(folder) in Path(details[0]).absolute().parents:
            raise RuntimeError(f"rank {rank} writes: {event} {details}")

    if rank > 0:
        sys.addaudithook(guard)
    Trainer._train = counted
    sys.argv = [name, *arguments]
    module = {"cifar": cifar, "imagenet": imagenet}[name]
    run_on_ranks(module.main, module.MODULE)


def pool(folder):
    """Programs on the workers: what they see, and what they end with; the last one is asked to stop."""
    executor, workers = cluster_executor()
    code = (
        "import os, sys; from minicnn.mpi import join; print(join().size, os.environ['X']); sys.exit(int(sys.argv[1]))"
    )
    with StopSignal(), executor:
        runs = [
            executor.submit(
                run_program, [sys.executable, "-c", code, str(i)], {"X": f"x{i}"}, Path(f"{i}.out"), Path(f"{i}.err")
            )
            for i in range(3)
        ]
        print(workers, [run.result() for run in runs], [Path(f"{i}.out").read_text() for i in range(3)])
        wait = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(100)"]
        last = executor.submit(run_program, wait, {}, Path("last.out"), Path("last.err"))
        while not (Path("last.out").exists() and Path("last.out").read_text()):
            time.sleep(0.05)
        Path(folder, "waiting").touch()
        print(last.result())


def on_ranks(job):
    """A job that is given its communicator as a command is; "--processes N" is not for the job."""

    def run(*arguments):
        given = arguments[: arguments.index("--processes")] if "--processes" in arguments else arguments
        run_on_ranks(lambda _, cluster=ALONE: job(cluster, *given) or 0, "tests.jobs")

    return run


JOBS = {job.__name__: on_ranks(job) for job in (train, primitives, fail, wait)} | {"command": command, "pool": pool}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
