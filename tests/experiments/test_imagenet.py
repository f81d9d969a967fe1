"""The ImageNet command line, end to end on generated photographs, and the analyses on what it trained."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from experiments import (
    correlation,
    evaluate,
    export,
    imagenet,
    invariance,
    pairing,
    pipeline,
    predict,
    reconstruction,
    regularisation,
)
from experiments.cli.app import UsageError
from experiments.train.imagenet import ImagenetSettings
from experiments.train.photographs import PhotoSession
from experiments.train.run import open_run
from minicnn.backend import CPU
from minicnn.checkpoint import load
from minicnn.data.augment import TEN, Normaliser, cut
from minicnn.data.decode import read_square
from minicnn.models import allcnn_b
from minicnn.models.allcnn import VARIANTS
from minicnn.random import Stream
from minicnn.training import (
    Interrupted,
    TrainingError,
    crop_probabilities,
    evaluate_probabilities,
    probabilities,
    top_error,
)
from reference.paper import SGD
from tests.data.photos import CLASSES, photo, write_bad_files, write_odd_files, write_set

ROOT = Path(__file__).parents[2]
TINY = ["--scale", "0.03", "--side", "40", "--crop", "36", "--batch", "8", "--workers", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three classes, with odd and damaged files among them, and class names in words."""
    root = write_set(tmp_path_factory.mktemp("imagenet") / "data", each=8)
    write_odd_files(root / "train" / CLASSES[0])
    write_bad_files(root / "train" / CLASSES[1])
    (root / "synset_words.txt").write_text("".join(f"{name} word {i}, other\n" for i, name in enumerate(CLASSES)))
    return root


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINICNN_DATA", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("experiments.train.estimate.estimate", lambda *_: "")
        yield


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A finished run of CReLU (conv1-4)."""
    folder = tmp_path_factory.mktemp("runs") / "crelu"
    options = ["--variant", "crelu-conv1-4", "--epochs", "2", "--bad-images", "skip", "--lr", "0.001"]
    assert imagenet.main([*TINY, *options, "--data", str(data), "--out", str(folder)]) == 0
    return folder


def test_a_run_leaves_its_files(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "metrics.csv", "checkpoint.npz", "result.json", "classes.json", "colours.json"} <= names
    result = json.loads((run / "result.json").read_text())
    assert result["images"] == 6
    assert result["top5"] == result["top5_ten"] == 0  # there are three classes
    assert 0 <= result["top1"] <= 100
    assert result["bad_images"] == 5
    assert "cut.jpg" in (run / "bad_images.txt").read_text()
    assert len((run / "metrics.csv").read_text().splitlines()) == 3
    assert json.loads((run / "classes.json").read_text())[1] == [CLASSES[1], "word 1, other"]


def test_the_colours_are_counted_up_to_the_pictures_that_are_read(tmp_path, monkeypatch, capsys):
    for module in ("experiments.train.photographs", "minicnn.data.photographs"):
        monkeypatch.setattr(f"{module}.SAMPLE", 4)
    data = write_set(tmp_path / "data", each=3)
    options = ["--epochs", "1", "--crops", "1", "--lr", "1e-4", "--data", str(data), "--out", str(tmp_path / "run")]
    assert imagenet.main([*TINY, *options]) == 0
    assert "colours of the training set: 4/4 images" in capsys.readouterr().err


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "crelu-conv1-4"])
def test_every_variant_trains_some_steps(variant, data, tmp_path, capsys):
    options = ["--epochs", "1", "--bad-images", "skip", "--subset", "16", "--crops", "1", "--lr", "1e-4"]
    options += ["--variant", variant, "--data", str(data), "--out", str(tmp_path / "run")]
    assert imagenet.main([*TINY, *options]) == 0
    assert "not comparable" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_stopped_within_an_epoch_and_resumed_it_ends_in_the_same_bits(data, run, tmp_path, monkeypatch, capsys):
    """Ctrl-C after the second step of the second epoch; another number of processes after it."""
    options = ["--variant", "crelu-conv1-4", "--epochs", "2", "--bad-images", "skip", "--lr", "0.001"]
    arguments = [*TINY, *options, "--data", str(data), "--out", str(tmp_path / "run"), "--save-every", "1"]
    saved, save = [], PhotoSession.save

    def counting(session):
        save(session)
        saved.append((session.trainer.epoch, session.trainer.step))
        if len(saved) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("minicnn.training.FETCH_EVERY", 1)
    monkeypatch.setattr(PhotoSession, "save", counting)
    with pytest.raises(Interrupted):
        imagenet.main(arguments)
    assert "--resume" in capsys.readouterr().err
    assert 0 < saved[-1][1] < 5
    with pytest.raises(UsageError, match="add --resume"):
        imagenet.main(arguments)
    monkeypatch.setattr(PhotoSession, "save", save)
    assert imagenet.main([*arguments, "--resume", "--workers", "2"]) == 0
    a, b = (load(folder / "checkpoint.npz")[0] for folder in (run, tmp_path / "run"))
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    assert json.loads((run / "metrics.csv").with_name("result.json").read_text())["top1"] == pytest.approx(
        json.loads((tmp_path / "run" / "result.json").read_text())["top1"]
    )


def test_a_damaged_file_stops_a_run_that_must_not_skip(data, tmp_path, ends):
    arguments = [*TINY, "--data", str(data), "--epochs", "1", "--out", str(tmp_path / "run")]
    code, err = ends(imagenet.main, imagenet.MODULE, *arguments)
    assert code == 1
    assert re.search(r"error: .*train/n01443537/(bomb|cut|empty|nowhere|text)\S+: ", err)
    assert "--bad-images skip" in err


def test_evaluation_alone_gives_the_same_errors(data, run, capsys):
    evaluate = ["--run", str(run), "--data", str(data), "--workers", "1", "--device", "cpu"]
    assert imagenet.main(evaluate) == 0
    assert "top-1, ten" in capsys.readouterr().out
    found, result = (json.loads((run / name).read_text()) for name in ("evaluation.json", "result.json"))
    assert all(found[name] == result[name] for name in ("top1", "top5", "top1_ten", "top5_ten", "loss", "loss_ten"))


def test_ten_crops_are_the_mean_of_ten_passes():
    model = allcnn_b("crelu-conv1-4", classes=5, scale=0.05)
    images = np.stack([photo(np.random.default_rng(i), 40, 40) for i in range(3)])
    normalise = Normaliser.of(images)
    p = crop_probabilities(model, images, normalise, TEN, 36, device=CPU)
    corners = [(0, 0), (0, 4), (4, 0), (4, 4), (2, 2)]
    passes = []
    for flip in (False, True):
        for top, left in corners:
            part = images[:, top : top + 36, left : left + 36]
            passes += list(probabilities(model, part[:, :, ::-1] if flip else part, normalise, device=CPU))
    np.testing.assert_array_equal(p, np.mean(passes, axis=0))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (cut(images, TEN[4], 36) == images[:, 2:38, 2:38]).all()


def test_top_errors():
    p = np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
    labels = np.array([2, 1, 3])
    assert top_error(p, labels, 1) == evaluate_probabilities(p, labels).error == 100
    assert top_error(p, labels, 2) == pytest.approx(100 / 3)
    assert top_error(p, labels, 4) == 0
    random = Stream(0).generator().random((50, 7)).round(1)
    labels = Stream(1).generator().integers(0, 7, 50)
    assert top_error(random, labels, 1) == evaluate_probabilities(random, labels).error


def test_a_network_that_gives_nan_has_no_error():
    p = np.full((3, 4), 0.25)
    p[1] = np.nan
    for scored in (evaluate_probabilities, partial(top_error, k=5)):
        with pytest.raises(TrainingError, match="the outputs for 1 of 3 images are not finite"):
            scored(p, np.array([0, 1, 2]))


def test_photographs_are_recognised_by_name(run, data, tmp_path, capsys):
    picture = tmp_path / "my photo.png"
    Image.fromarray(photo(np.random.default_rng(0))).save(picture)
    assert imagenet.main(["--run", str(run), "--image", str(picture), "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "my photo.png" in out
    shares = re.findall(r"word \d, other +n\d+ +([\d.]+)", out)
    assert len(shares) == 3
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.3)
    assert read_square(picture, 40).shape == (40, 40, 3)


def test_such_a_run_predicts_as_the_command_does(run, tmp_path, capsys):
    """The same numbers from experiments.predict; ONNX files have the crop's size; other commands are named."""
    picture = tmp_path / "photo.png"
    Image.fromarray(photo(np.random.default_rng(0))).save(picture)
    assert imagenet.main(["--run", str(run), "--image", str(picture), "--device", "cpu"]) == 0
    shares = re.findall(r"(word \d, other) +n\d+ +([\d.]+)", capsys.readouterr().out)
    assert predict.main([str(picture), "--run", str(run), "--out", str(tmp_path), "--device", "cpu"]) == 0
    assert re.findall(r"(word \d, other) +█* +([\d.]+) %", capsys.readouterr().out) == shares
    assert (tmp_path / "photo-conv1.png").exists()
    assert export.main(["--run", str(run), "--to", str(tmp_path / "m.onnx"), "--device", "cpu"]) == 0
    assert "(N, 3, 36, 36)" in capsys.readouterr().out
    with pytest.raises(UsageError, match="python -m experiments.imagenet --run"):
        evaluate.main(["--run", str(run), "--device", "cpu"])
    with pytest.raises(UsageError, match="cards are made for networks of small images"):
        export.main(["--run", str(run), "--to", str(tmp_path / "m.npz"), "--device", "cpu"])


def test_the_analyses_take_such_a_run(run, data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.figures.analyses.new_figure", lambda *_: None)  # tested for CIFAR
    here = ["--run", str(run), "--device", "cpu", "--out"]
    assert pairing.main([*here, str(tmp_path / "pairing"), "--draws", "1"]) == 0
    assert correlation.main([*here, str(tmp_path / "correlation")]) == 0
    options = ["--data", str(data), "--subset", "4", "--control", "0", "--rate", "0.05"]
    assert invariance.main([*here, str(tmp_path / "invariance"), *options]) == 0
    assert "top_left" in (tmp_path / "invariance" / "invariance.csv").read_text()
    options = ["--data", str(data), "--count", "1", "--layers", "conv1,conv2"]
    assert reconstruction.main([*here, str(tmp_path / "reconstruction"), *options]) == 0
    picture = str(next((data / "val" / CLASSES[0]).iterdir()))
    options = ["--image", picture, "--size", "48", "--layers", "conv1"]
    assert reconstruction.main([*here, str(tmp_path / "own"), *options]) == 0
    out = capsys.readouterr().out
    assert "CReLU (conv1-4), x0.03" in out
    assert "no max pool follows" in out
    assert "not comparable" in out
    with pytest.raises(UsageError, match="--data DIR is needed"):
        invariance.main([*here, str(tmp_path / "x")])
    with pytest.raises(UsageError, match="needs runs of CIFAR"):
        regularisation.main(["--run", str(run)])


def test_the_schedules_are_the_papers():
    settings = ImagenetSettings.of(variant="crelu-conv1-4")
    rate, decay = settings.schedules(steps_per_epoch=100)
    for phase in SGD.phases:
        for step in ((phase.first - 1) * 100, phase.last * 100 - 1):
            assert (rate(step), decay(step)) == (phase.learning_rate, phase.weight_decay)
    adam = ImagenetSettings.of(variant="crelu-all")
    assert (adam.recipe, adam.epochs, adam.batch, adam.lr) == ("adam", 100, 64, 2e-4)
    assert adam.reductions == settings.reductions == []
    short = ImagenetSettings.of(variant="baseline", epochs=1, lr=0.1)
    boundaries = short.schedules(steps_per_epoch=3)[0].boundaries
    assert list(boundaries) == sorted(set(boundaries))
    assert short.schedule_table()[0][1] == "0.1"
    assert ImagenetSettings.from_json(short.as_json()) == short
    with pytest.raises(ValueError, match="from another version"):
        ImagenetSettings.from_json({"variant": "baseline"})
    with pytest.raises(ValueError, match="unknown variant"):
        ImagenetSettings.of(variant="vgg")


def test_the_dry_run_needs_no_data(capsys):
    assert imagenet.main(["--variant", "crelu-all", "--dry-run", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"total +4,686,920", out)
    assert "6x6x512" in out
    assert "0.0002" in out
    assert "conv11: kernel printed 1x1x512x512, corrected 1x1x1024x512 (E4: " in out
    assert "conv12: pad not printed, corrected 0 (E33: " in out


def test_help_teaches():
    out = subprocess.run(
        [sys.executable, "-m", "experiments.imagenet", "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert out.returncode == 0
    for word in ("examples:", "--variant", "crelu-conv1,4,7", "--bad-images", "--resume", "runs/<name>/"):
        assert word in out.stdout


def test_the_pipeline_is_measured(capsys, tmp_path):
    Image.fromarray(photo(np.random.default_rng(0))).save(tmp_path / "x.jpg")
    assert pipeline.main(["--pictures", "3", "--rounds", "1", "--workers", "1", "--data", str(tmp_path)]) == 0
    assert re.search(r"pipeline +\d+", capsys.readouterr().out)
    with pytest.raises(UsageError, match="must be positive"):
        pipeline.main(["--rounds", "0"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--data DIR is needed: .* and val/ in it, or any folder with one folder of pictures per class"),
        (["--image", "x.jpg"], "name its folder with --run"),
        (["--crop", "300"], "--crop must be from 35 to --side"),
        (["--crop", "20"], "--crop must be from 35"),
        (["--scale", "0"], "--scale must be positive"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--dropout", "1"], "--dropout must be in"),
        (["--workers", "0"], "--workers and --save-every must be positive"),
        (["--run", "."], "has no config.json"),
        (["--subset", "9999", "--data", "DATA"], r"--subset must be in 1 \.\. \d+"),
        (["--run", "RUN"], "--data DIR is needed for its validation set"),
        (["--run", "RUN", "--data", "DATA", "--epochs", "3"], "--epochs is for a training, but --run names a trained"),
        (["--run", "RUN", "--data", "DATA", "--out", "x"], "--out is for a training, but --run names a trained"),
        (["--run", "RUN", "--data", "DATA", "--save-every", "1000"], "--save-every is for a training"),
        (["--run", "RUN", "--data", "DATA", "--resume"], "--resume is for a training"),
        (["--run", "RUN", "--image", "x.jpg", "--data", "DATA"], "--data is for a data set, but --image names"),
        (["--run", "RUN", "--image", "x.jpg", "--bad-images", "skip"], "--bad-images is for a data set"),
        (["--run", "RUN", "--image", "x.jpg", "--crops", "1"], "--crops is for a data set; --image averages ten"),
        (["--val-labels", "x.txt"], "--val-labels is for the pictures of --data: add it"),
    ],
)
def test_nonsense_is_refused(arguments, message, data, run):
    given = [{"DATA": str(data), "RUN": str(run)}.get(a, a) for a in arguments]
    with pytest.raises(UsageError, match=message):
        imagenet.main(["--device", "cpu", *given])


def test_other_data_than_it_was_trained_on(run, tmp_path):
    write_set(tmp_path / "other", each=2)
    (tmp_path / "other" / "train" / CLASSES[0]).rename(tmp_path / "other" / "train" / "n00000001")
    (tmp_path / "other" / "val" / CLASSES[0]).rename(tmp_path / "other" / "val" / "n00000001")
    with pytest.raises(UsageError, match="are not those that"):
        imagenet.main(["--run", str(run), "--data", str(tmp_path / "other"), "--device", "cpu"])
    assert open_run(run).settings.variant == "crelu-conv1-4"
