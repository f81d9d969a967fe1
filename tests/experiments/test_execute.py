"""Running the steps: interruptions, several workers, a pool of ranks, full disks."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import photos, reproduce
from experiments.cli.app import UsageError
from experiments.reproduction.commands import resources
from experiments.reproduction.execute import Executor
from experiments.reproduction.records import Records
from experiments.reproduction.steps import Analysis, convpool
from experiments.reproduction.targets import Files
from tests.experiments.made_runs import CPU, results, tiny
from tests.ranks import needs_mpi, run, start_mpi

ROOT = Path(__file__).parents[2]


def start(out, *options):
    """made_runs.py is experiments.reproduce with a tiny scale."""
    line = [sys.executable, "-m", "tests.experiments.made_runs", *table1(out), *options]
    return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def table1(out):
    return ["table1", "--scale", "tiny", "--out", str(out), *CPU]


def complete(out, *options):
    process = start(out, *options)
    said, _ = process.communicate()
    assert process.returncode == 0, said


def wait_for(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    complete(out)
    return results(out)


def test_killed_and_started_again_it_ends_in_the_same_bits(tmp_path, uninterrupted):
    """kill -9, at the first checkpoint and in the middle of the second run; its child processes end too."""
    for count in (1, 2):
        process = start(tmp_path)
        wait_for(lambda count=count: len(list(tmp_path.glob("runs/*/checkpoint.npz"))) >= count)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_for(lambda: not _children(tmp_path))
    complete(tmp_path)
    assert results(tmp_path) == uninterrupted


def _children(out):
    """Processes that train below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"experiments.reproduction.child" in line and os.fsencode(str(out)) in line:
            found.append(path.parent.name)
    return found


def test_ctrl_c_saves_all_workers_and_says_how_to_go_on(tmp_path, uninterrupted):
    process = start(tmp_path, "--workers", "2")
    wait_for(lambda: len(list(tmp_path.glob("runs/*/checkpoint.npz"))) >= 1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "interrupted; to continue:" in said
    assert f"python -m experiments.reproduce table1 --scale tiny --out {tmp_path}" in said
    assert "Traceback" not in said
    assert not _children(tmp_path)
    complete(tmp_path)
    assert results(tmp_path) == uninterrupted


@needs_mpi
def test_a_pool_of_ranks_ends_in_the_same_bits(tmp_path, uninterrupted):
    pool = ("mpi4py.futures", "-m", "tests.experiments.made_runs", *table1(tmp_path), "--workers", "mpi")
    out = run(start_mpi, 3, *pool, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    assert "2 done" in out.stdout
    assert results(tmp_path) == uninterrupted


def test_a_pool_of_ranks_must_be_started():
    with pytest.raises(UsageError, match="mpiexec -n 5 python -m mpi4py.futures -m experiments.reproduce"):
        reproduce.main(["table1", "--workers", "mpi", *CPU])


def test_every_worker_has_its_gpu_and_its_share_of_the_cores(monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.reproduction.commands.gpu_problem", lambda i: None if i < 2 else "no such card")
    monkeypatch.setattr("experiments.reproduction.commands.threads", lambda: 8)
    made = resources("auto", 3, {"cifar100": Path("c.tar")}, Files())
    assert made.devices == ("gpu:0", "gpu:1")
    assert made.environment()["MINICNN_THREADS"] == "2"
    step = convpool("relu", "base", dataset="cifar100")
    lines = [" ".join(made.arguments(step, Records(tmp_path), slot)) for slot in range(3)]
    assert [re.search(r"--device (\S+)", line)[1] for line in lines] == ["gpu:0", "gpu:1", "gpu:0"]
    assert "--resume --data c.tar" in lines[0]
    assert resources("cpu", 3, {}, Files()).devices == ("cpu",)


def test_a_full_disk_is_the_failure_of_a_step(tmp_path):
    (tmp_path / "logs").mkdir()
    training = tiny().table1[0]
    (tmp_path / "logs" / f"{training.name}.out").symlink_to("/dev/full")
    executor = Executor(Records(tmp_path), resources("cpu", 1, {}, Files()), 1, lambda: False)
    (outcome,) = executor.run([training])
    assert outcome.state == "failed"
    assert "No space left on device" in outcome.why


def test_a_stamp_that_cannot_be_written_is_the_failure_of_a_step(tmp_path, monkeypatch):
    def full(path, value):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("experiments.reproduction.execute.write_json", full)
    step = Analysis("made", photos.MODULE, ("--train", "3", "--validation", "2"), makes=("train",))
    executor = Executor(Records(tmp_path), resources("cpu", 1, {}, Files()), 1, lambda: False)
    (outcome,) = executor.run([step])
    assert outcome.state == "failed"
    assert "No space left on device" in outcome.why
