"""The command line as a user sees it: runs, resumes, errors."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments import cifar
from experiments.train.cifar import CifarSettings
from experiments.train.settings import note_resume
from minicnn.checkpoint import TEMPORARY, load, save
from minicnn.training import arrays_under
from tests.fast.native.ways import needs_compiler

ROOT = Path(__file__).parents[2]
SMALL = shlex.split("--dataset textures --scale 0.03 --subset 96 --epochs 2 --batch 16 --device cpu")


def start(*arguments, cwd):
    """The command as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cifar", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )


def cli(*arguments, cwd):
    """The same, run to its end."""
    with start(*arguments, cwd=cwd) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def same_weights(a, b):
    a, b = (load(folder / "checkpoint.npz")[0] for folder in (a, b))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One uninterrupted run, and what it printed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder / "run", cli(*SMALL, "--out", "run", cwd=folder)


def test_a_run_leaves_its_files_and_a_table(finished):
    folder, out = finished
    assert out.returncode == 0, out.stderr
    names = {p.name for p in folder.iterdir()}
    assert {
        "config.json",
        "metrics.csv",
        "checkpoint.npz",
        "curves.png",
        "result.json",
        "predictions.npz",
    } <= names
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"]["act"] == "relu"
    assert config["environment"]["device"] == "cpu"
    assert "--scale 0.03" in config["command"]
    result = json.loads((folder / "result.json").read_text())
    assert load(folder / "predictions.npz")[0]["probabilities"].shape == (1000, 10)
    assert re.search(rf"test error +{result['test_error']:.2f} +-$", out.stdout, re.M)
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", "1", "2"]
    assert "memory  about" in out.stdout
    assert "time    about" in out.stdout
    assert "epoch 2/2: loss" in out.stderr


def test_the_error_is_that_of_the_saved_outputs(finished):
    from minicnn.data.textures import textures

    folder, _ = finished
    saved, labels = load(folder / "predictions.npz")[0], textures().test_labels
    np.testing.assert_array_equal(saved["labels"], labels)
    error = 100 * np.mean(saved["probabilities"].argmax(1) != labels)
    assert json.loads((folder / "result.json").read_text())["test_error"] == pytest.approx(error)


def test_the_mirrored_error_is_that_of_both_outputs_averaged(finished):
    from minicnn import ops
    from minicnn.data.augment import Normaliser
    from minicnn.data.textures import textures

    folder, _ = finished
    data, settings = textures(), CifarSettings.from_json(json.loads((folder / "config.json").read_text())["settings"])
    model, normalise = settings.build_model(), Normaliser.of(data.train_images[settings.chosen_images(5000)])
    model.load_state_dict(arrays_under("model/", load(folder / "checkpoint.npz")[0]))
    p = sum(ops.softmax(model(normalise(x)).data) for x in (data.test_images, data.test_images[:, :, ::-1]))
    found = json.loads((folder / "result.json").read_text())["test_error_mirrored"]
    assert found == pytest.approx(100 * np.mean(p.argmax(1) != data.test_labels), abs=0.15)  # ties


def test_a_finished_run_is_not_repeated(finished):
    folder, _ = finished
    before, result = (folder / "checkpoint.npz").stat().st_mtime_ns, json.loads((folder / "result.json").read_text())
    out = cli(*SMALL, "--out", "run", "--tta", cwd=folder.parent)
    assert out.returncode == 0
    assert "test error" in out.stdout
    assert re.search(rf"with mirror images +{result['test_error_mirrored']:.2f} +-$", out.stdout, re.M)
    assert (folder / "checkpoint.npz").stat().st_mtime_ns == before
    assert "nothing was trained: run was finished before, after " in out.stdout
    assert "memory  about" not in out.stdout  # nor is anything tried out


def test_a_network_that_guesses_is_said_to_guess():
    asked = CifarSettings.of(dataset="textures")
    told = "As far as 1,000 images can tell, this is chance level: guessing among 10 classes gives 90 %."
    for error, guessed in ((90.0, True), (87.5, True), (86.0, False), (24.8, False), (95.0, True)):  # ± 2.8 are noise
        result = {"protocol": "plain", "train_error": error, "test_error": error}
        assert (told in cifar.report(asked, result)) is guessed
    folds = {"protocol": "folds", "train_error": 90.0, "average": 89.9, "standard_error": 0.1, "vote": 90.0}
    assert told in cifar.report(asked, folds)


def test_nothing_to_resume_is_said(tmp_path, capsys):
    note_resume(True, tmp_path / "new")
    assert f"there is no run in {tmp_path / 'new'} to continue" in capsys.readouterr().err
    (tmp_path / "fold1").mkdir()
    (tmp_path / "fold1" / "config.json").touch()
    note_resume(True, tmp_path)
    note_resume(True, tmp_path / "fold1")
    note_resume(False, tmp_path / "new")
    assert capsys.readouterr().err == ""


def test_other_settings_in_the_same_folder_are_refused(finished):
    folder, _ = finished
    out = cli(*SMALL, "--act", "crelu", "--seed", "5", "--out", "run", cwd=folder.parent)
    assert out.returncode == 2
    assert "holds another run" in out.stderr
    assert "act: relu there, crelu here" in out.stderr
    assert "seed: 0 there, 5 here" in out.stderr
    assert "Traceback" not in out.stderr


@needs_compiler
def test_other_products_in_the_same_folder_are_refused(finished):
    folder, _ = finished
    out = cli(*SMALL, "--precision", "bf16", "--out", "run", cwd=folder.parent)
    assert out.returncode == 2
    assert "precision: float32 there, bf16 here" in out.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_interrupted_and_resumed_it_ends_in_the_same_bits(finished, tmp_path, number):
    """Interrupt it at random moments, as often as it takes."""
    folder, _ = finished
    moments = random.Random(int(number))
    for attempt in range(6):
        resume = ["--resume"] if (tmp_path / "run" / "config.json").exists() else []
        process = start(*SMALL, "--out", "run", *resume, cwd=tmp_path)
        if attempt < 3:
            process.stderr.readline()  # it has begun
            time.sleep(moments.uniform(0, 0.6))
            process.send_signal(number)
        _, err = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == (130 if number == signal.SIGINT else -number), err
        if number == signal.SIGINT and "To continue:" in err:
            assert "python -m experiments.cifar" in err
            assert "--resume" in err
    assert process.returncode == 0, err
    same_weights(folder, tmp_path / "run")


def test_an_unfinished_run_asks_for_resume(tmp_path):
    (tmp_path / "run").mkdir()
    out = cli(*SMALL, "--out", "run", "--dry-run", cwd=tmp_path)
    assert out.returncode == 0
    assert not list((tmp_path / "run").iterdir())
    process = start(*SMALL, "--epochs", "50", "--out", "run", cwd=tmp_path)
    for line in process.stderr:
        if line.startswith("epoch 1/50"):
            break
    second = cli(*SMALL, "--epochs", "50", "--out", "run", "--resume", cwd=tmp_path)
    assert second.returncode == 2
    assert "another process is training" in second.stderr
    process.send_signal(signal.SIGTERM)
    process.communicate()
    again = cli(*SMALL, "--epochs", "50", "--out", "run", cwd=tmp_path)
    assert again.returncode == 2
    assert "add --resume to continue it" in again.stderr
    # a checkpoint cut short: the previous one is used; both gone bad: a clear error
    for name in ("checkpoint.npz", "checkpoint.previous.npz"):
        path = tmp_path / "run" / name
        path.write_bytes(path.read_bytes()[:100])
    broken = cli(*SMALL, "--epochs", "50", "--out", "run", "--resume", cwd=tmp_path)
    assert broken.returncode == 1
    assert "is damaged or not a checkpoint" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_no_gpu_gives_the_same_command_for_the_cpu(tmp_path):
    from minicnn.backend import gpu_problem

    if gpu_problem() is None:
        pytest.skip("this machine has a GPU")
    out = cli("--act", "crelu", "--device", "gpu", "--seed", "3", cwd=tmp_path)
    assert out.returncode == 1
    assert "device 'gpu' cannot be used" in out.stderr
    assert out.stderr.rstrip().endswith("python -m experiments.cifar --act crelu --seed 3 --device cpu")
    assert "Traceback" not in out.stderr
    out = cli("--device=gpu:7", "--act", "crelu", cwd=tmp_path)
    assert out.stderr.rstrip().endswith("python -m experiments.cifar --act crelu --device cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scale", "0"], "--scale must be positive"),
        (["--epochs", "-1"], "--epochs must be positive"),
        (["--lr", "nan"], "--lr must be positive"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--weight-decay", "-1"], "--weight-decay must not be negative"),
        (["--at", "1"], "--at chooses layers of vgg or sprint"),
        (["--model", "vgg", "--act", "crelu", "--at", "1,99"], r"error: --at names convolutions 1 to 13, got 1,99\n"),
        (["--model", "sprint", "--act", "crelu", "--at", "0,8"], r"error: --at names convolutions 1 to 7, got 0,8\n"),
        (["--model", "vgg", "--dropout", "0,0.1,0"], "--dropout is for convpool; the rates of vgg are fixed"),
        (["--dropout", "0,0,1"], "--dropout takes three rates"),
        (["--dropout", "0.5"], "three rates are needed"),
        (["--dropout", "a,b,c"], "three rates are needed, such as 0.2,0.5,0.5, got 'a,b,c'"),
        (["--protocol", "folds", "--fold", "11"], "--folds must be at least 2 and --fold from 1 to --folds"),
        (["--subset", "6000"], r"--subset must be in 1 \.\. 5000"),
        (["--hold-out", "5000"], "cannot hold out 5000 of 5000 training images: lower --hold-out"),
        (["--protocol", "single", "--hold-out", "0"], "--hold-out cannot be 0"),
        (["--model", "vgg", "--subset", "33", "--batch", "16"], "would leave a batch of one image"),
        (["--act", "gelu"], "invalid choice"),
        (["--device", "tpu"], "not a device"),
        (["--at", "1,x"], "numbers of convolutions are needed, such as 1,3,5, got '1,x'"),
        (["--model", "vgg", "--act", "crelu", "--at", ","], "numbers of convolutions are needed"),
        (["--scale", "inf"], "--scale is too large"),
        (["--batch", "99999999999999999999"], "--batch is too large"),
    ],
)
def test_nonsense_is_refused_with_code_2(tmp_path, monkeypatch, ends, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, said = ends(cifar.main, cifar.MODULE, "--dataset", "textures", "--scale", "0.02", *arguments)
    assert code == 2
    assert re.search(message, said)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").rglob("result.json"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--fold 3", "--fold is for --protocol folds: add it"),
        ("--folds 5", "--folds is for --protocol folds: add it"),
        ("--protocol single --folds 10", "--folds is for --protocol folds: add it"),
        ("--stop loss", "--stop is for --protocol single: add it"),
        ("--protocol folds --stop epochs", "--stop is for --protocol single: add it"),
        ("--protocol folds --hold-out 9", "--hold-out is not for --protocol folds, which holds out each fold in turn"),
        ("--protocol folds --tta", "--tta is not for --protocol folds"),
        ("--data folder", "--data is for CIFAR; the images of textures are made by formulas: leave it out"),
        ("--model vgg --width half", "--width is for convpool; make vgg narrower with --scale"),
        ("--model sprint --width half", "--width is for convpool; make sprint narrower with --scale"),
    ],
)
def test_what_would_be_ignored_is_refused_before_anything_is_computed(monkeypatch, ends, options, message):
    monkeypatch.setattr(cifar, "announce", lambda *_: pytest.fail("trial steps were taken"))
    code, said = ends(cifar.main, cifar.MODULE, "--dataset", "textures", *shlex.split(options))
    assert code == 2
    assert said.startswith(f"error: {message}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverging_run_says_where_and_keeps_the_last_checkpoint(tmp_path):
    out = cli(*SMALL, "--lr", "1e30", "--clip", "1e30", "--out", "run", cwd=tmp_path)
    assert out.returncode == 1
    assert re.search(r"error: the loss became (nan|inf) in epoch 1, step \d+ of 6", out.stderr)
    assert "Traceback" not in out.stderr


def test_help_teaches(tmp_path):
    out = cli("--help", cwd=tmp_path)
    assert out.returncode == 0
    for word in ("examples:", "--act", "--protocol", "--resume", "runs/<name>/", "half the parameters"):
        assert word in out.stdout


def test_a_checkpoint_of_another_run_is_named(finished, tmp_path):
    """It is whole and has the right checksum, but is from another network: nothing is trained, nothing lost."""
    folder, _ = finished
    other = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("result.json"))
    save(other / "checkpoint.npz", {"model/conv1.weight": np.ones(3)}, {"epoch": 1})
    before = (other / "checkpoint.npz").read_bytes()
    out = cli(*SMALL, "--out", "run", "--resume", cwd=tmp_path)
    assert out.returncode == 1
    assert "is not from this run" in out.stderr
    assert "Traceback" not in out.stderr
    assert (other / "checkpoint.npz").read_bytes() == before


def test_what_a_killed_process_left_is_swept_away(finished, tmp_path):
    folder, _ = finished
    again = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("result.json"))
    (again / f"{TEMPORARY}checkpoint.npz-1").write_bytes(b"half")
    assert cli(*SMALL, "--out", "run", "--resume", cwd=tmp_path).returncode == 0
    assert not list(again.glob(f"{TEMPORARY}*"))


def test_stopped_before_the_table_was_written_it_is_written_on_resuming(finished, tmp_path):
    folder, _ = finished
    again = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("result.json", "metrics.csv"))
    assert cli(*SMALL, "--out", "run", "--resume", cwd=tmp_path).returncode == 0
    assert (again / "metrics.csv").read_text() == (folder / "metrics.csv").read_text()
