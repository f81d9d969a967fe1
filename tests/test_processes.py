"""The same without MPI, with 2, 4 and 8 processes; and that nothing is left of them, however they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minicnn import processes
from minicnn.backend import CPU
from minicnn.cluster import ALONE, ClusterError
from minicnn.processes import PLACE, Leader, joined
from tests.ranks import PATIENCE, run, start_processes
from tests.test_cluster import train

SHARED = Path("/dev/shm")


def weights(ranks, folder):
    """Those of two trainings in one start of the processes."""
    folder.mkdir()
    out = run(start_processes, ranks, "tests.jobs", "train", "weights.npz", cwd=folder)
    assert out.returncode == 0, out.stderr
    with np.load(folder / "weights.npz") as found:
        return dict(found)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_training_is_that_of_one_process(ranks, tmp_path):
    """Batch normalisation, dropout, augmentation, clipping; uneven and empty parts (tests/test_cluster.py)."""
    expected, found = train(CPU, ALONE)[0], weights(ranks, tmp_path / "once")
    for name, value in expected.items():
        np.testing.assert_allclose(found[f"0/{name}"], value, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(found[f"0/{name}"], found[f"1/{name}"])
    if ranks == 2:
        again = weights(ranks, tmp_path / "again")
        assert all(np.array_equal(again[name], value) for name, value in found.items())


@pytest.mark.parametrize(("ranks", "device"), [(2, "standin"), (4, "cpu")])
def test_sums_and_messages(ranks, device, tmp_path):
    out = run(start_processes, ranks, "tests.jobs", "primitives", device, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert out.stdout == f"{ranks} ranks agree\n"


def alive(pid):
    """Whether a process runs; one that has ended but that nobody has asked about does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def soon(condition):
    """Whether something becomes true before long."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def named_memory():
    """The shared memory of this machine that has a name, apart from what MPICH leaves when it is killed."""
    return {path for path in SHARED.glob("*") if not path.name.startswith("mpich")}


@pytest.fixture
def nothing_left():
    """No named memory is left; other programs may have had some meanwhile."""
    before = named_memory()
    yield
    assert soon(lambda: named_memory() <= before)


@pytest.fixture
def waiting(tmp_path, nothing_left):
    """A command on three ranks of which one computes and the others wait; and their process ids."""
    with start_processes(3, "tests.jobs", "wait", tmp_path, cwd=tmp_path) as process:
        try:
            assert soon(lambda: all((tmp_path / str(rank)).exists() for rank in range(3)))
            pids = [int((tmp_path / str(rank)).read_text()) for rank in range(3)]
            assert pids[0] == process.pid
            yield process, pids
        finally:
            process.kill()  # else the end of the with statement waits for it, for ever
        assert soon(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_the_ranks_end_with_the_process_that_started_them(waiting, number, code):
    """Also in the middle of a computation; Ctrl-C ends them as it ends one process, without a word."""
    process, pids = waiting
    process.send_signal(number)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == code
    assert soon(lambda: not any(map(alive, pids)))


def test_a_rank_that_is_killed_ends_all_with_a_message(waiting):
    process, pids = waiting
    os.kill(pids[1], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == ""
    assert err == (
        "error: rank 1 of 3 was killed by signal 9 (Killed); ending all ranks.  "
        "If the machine is short of memory, use fewer processes or a smaller batch\n"
    )
    assert process.returncode == 128 + signal.SIGKILL
    assert not any(map(alive, pids))


def test_a_rank_that_fails_at_the_very_end_is_noticed(tmp_path):
    out = run(start_processes, 2, "tests.jobs", "fail", "last", cwd=tmp_path)
    assert out.returncode == 1
    assert out.stderr.endswith("rank 1 is here\nerror: a file is damaged\nrank 1 of 2 failed; ending all ranks\n")


def test_a_rank_that_does_not_begin_is_noticed(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "import sys; sys.exit(7)"])
    with (
        Leader(2) as cluster,
        pytest.raises(processes.RankLostError, match="rank 1 of 2 ended with exit code 7; ending all ranks") as caught,
    ):
        cluster.gather(None)
    assert caught.value.code == 7


def test_a_rank_that_closes_its_sockets_and_lives_on_is_ended(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.01)
    code = f"import os, time; [os.close(int(n)) for n in os.environ['{PLACE}'].split()[2:]]; time.sleep(100)"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", code])
    with Leader(2) as cluster, pytest.raises(processes.RankLostError, match="rank 1 of 2 no longer answers"):
        cluster.gather(None)


def test_what_cannot_be_started_leaves_nothing(monkeypatch, nothing_left):
    opened = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ClusterError, match="cannot start 3 processes: .*use fewer"):
        Leader(3)
    assert len(os.listdir("/dev/fd")) == opened
    with pytest.raises(ValueError, match="needs at least 2 processes, got 1"):
        Leader(1)
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        with pytest.raises(ClusterError, match="need Linux or macOS; elsewhere, use mpiexec"):
            Leader(2)


def test_nobody_started_us(monkeypatch):
    monkeypatch.delenv(PLACE, raising=False)
    assert joined() is None


def test_memory_without_a_name_where_linux_has_none_to_offer(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory = processes._anonymous_memory()
    os.ftruncate(memory, 10)
    assert os.fstat(memory).st_size == 10
    os.close(memory)
    assert not list(tmp_path.iterdir())
