"""Single, folds, votes: which images train, which are held out, and the arithmetic."""

import json
import re
import shlex
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.cifar import main, report
from experiments.cli.app import UsageError
from experiments.train import protocols
from experiments.train.arrays import ArraySession
from experiments.train.cifar import CifarSettings
from experiments.train.folder import write_predictions
from experiments.train.protocols import follow
from minicnn.checkpoint import CheckpointError, load, save
from minicnn.data.textures import textures

DATA, TEXTURES = textures(200, 100), CifarSettings.of(dataset="textures")
FAST = shlex.split("--dataset textures --scale 0.02 --subset 64 --epochs 2 --batch 32 --device cpu")


def fake_run(errors):
    """A runner that trains nothing: it records its jobs and returns the errors in order."""
    jobs = []

    def run(job):
        jobs.append(job)
        error = errors[len(jobs) - 1]
        result = {"epoch": 3, "epoch_loss": 0.5, "train_error": 1.0, "test_error": error, "seconds": 1.0}
        job.folder.mkdir(parents=True)
        (job.folder / "result.json").write_text(json.dumps(result))
        p = np.zeros((100, 10))
        p[np.arange(100), (DATA.test_labels + (len(jobs) > 1)) % 10] = 1 / len(jobs)  # the first is right, and surest
        write_predictions(job.folder, p, DATA.test_labels)
        return result

    return run, jobs


def test_folds_cover_the_training_set_and_are_summed_up(tmp_path):
    run, jobs = fake_run([10.0, 12.0, 14.0])
    result = follow(protocols.folds(TEXTURES, tmp_path, DATA, 3), run)
    held = [set(job.hold_out) for job in jobs]
    assert set.union(*held) == set(range(200))
    assert sum(map(len, held)) == 200
    for job in jobs:
        assert set(job.train) == set(range(200)) - set(job.hold_out)
    assert result["average"] == 12
    assert result["standard_error"] == pytest.approx(2 / np.sqrt(3))
    assert result["vote"] == 0  # 1 against 1/2 + 1/3


def test_the_best_weights_are_never_those_before_them(tmp_path):
    """A cut best.npz must not let an earlier network be tested in its place."""
    for epoch in (1, 2):
        save(tmp_path / "best.npz", {"w": np.full(3, epoch)}, {"epoch": epoch})
    session = SimpleNamespace(folder=tmp_path)
    assert ArraySession._best(session)[1] == {"epoch": 2}
    (tmp_path / "best.npz").write_bytes((tmp_path / "best.npz").read_bytes()[:-50])
    with pytest.raises(
        CheckpointError, match=r"best.npz is missing or damaged: the best weights are lost; remove .*train"
    ):
        ArraySession._best(session)


def test_the_best_weights_are_not_given_up_because_they_cannot_be_read(tmp_path):
    (tmp_path / "best.npz").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot read .*best\.npz: .* keep it"):
        ArraySession._best(SimpleNamespace(folder=tmp_path))


def test_a_fold_without_images_is_refused(tmp_path):
    """It would hold out no images, and so could not choose its epoch."""
    run, jobs = fake_run([])
    with pytest.raises(UsageError, match="--folds must be at most the number of training images, 200, got 201"):
        follow(protocols.folds(TEXTURES, tmp_path, DATA, 201), run)
    assert not jobs


def test_one_fold_at_a_time(tmp_path):
    run, jobs = fake_run([10.0, 12.0])
    assert follow(protocols.folds(TEXTURES, tmp_path, DATA, 2, only=2), run) is None
    assert protocols.missing_folds(tmp_path, 2) == [1]
    assert follow(protocols.folds(TEXTURES, tmp_path, DATA, 2, only=1), run)["average"] == 11
    assert [job.folder.name for job in jobs] == ["fold2", "fold1"]
    whole, others = fake_run([0.0, 0.0])
    follow(protocols.folds(TEXTURES, tmp_path / "again", DATA, 2), whole)
    np.testing.assert_array_equal(others[1].hold_out, jobs[0].hold_out)  # the folds do not depend on who trains them


@pytest.mark.parametrize("stop", ["epochs", "loss"])
def test_single_trains_twice(tmp_path, stop):
    run, jobs = fake_run([10.0, 9.0])
    result = follow(protocols.single(TEXTURES, tmp_path, DATA, 50, stop), run)
    search, final = jobs
    assert (len(search.train), len(search.hold_out)) == (150, 50)
    assert not set(search.train) & set(search.hold_out)
    assert len(final.train) == 200
    assert len(final.hold_out) == 0
    if stop == "epochs":
        assert (final.stop_epoch, final.stop_loss) == (3, None)
    else:
        assert (final.stop_epoch, final.stop_loss) == (None, 0.5)
        assert set(final.watched) == set(search.hold_out)
    assert result["test_error"] == 9
    assert result["seconds"] == 2  # of both


def test_subsets():
    assert len(TEXTURES.chosen_images(200)) == 200
    a, b = (CifarSettings.of(dataset="textures", subset=50, seed=s).chosen_images(200) for s in (0, 1))
    assert len(set(a)) == 50
    assert set(a) != set(b)
    with pytest.raises(UsageError, match="--subset must be in"):
        CifarSettings.of(dataset="textures", subset=201).chosen_images(200)


def test_the_real_protocols(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["--protocol", "single", "--hold-out", "16", "--stop", "loss", "--out", "loss"],
        ["--protocol", "single", "--hold-out", "16", "--out", "epochs"],
        ["--protocol", "folds", "--folds", "2", "--fold", "2", "--out", "folds"],
        ["--protocol", "folds", "--folds", "2", "--out", "folds"],
        ["--hold-out", "16", "--out", "plain"],
    ):
        assert main([*FAST, *arguments]) == 0
    out = capsys.readouterr().out
    assert "folds still missing: 1" in out
    assert re.search(r"average +\d+\.\d\d ± \d+\.\d\d", out)
    assert (tmp_path / "epochs" / "search" / "best.npz").exists()
    result = json.loads((tmp_path / "folds" / "result.json").read_text())
    outputs = [load(tmp_path / "folds" / f"fold{i}" / "predictions.npz")[0] for i in (1, 2)]
    p, labels = np.mean([found["probabilities"] for found in outputs], axis=0), textures().test_labels
    assert all((found["labels"] == labels).all() for found in outputs)
    assert result["vote"] == pytest.approx(100 * np.mean(p.argmax(1) != labels))


def test_the_table_shows_the_paper_and_says_when_it_cannot_be_compared():
    result = {"protocol": "plain", "train_error": 1.0, "test_error": 20.0}
    text = report(CifarSettings.of(act="crelu", width="half", scale=0.25, subset=5000), result)
    assert re.search(r"test error +20\.00 +8\.37", text)
    assert "not comparable: this run is reduced (width x0.25, 5000 images, recipe short, 10 epochs)" in text
    text = report(CifarSettings.of(model="vgg", act="crelu", at=(1, 3), recipe="paper", dataset="cifar100"), result)
    assert re.search(r"test error +20\.00 +26\.52", text)
    assert "--protocol single" in text
    folds = {"protocol": "folds", "train_error": 1.0, "average": 9.5, "standard_error": 0.1, "vote": 7.0}
    text = report(CifarSettings.of(act="crelu", recipe="paper"), folds)
    assert re.search(r"average +9\.50 ± 0\.10 +9\.39", text)
    assert re.search(r"vote +7\.00 +7\.09", text)
    assert "comparable" not in text
    for other in ({"act": "leaky"}, {"model": "vgg", "act": "avr", "at": (1, 3)}):
        unknown = CifarSettings.of(**other, recipe="paper")
        text = report(unknown, result)
        assert re.search(r"test error +20\.00 +-$", text)  # the paper has no such network
        assert "--protocol single" not in text


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("result.json", b"[]", "it has no results"),
        ("result.json", b'{"train_error": 1.0, "test_error": "low", "seconds": 1}', "test_error is 'low'"),
        ("result.json", b'{"train_error": 1.0, "test_error": NaN, "seconds": 1}', "test_error is nan"),
        ("predictions.npz", b"", "is missing or damaged; remove"),
        ("predictions.npz", b"PK\x03\x04{", "is missing or damaged; remove"),
    ],
)
def test_a_damaged_fold_is_named(tmp_path, file, content, message):
    run, _ = fake_run([10.0, 12.0])
    follow(protocols.folds(TEXTURES, tmp_path, DATA, 2), run)
    (tmp_path / "fold2" / file).write_bytes(content)
    with pytest.raises(UsageError, match=rf"fold2.{file}.* {message}"):
        protocols.collect_folds(tmp_path, 2)
