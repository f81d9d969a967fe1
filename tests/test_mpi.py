"""The same over MPI, with 1, 2 and 3 processes; which launcher started us; the pool of workers."""

import signal
import sys
import time

import numpy as np
import pytest

from minicnn import mpi
from minicnn.backend import CPU
from minicnn.cluster import ALONE, ClusterError
from minicnn.mpi import LAUNCHERS, SWITCH, join, launched
from tests.ranks import PATIENCE, needs_mpi, run, start_mpi
from tests.test_cluster import train


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_training_is_that_of_one_process_and_has_the_same_bits_twice(ranks, tmp_path):
    """Batch normalisation, dropout, augmentation, clipping; uneven and empty parts (tests/test_cluster.py)."""
    out = run(start_mpi, ranks, "tests.jobs", "train", "weights.npz", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    expected, _ = train(CPU, ALONE)
    with np.load(tmp_path / "weights.npz") as found:
        for name, value in expected.items():
            np.testing.assert_allclose(found[f"0/{name}"], value, rtol=0, atol=0 if ranks == 1 else 1e-10)
            np.testing.assert_array_equal(found[f"0/{name}"], found[f"1/{name}"])


@needs_mpi
@pytest.mark.parametrize(("ranks", "device"), [(2, "cpu"), (3, "standin")])
def test_sums_and_messages(ranks, device, tmp_path):
    out = run(start_mpi, ranks, "tests.jobs", "primitives", device, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert out.stdout == f"{ranks} ranks agree\n"


@needs_mpi
def test_a_pool_of_workers(tmp_path):
    """They run programs, each alone; a signal to all ranks is passed on to what runs."""
    process = start_mpi(3, "mpi4py.futures", "-m", "tests.jobs", "pool", tmp_path, cwd=tmp_path)
    while not (tmp_path / "waiting").exists() and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == f"2 [0, 1, 2] {[f'1 x{i}{chr(10)}' for i in range(3)]}\n{-signal.SIGINT}\n", err


@pytest.fixture
def environment(monkeypatch):
    for name in (*LAUNCHERS, *LAUNCHERS.values(), SWITCH):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (1, 0)),
        ({"PMI_SIZE": "1", "PMI_RANK": "0"}, (1, 0)),
        ({"PMI_SIZE": "4", "PMI_RANK": "2"}, (4, 2)),
        ({"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1"}, (3, 1)),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "7"}, (8, 7)),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "PMI_SIZE": "2", "PMI_RANK": "1"}, (2, 1)),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (1, 0)),  # within sbatch, not started by srun
        ({"PMI_SIZE": "4", "PMI_RANK": "2", SWITCH: "none"}, (1, 0)),
        ({"PMI_SIZE": "nonsense"}, (1, 0)),
    ],
)
def test_what_launchers_say(environment, variables, expected):
    for name, value in variables.items():
        environment.setenv(name, value)
    assert launched() == expected


def test_in_a_pool_everybody_works_alone(environment):
    environment.setenv("PMI_SIZE", "4")
    environment.setattr(sys, "orig_argv", ["python", "-m", "mpi4py.futures", "-m", "experiments.reproduce"])
    assert launched() == (1, 0)
    assert join() is ALONE


def test_one_process_never_starts_mpi(environment):
    environment.setattr(mpi, "Mpi", None)
    assert join() is ALONE
    environment.setenv("PMI_SIZE", "1")
    assert join() is ALONE


def test_many_processes_without_mpi4py_are_an_error(environment):
    environment.setenv("PMI_SIZE", "4")
    environment.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ClusterError, match=r"4 processes .* cannot talk.*pip install mpi4py.*MINICNN_CLUSTER=none"):
        join()
    environment.setenv(SWITCH, "yes")
    with pytest.raises(ClusterError, match="must be auto, mpi or none, got 'yes'"):
        join()


def test_an_mpi_of_another_kind_is_an_error(environment):
    environment.setenv("OMPI_COMM_WORLD_SIZE", "4")
    environment.setattr(mpi, "Mpi", lambda: ALONE)
    with pytest.raises(ClusterError, match=r"4 processes were started together, but mpi4py sees 1"):
        join()
