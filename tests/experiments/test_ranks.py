"""Commands on several ranks: the result of one process, one writer, one message, no rank left waiting."""

import json
import os
import re
import shlex
import sys
import time

import numpy as np
import pytest

from experiments import cifar, imagenet, scaling
from experiments.cli import ranks
from experiments.cli.app import UsageError, run_main
from experiments.train.session import Job, _check_same, run_job
from minicnn.checkpoint import load
from minicnn.cluster import Alone
from minicnn.parallel import threads
from minicnn.training import TrainingError
from tests.data.photos import CLASSES, write_bad_files, write_set
from tests.ranks import both_kinds, needs_mpi, on_threads, run, start_mpi, start_processes

SMALL = shlex.split("--dataset textures --scale 0.03 --epochs 2 --batch 16 --subset 72 --device cpu --hold-out 5")
PHOTOS = shlex.split("--scale 0.03 --side 40 --crop 36 --batch 8 --epochs 2 --lr 0.001 --bad-images skip --device cpu")
NEVER = ("0", "0")  # a signal: to which rank, and in which step


def close_weights(a, b):
    """Equal up to the rounding of some float32 steps, which may grow near a kink (docs/cluster.md)."""
    a, b = (load(folder / "checkpoint.npz")[0] for folder in (a, b))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.train.estimate.estimate", lambda *_: "")
        assert cifar.main([*SMALL, "--out", str(folder)]) == 0
    return folder


@both_kinds
def test_stopped_on_three_ranks_and_resumed_on_two(start, alone, tmp_path):
    """The signal reaches rank 1 in the sixth step, with five per epoch; rank 0 alone writes (tests/jobs.py)."""
    folder = tmp_path / "run"
    stop = run(start, 3, "tests.jobs", "command", "cifar", folder, "1", "6", *SMALL, "--out", folder, cwd=tmp_path)
    assert stop.returncode == 130, stop.stderr
    assert len(re.findall("To continue:", stop.stderr)) == 1
    again = {
        start_mpi: r"mpiexec -n 3 python -m experiments.cifar .* --resume",
        start_processes: r"python -m experiments.cifar .* --processes 3 --resume",
    }
    assert re.search(f"^  {again[start]}$", stop.stderr, re.M)
    _, state = load(folder / "checkpoint.npz")
    assert (state["epoch"], state["step"]) == (1, 1)
    assert not (folder / "result.json").exists()

    again = [*SMALL, "--out", folder, "--resume"]
    done = run(start, 2, "tests.jobs", "command", "cifar", folder, *NEVER, *again, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("test error", done.stdout)) == 1
    assert len(re.findall("evaluating", done.stderr)) == 1
    assert json.loads((folder / "config.json").read_text())["environment"]["ranks"] == 3
    close_weights(folder, alone)
    results = [json.loads((f / "result.json").read_text()) for f in (folder, alone)]
    for name in ("train_loss", "test_loss", "epoch"):
        assert results[0][name] == pytest.approx(results[1][name], rel=1e-3)
    assert {p.name for p in folder.iterdir()} == {p.name for p in alone.iterdir()}


@both_kinds
def test_photographs_on_two_ranks(start, tmp_path, monkeypatch):
    """Damaged files make the ranks' parts uneven, and one batch smaller than it was drawn."""
    data = write_set(tmp_path / "data", each=8)
    write_bad_files(data / "train" / CLASSES[1])
    monkeypatch.setenv("MINICNN_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr("experiments.train.estimate.estimate", lambda *_: "")
    options = [*PHOTOS, "--data", str(data), "--workers", "1"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert imagenet.main([*options, "--out", str(one)]) == 0
    out = run(start, 2, "tests.jobs", "command", "imagenet", two, *NEVER, *options, "--out", two, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    close_weights(one, two)
    a, b = (json.loads((folder / "result.json").read_text()) for folder in (one, two))
    assert a["bad_images"] == b["bad_images"] == 5
    assert a["images"] == b["images"] == 6
    assert a["loss_ten"] == pytest.approx(b["loss_ten"], rel=1e-4)
    assert sorted((one / "bad_images.txt").read_text().splitlines()) == sorted(
        (two / "bad_images.txt").read_text().splitlines()
    )


@both_kinds
@pytest.mark.parametrize(
    ("how", "message"),
    [("bug", "RuntimeError: a bug"), ("data", "error: a file is damaged"), ("kill", "KILLED|Killed|signal 9")],
)
def test_a_rank_that_fails_ends_all(start, how, message, tmp_path):
    begin = time.monotonic()
    out = run(start, 3, "tests.jobs", "fail", how, cwd=tmp_path)
    assert out.returncode not in (0, None)
    assert time.monotonic() - begin < 120
    assert re.search(message, out.stderr + out.stdout)
    assert out.stdout.count("hello") == 1
    assert "rank 2 is here" not in out.stderr  # it has nothing to say
    if how != "kill":
        assert "rank 1 is here" in out.stderr
        assert "rank 1 of 3 failed; ending all ranks" in out.stderr


@both_kinds
def test_where_all_fail_alike_it_is_said_once(start, tmp_path):
    out = run(start, 3, "tests.jobs", "fail", "together", cwd=tmp_path)
    assert out.returncode == 1
    assert out.stderr == "rank 0 is here\nerror: a file is damaged\n"
    out = run(start, 2, "experiments.cifar", "--scale", "0", cwd=tmp_path)
    assert out.returncode == 2
    assert out.stderr == "error: --scale must be positive, got 0.0\n"


@needs_mpi
def test_other_experiments_are_not_done_twice(tmp_path):
    out = run(start_mpi, 2, "experiments.demo", "--dry-run", cwd=tmp_path)
    assert out.returncode == 2
    assert out.stderr == (
        "error: experiments.demo runs in one process, but 2 were started together: leave out mpiexec\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", 1),
        ("--processes 3 --batch 4", 3),
        ("--processes=3", 3),
        ("--proc 3", 3),  # as the command's own parser understands it
        ("--protocol folds", 1),
        ("--processes auto --device cpu", 5),
        ("--processes auto", 2),
        ("--processes auto --device gpu", 2),
    ],
)
def test_how_many_processes_a_command_line_asks_for(arguments, expected, monkeypatch):
    """On a machine with two GPUs, where we may use five cores."""
    monkeypatch.setattr(ranks, "gpu_count", lambda: 2)
    monkeypatch.setattr(ranks, "usable_cores", lambda: list(range(5)))
    assert ranks.asked_processes(shlex.split(arguments)) == expected


def test_by_itself_it_takes_no_more_processes_than_a_batch_feeds(monkeypatch):
    monkeypatch.setattr(ranks, "gpu_count", lambda: 0)
    monkeypatch.setattr(ranks, "usable_cores", lambda: list(range(128)))
    assert ranks.asked_processes(["--processes", "auto"]) == 16
    monkeypatch.setattr(ranks, "usable_cores", lambda: [7])
    assert ranks.asked_processes(["--processes", "auto"]) == 1


@pytest.mark.parametrize("value", ["0", "-1", "257", "two", "9" * 30, "", "²"])
def test_a_number_of_processes_that_makes_no_sense_is_refused_by_the_command(value, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cifar", f"--processes={value}"])
    with pytest.raises(SystemExit) as caught:
        ranks.run_on_ranks(cifar.main, cifar.MODULE)
    assert caught.value.code == 2
    expected = f"argument --processes: must be a number from 1 to 256, or auto, got {value!r}"
    assert expected in " ".join(capsys.readouterr().err.split())


def test_processes_are_not_started_by_those_that_were_started(monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setattr(sys, "argv", ["cifar", "--processes", "2"])
    with pytest.raises(SystemExit) as caught:
        ranks.run_on_ranks(cifar.main, cifar.MODULE)
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "error: --processes starts processes by itself: leave out mpiexec, or --processes\n"
    )


def test_without_mpi4py_nothing_is_trained(tmp_path, monkeypatch, capsys):
    """Every process started notices, but only the first one prints the error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_SIZE", "4")
    for rank in range(2):
        monkeypatch.setenv("PMI_RANK", str(rank))
        with pytest.raises(SystemExit) as caught:
            ranks.run_on_ranks(cifar.main, cifar.MODULE)
        assert caught.value.code == 2
        err = capsys.readouterr().err
        assert ("pip install mpi4py" in err) == (rank == 0)
        assert len(err.splitlines()) == (rank == 0)
    assert not list(tmp_path.iterdir())


def test_one_process_is_run_as_ever(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cifar", "--scale", "0"])
    for start in (ranks.run_on_ranks, run_main):
        with pytest.raises(SystemExit) as caught:
            start(cifar.main, cifar.MODULE)
        assert caught.value.code == 2
        assert "--scale must be positive" in capsys.readouterr().err


def test_a_pool_needs_its_launcher():
    with pytest.raises(UsageError, match=r"mpiexec -n 5 python -m mpi4py\.futures -m experiments\.reproduce"):
        ranks.cluster_executor()


def test_cores_are_shared_by_ranks_that_may_use_the_same(monkeypatch):
    class OneOfFour(Alone):
        """One of four ranks, where rank 3 is bound to cores of its own."""

        def gather(self, value):
            return [value, value, value, (value[0], [12, 13])]

    def threads_there():
        with ranks.sharing_cores(OneOfFour()):
            return threads()

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    monkeypatch.delenv("MINICNN_THREADS", raising=False)
    assert threads_there() == 4
    monkeypatch.setenv("MINICNN_THREADS", "7")
    assert threads_there() == 7


@both_kinds
@pytest.mark.parametrize("count", [1, 2])
def test_scaling_has_a_row_for_each_rank(start, count, tmp_path):
    options = ["--steps", "2", "--images", "2", "--scale", "0.03", "--model", "vgg", "--device", "cpu"]
    out = run(start, count, "experiments.scaling", *options, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    rows = [line.split() for line in out.stdout.splitlines() if re.match(r"\d+ +[\d.]+ +", line)]
    assert [row[0] for row in rows] == [str(rank) for rank in range(count)]
    for _, step, compute, talk, share in rows:
        assert float(compute) + float(talk) == pytest.approx(float(step), abs=0.2)
        assert float(share) < 100
        assert count == 1 or float(talk) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "0"], "--images must be positive"),
        (["--batch", "-1"], "--batch must be positive"),
        (["--steps", "99999999999999999999"], "--steps is too large"),
        (["--scale", "inf"], "--scale is too large"),
    ],
)
def test_scaling_refuses_nonsense(arguments, message):
    with pytest.raises(UsageError, match=message):
        scaling.main([*arguments, "--dry-run"])


def test_ranks_that_see_other_data_are_refused(tmp_path):
    def work(cluster):
        class Seen(Job):
            def describe(self):
                return {"settings": {}, "train": 1 + (cluster.rank == 2)}

        with pytest.raises(UsageError, match="see different data or settings"):
            run_job(Seen(None, tmp_path / "run"), device=None, resume=False, command="", cluster=cluster)

    on_threads(3, work)
    assert not (tmp_path / "run").exists()


def test_ranks_that_drift_apart_are_noticed():
    on_threads(2, lambda cluster: _check_same(cluster, {"w": np.ones(3)}))

    def work(cluster):
        with pytest.raises(TrainingError, match="the weights of rank 1 no longer match those of rank 0"):
            _check_same(cluster, {"w": np.ones(3) * (1 + 1e-15 * cluster.rank)})

    on_threads(2, work)
