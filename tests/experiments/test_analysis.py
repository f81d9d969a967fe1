"""The command lines of the analyses, end to end on tiny networks trained on textures, and what they refuse."""

import csv
import json
import math
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import cifar, correlation, injectivity, invariance, pairing, reconstruction, regularisation
from experiments.analyses import runner
from experiments.analyses.images import sample
from experiments.analyses.invariance import Measured
from experiments.analyses.joint import Way, lines_of
from experiments.analyses.pairing import Source
from experiments.analyses.reconstruction import Original, Picture, reconstructed
from experiments.analyses.regularisation import measured
from experiments.analyses.weights import read_filters
from experiments.cli.app import UsageError, run_main
from experiments.figures.analyses import draw_spectra
from experiments.train import protocols
from experiments.train.archive import pack
from experiments.train.cifar import CifarSettings
from experiments.train.folder import fingerprint
from experiments.train.run import Run, open_runs
from minicnn.analysis.invariance import Score
from minicnn.analysis.inversion import Step, crelu_steps, pooling_ratios, reconstruct
from minicnn.analysis.pairing import expected_mu
from minicnn.backend import CPU
from minicnn.checkpoint import load, save
from minicnn.data.augment import Normaliser
from minicnn.data.decode import ImageError
from minicnn.data.textures import textures
from minicnn.random import Stream
from minicnn.theory.reconstruction import Layer, ratio
from tests.experiments.made_runs import tiny, write_run

COMMANDS = {
    "pairing": pairing,
    "correlation": correlation,
    "invariance": invariance,
    "reconstruction": reconstruction,
    "regularisation": regularisation,
    "injectivity": injectivity,
}
TINY = ["--dataset=textures", "--scale=0.06", "--subset=64", "--epochs=1", "--batch=32", "--device=cpu"]


@pytest.fixture(scope="module")
def data():
    return textures(200, 120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """relu, crelu (half) and a crelu run of folds, finished."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minicnn.data.textures.textures", lambda seed: textures(200, 120, seed=seed))
        assert cifar.main([*TINY, "--out", str(place / "relu")]) == 0
        assert cifar.main([*TINY, "--act", "crelu", "--width", "half", "--out", str(place / "crelu")]) == 0
        folds = ["--protocol", "folds", "--folds", "2", "--subset", "41"]
        assert cifar.main([*TINY, *folds, "--act", "crelu", "--out", str(place / "folds")]) == 0
    return place


@pytest.fixture(autouse=True)
def _few_textures(monkeypatch):
    """A data set that takes no time to make, the same one that the runs were trained on."""
    monkeypatch.setattr("minicnn.data.textures.textures", lambda seed: textures(200, 120, seed=seed))


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# --- what they give ---


def test_pairing(folder, tmp_path, capsys):
    assert pairing.main(["--run", str(folder / "relu"), "--draws", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr()
    assert "mean mu" in out.out
    assert "8/8 layers" in out.err
    files = {"histograms.png", "filters.png", "pairing.csv", "summary.json"}
    assert {p.name for p in (tmp_path / "relu").iterdir()} == files
    w = load(folder / "relu" / "checkpoint.npz")[0]["model/conv1.weight"].reshape(27, -1)
    phi = w / np.linalg.norm(w, axis=0)
    shown = re.search(r"^conv1 +3x3x3x(\d+) +\S+ +\S+ +(\S+)", out.out, re.M)
    assert int(shown[1]) == w.shape[1]
    assert float(shown[2]) == pytest.approx(expected_mu(w.shape[1], 27), abs=6e-4)
    row = next(r for r in read(tmp_path / "relu" / "pairing.csv") if r["layer"] == "conv1")
    others = [phi[:, 0] @ phi[:, j] for j in range(1, phi.shape[1])]
    assert float(row["mu"]) == pytest.approx(min(others), abs=1e-6)
    assert int(row["pairing_filter"]) == 1 + int(np.argmin(others))
    summary = json.loads((tmp_path / "relu" / "summary.json").read_text())
    assert list(summary) == [f"conv{i}" for i in range(1, 9)]
    assert 0 < summary["conv1"]["cosine_with_start"] < 1
    assert set(summary["conv1"]["quantiles"]) == {"0.05", "0.25", "0.5", "0.75", "0.95"}


@pytest.fixture(scope="module")
def by_hour(folder):
    """A ReLU and a CReLU run of the recipe `hour`, which starts with patterns and opposites."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minicnn.data.textures.textures", lambda seed: textures(200, 120, seed=seed))
        for act in ("relu", "crelu"):
            assert cifar.main([*TINY, "--recipe", "hour", "--act", act, "--out", str(folder / f"hour-{act}")]) == 0
    return folder


def test_pairs_that_a_recipe_starts_with_are_told_from_learned_ones(by_hour, tmp_path, capsys):
    """conv1 starts as patterns.  Behind CReLU, the second half of the channels starts as minus the first: one epoch
    leaves nearly half as many dimensions.  Behind ReLU, layers start at random."""
    runs = [word for act in ("relu", "crelu") for word in ("--run", str(by_hour / f"hour-{act}"))]
    assert pairing.main([*runs, "--draws", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    relu, crelu = (json.loads((tmp_path / f"hour-{act}" / "summary.json").read_text()) for act in ("relu", "crelu"))
    assert [layer["start"] for layer in relu.values()] == ["patterns", *["random"] * 7]
    assert [layer["start"] for layer in crelu.values()] == ["patterns", *["opposites"] * 7]
    assert [layer["cosine_with_start"] is None for layer in crelu.values()] == [True, *[False] * 7]
    kh, kw, channels, filters = map(int, re.findall(r"^conv2 +(\d+)x(\d+)x(\d+)x(\d+)", out, re.M)[1])
    expected = float(re.findall(r"^conv2 +\S+ +\S+ +\S+ +(\S+)", out, re.M)[1])
    halves = crelu["conv2"]["halves"]
    w = load(by_hour / "hour-crelu" / "checkpoint.npz")[0]["model/conv2.weight"]
    first, second = w[:, :, : channels // 2].reshape(-1, filters), w[:, :, channels // 2 :].reshape(-1, filters)
    cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(first.T, second.T, strict=True)]
    assert halves == pytest.approx(np.mean(cosines), abs=1e-5)
    assert -1 <= halves < -0.5
    assert expected == pytest.approx(expected_mu(filters, kh * kw * channels / (1 + halves**2)), abs=6e-4)
    assert "minus the weights of the first" in " ".join(out.split())


def test_what_is_left_of_a_start_as_opposites_is_a_negative_correlation():
    """(1, 2) and its opposite, then (2, -1), at right angles to it, and (2, 4), which points the same way."""
    start = np.array([1.0, 2, -1, -2]).reshape(1, 1, 4, 1)
    for second, left in (((-1.0, -2), -1.0), ((2, -1), 0.0), ((2, 4), 0.0), ((-2, 0.5), -0.216930)):
        now = np.array([1.0, 2, *second]).reshape(1, 1, 4, 1)
        source = Source("a", "a", {"conv2": now}, {"conv2": start})
        assert source.left_of_opposites("conv2") == pytest.approx(left, abs=1e-6)
        assert Source("a", "a", {"conv2": now}).left_of_opposites("conv2") is None


def test_an_untrained_network_starts_as_its_recipe_says(by_hour, data):
    """With the images, conv1 of a ReLU network has the patterns with both signs; without them it cannot."""
    (run,) = open_runs([by_hour / "hour-relu"])
    without, prepared = (run.model(CPU, untrained=0, data=given)["conv1"].weight.data for given in (None, data))
    half = prepared.shape[-1] // 2
    np.testing.assert_array_equal(prepared[..., half : 2 * half], -prepared[..., :half])
    assert not np.array_equal(without[..., half : 2 * half], -without[..., :half])
    later = (run.model(CPU, untrained=0, data=given)["conv2"].weight.data for given in (None, data))
    np.testing.assert_array_equal(*later)


def test_correlation(folder, tmp_path, capsys):
    assert correlation.main(["--run", str(folder / "crelu"), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0.372 / 0.165" in out  # the paper's conv1
    assert "not comparable" in out
    arrays = load(folder / "crelu" / "checkpoint.npz")[0]
    w = arrays["model/conv2.weight"]  # (3, 3, 6, 3)
    u, v = w[:, :, 0].ravel(), w[:, :, 3].ravel()
    cosine = next(r for r in read(tmp_path / "cosines.csv") if r["layer"] == "conv1")
    assert float(cosine["pair"]) == pytest.approx(u @ v / np.linalg.norm(u) / np.linalg.norm(v), abs=1e-6)
    rows = read(tmp_path / "correlation.csv")
    assert len(rows) == 7
    cosines = [
        [w[:, :, i].ravel() @ w[:, :, 3 + j].ravel() / np.linalg.norm(w[:, :, i]) / np.linalg.norm(w[:, :, 3 + j])
         for j in range(3)] for i in range(3)]  # fmt: skip
    pairs = [cosines[i][i] for i in range(3)]
    others = [cosines[i][j] for i in range(3) for j in range(3) if i != j]
    row = {name: float(value) for name, value in rows[0].items() if name not in ("run", "layer")}
    assert row["pair_absolute"] == pytest.approx(np.mean(np.abs(pairs)), abs=1e-6)
    assert row["non_pair_absolute"] == pytest.approx(np.mean(np.abs(others)), abs=1e-6)
    assert row["pair_signed"] == pytest.approx(np.mean(pairs), abs=1e-6)
    d = 3 * 3 * w.shape[3]
    assert row["random_absolute"] == pytest.approx(
        math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
    )
    assert (tmp_path / "correlation.png").stat().st_size > 5000


def test_invariance(folder, tmp_path, capsys):
    runs = ["--run", str(folder / "relu"), "--run", str(folder / "crelu")]
    options = ["--subset", "50", "--control", "2", "--device", "cpu", "--out", str(tmp_path)]
    assert invariance.main([*runs, *options]) == 0
    out = capsys.readouterr().out
    first, second = re.findall(r"^conv1 +[\d.]+(.) +[\d.]+(.)", out, re.M)
    assert first == ("*", " ")  # the paper's side of a ReLU network
    assert second == (" ", "*")
    rows = read(tmp_path / "invariance.csv")
    papers = {(row["run"], row["sides"]) for row in rows if row["as_in_paper"] == "True"}
    assert papers == {("relu", "one"), ("crelu", "two")}
    assert len(rows) == 2 * 3 * 7 * 2
    assert {row["weights"] for row in rows} == {"trained", "untrained, seed 0", "untrained, seed 1"}
    scores = [float(row["score"]) for row in rows if row["score"] != "nan"]
    assert all(0 <= score <= 130 for score in scores)  # 100, and a little more where ties keep G below the rate
    assert set(rows[0]) > {"flip", "rotation", "up", "rare_filters", "score_with_rare"}
    rates = [float(row["global_rate"]) for row in read(tmp_path / "filters.csv")]
    assert max(rates) <= 0.01
    assert (tmp_path / "invariance.png").stat().st_size > 5000
    of_seeds = [float(row["score"]) for row in rows if row["run"] == "relu" and row["weights"] != "trained"][::14]
    assert f"{np.mean(of_seeds):.1f} ± {np.std(of_seeds, ddof=1):.1f}" in out


def test_invariance_without_control(folder, tmp_path, capsys):
    run = ["--run", str(folder / "crelu"), "--subset", "10", "--device", "cpu", "--out", str(tmp_path)]
    assert invariance.main([*run, "--control", "0"]) == 0
    assert "untrained" not in capsys.readouterr().out
    assert {row["weights"] for row in read(tmp_path / "invariance.csv")} == {"trained"}


def test_untrained_weights_are_those_before_training(folder):
    (run,) = open_runs([folder / "crelu"])
    trained, untrained, other = (run.model(CPU, untrained=seed)["conv1"].weight.data for seed in (None, 0, 1))
    assert run.settings.seed == 0
    np.testing.assert_array_equal(untrained, run.settings.build_model()["conv1"].weight.data)
    assert not np.array_equal(trained, untrained)
    assert not np.array_equal(other, untrained)


def test_reconstruction(folder, tmp_path, capsys):
    common = ["--run", str(folder / "crelu"), "--subset", "10", "--count", "1", "--device", "cpu"]
    assert reconstruction.main([*common, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "conv4, global" in out
    rows = read(tmp_path / "crelu-images.csv")
    assert len(rows) == 4 * 2
    (run,) = open_runs([folder / "crelu"])
    small = textures(200, 120)
    i = int(rows[0]["image"].removeprefix("test image "))
    x = run.normaliser(small)(small.test_images[i : i + 1])
    expected = ratio(x, reconstruct(x, crelu_steps(run.model(CPU))[:1], method="region"))[0]
    assert rows[0]["layer"] == "conv1"
    assert float(rows[0]["ratio"]) == pytest.approx(expected, rel=1e-4)
    ratios = read(tmp_path / "ratios.csv")
    assert [row["layer"] for row in ratios] == ["conv2", "conv5"]
    images = run.normaliser(small)(small.test_images[sample(10, 120)])
    steps = crelu_steps(run.model(CPU))[:2]
    learned = pooling_ratios(images, steps)
    stream = Stream(0).child("random filters", "conv2")
    banks = [stream.at(b).generator().standard_normal(steps[1].layer.w.shape) for b in range(5)]
    random = [pooling_ratios(images, steps, bank).mean() for bank in banks]
    expected = [learned.mean(), learned.std(ddof=1) / 10**0.5, np.mean(random), np.std(random, ddof=1) / 5**0.5]
    found = [float(ratios[0][name]) for name in ("learned", "learned_se", "random", "random_se")]
    assert found == pytest.approx(expected, rel=1e-4)
    assert expected[0] != pytest.approx(expected[2], rel=1e-3)
    shown = reconstruct(x, steps[:1], method="region")[0] * np.array(run.normaliser(small).std)
    picture = np.rint(255 * np.clip(shown + np.array(run.normaliser(small).mean), 0, 1)) / 255
    error = np.mean((picture - small.test_images[i] / 255) ** 2)
    assert float(rows[0]["psnr"]) == pytest.approx(-10 * math.log10(error), rel=1e-3)
    assert (tmp_path / "crelu-images.png").stat().st_size > 1000


def test_unfinished_least_squares_is_marked(folder, tmp_path, monkeypatch, capsys):
    """One step is too few, many are enough for a small picture; the sheet says what its stars mean."""
    from PIL import Image

    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / "own.png")
    drawn = []
    draw = lambda path, rows, *, title, **_: drawn.append((rows, title))
    monkeypatch.setattr("experiments.analyses.reconstruction.draw_sheet", draw)
    common = ["--run", str(folder / "crelu"), "--subset", "1", "--image", str(tmp_path / "own.png"), "--size", "8"]
    common += ["--layers", "conv1", "--device", "cpu", "--out", str(tmp_path)]
    for iterations, star in (("1", True), ("5000", False)):
        assert reconstruction.main([*common, "--iterations", iterations]) == 0
        region, least_squares = read(tmp_path / "crelu-images.csv")
        assert (region["converged"], least_squares["converged"]) == ("True", str(not star))
        cells, title = drawn.pop()
        assert ["*" in cell.caption for cell in cells[0]] == [False, False, star]
        assert ("*: least squares had not converged" in title) == star
        assert ("* 1 of 2 by least squares" in capsys.readouterr().out) == star


def test_an_exact_image_is_finished_and_the_original_is_shown_once():
    pixels, blurred = np.zeros((4, 4, 3), np.uint8), np.ones((4, 4, 3), np.uint8)
    image = Original("cat 3", pixels)
    exact = Picture("cat 3", "conv1", "joint", 1e-5, math.inf, False, pixels)
    other = Picture("cat 3", "conv3", "region", 0.5, 12.3, False, blurred)
    made = {Way("conv1", "joint"): exact, Way("conv3", "region"): other}
    first, second = lines_of(image, made)
    assert [cell.caption for cell in first] == ["cat 3", "0.000, exact", ""]
    assert [cell.caption for cell in second] == ["", "", "0.500*, 12.3 dB"]
    assert [len(cell.pictures) for cell in second] == [0, 0, 1]


def test_spectra_that_coincide_can_be_told_apart(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("experiments.figures.analyses.save_figure", lambda figure, *_, **__: drawn.append(figure))
    values = np.geomspace(1, 0.1, 50)
    draw_spectra(tmp_path / "x.png", {"net": {(f"conv{i}", "trained"): values for i in range(1, 8)}})
    (figure,) = drawn
    lines = figure.axes[0].get_lines()
    assert len({line.get_marker() for line in lines}) == len({line.get_markevery() for line in lines}) == 7
    assert figure.get_suptitle().startswith("Singular values of the filters; a line that ends at share 1 means that no")


def test_own_pictures(folder, tmp_path):
    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 256, (50, 30, 3), np.uint8)
    Image.fromarray(picture).save(tmp_path / "own.png")
    common = ["--run", str(folder / "crelu"), "--subset", "2", "--device", "cpu", "--out", str(tmp_path)]
    assert (
        reconstruction.main([*common, "--image", str(tmp_path / "own.png"), "--size", "16", "--layers", "conv1"]) == 0
    )
    assert [row["image"] for row in read(tmp_path / "crelu-images.csv")] == ["own.png"] * 2


def test_a_picture_smaller_than_the_filters():
    """11x11 filters, as in an ImageNet network, on 8x8 pixels."""
    step = Step("conv1", Layer(np.ones((11, 11, 3, 2), np.float32), None, stride=4))
    picture = Original("small.png", np.zeros((8, 8, 3), np.uint8))
    job = SimpleNamespace(args=SimpleNamespace(iterations=200), device=CPU)
    with pytest.raises(UsageError, match=r"^small.png: .*the kernel \(11\) is larger than the padded image"):
        reconstructed(picture, [step], "region", Normaliser((0,) * 3, (1,) * 3), job)


def test_a_network_with_crelu_in_some_layers(folder, tmp_path, capsys):
    """VGG with CReLU at 1 and 3: only conv1 can be inverted, two layers have pairs, and each layer has its own side."""
    vgg = ["--model", "vgg", "--act", "crelu", "--at", "1,3", "--scale", "0.04"]
    assert cifar.main([*TINY, *vgg, "--out", str(tmp_path / "vgg")]) == 0
    common = ["--run", str(tmp_path / "vgg"), "--device", "cpu", "--out", str(tmp_path / "out")]
    assert correlation.main(common) == 0
    assert [row["layer"] for row in read(tmp_path / "out" / "correlation.csv")] == ["conv1", "conv3"]
    capsys.readouterr()
    assert reconstruction.main([*common, "--count", "1"]) == 0
    assert "no ratios" in capsys.readouterr().out
    assert {row["layer"] for row in read(tmp_path / "out" / "vgg-images.csv")} == {"conv1"}
    assert invariance.main([*common, "--subset", "5", "--control", "0"]) == 0
    stars = re.findall(r"^conv\d+ +[\d.na]+(.) +[\d.na]+(.)", capsys.readouterr().out, re.M)
    assert stars == [(" ", "*"), ("*", " "), (" ", "*"), *[("*", " ")] * 10]


def test_injectivity(folder, tmp_path, capsys):
    """Two networks: the counts are those of the responses, the spectra those of the weights."""
    runs = ["--run", str(folder / "relu"), "--run", str(folder / "crelu")]
    assert injectivity.main([*runs, "--subset", "5", "--windows", "20", "--out", str(tmp_path)]) == 0
    rows = read(tmp_path / "injectivity.csv")
    assert (tmp_path / "injectivity.png").read_bytes().startswith(b"\x89PNG")
    assert {row["activation"] for row in rows} == {"relu", "crelu"}
    assert {(row["filters"], row["layer"]) for row in rows} == {
        (kind, f"conv{i}") for kind in ("trained", "random") for i in range(1, 8)
    }
    assert "one window" in capsys.readouterr().out
    (run,) = open_runs([folder / "crelu"])
    w = run.model(CPU).state_dict()["conv2.weight"].astype(float)
    (row,) = (r for r in rows if (r["run"], r["layer"], r["filters"]) == ("crelu", "conv2", "trained"))
    s = np.linalg.svd(w.reshape(-1, w.shape[3]), compute_uv=False)
    assert float(row["largest"]) == pytest.approx(s[0])
    assert float(row["least"]) == pytest.approx(s[-1])
    assert (int(row["D"]), int(row["K"])) == (w[..., 0].size, w.shape[3])
    assert float(row["known_per_number"]) == pytest.approx(w.shape[3] / w.shape[2])  # all responses, as many places
    (model,) = (r.model(CPU) for r in open_runs([folder / "relu"]))
    x = run.normaliser(textures(200, 120)).__call__(textures(200, 120).test_images[sample(5, 120)])
    fires = float((dict(model.trace(x))["conv1"] >= 0).mean())
    (row,) = (r for r in rows if (r["run"], r["layer"], r["filters"]) == ("relu", "conv1", "trained"))
    assert float(row["known_per_pixel"]) == pytest.approx(fires * model.state_dict()["conv1.weight"].shape[3] / 3)


def test_joint_reconstruction(folder, tmp_path, capsys):
    """Both networks; CReLU's beside the other methods; behind the pool with switches and without."""
    common = ["--method", "joint", "--count", "1", "--steps", "2", "--out", str(tmp_path)]
    runs = ["--run", str(folder / "crelu"), "--run", str(folder / "relu")]
    assert reconstruction.main([*common, *runs, "--layers", "conv1,conv3"]) == 0
    rows = read(tmp_path / "joint.csv")
    by_run = {name: [(r["layer"], r["method"]) for r in rows if r["run"] == name] for name in ("crelu", "relu")}
    joint = [("conv1", "joint"), ("conv3", "joint"), ("conv3", "joint, no switches")]
    assert by_run["relu"] == joint
    assert set(by_run["crelu"]) == {*joint, *((f"conv{i}", name) for i in (1, 3) for name in ("region", "global"))}
    assert all((tmp_path / f"{name}-joint.png").exists() for name in by_run)
    assert "known / pixel value" in capsys.readouterr().out
    (found,) = (r for r in rows if (r["run"], r["layer"], r["method"]) == ("crelu", "conv1", "joint"))
    (run,) = open_runs([folder / "crelu"])
    filters = run.model(CPU).state_dict()["conv1.weight"].shape[3]
    assert float(found["known_per_pixel"]) == pytest.approx(filters / 3)
    with pytest.raises(UsageError, match="no features to invert at conv9; there are conv1"):
        reconstruction.main([*common, *runs, "--layers", "conv9"])


def test_regularisation(folder, tmp_path, capsys):
    runs = ["--run", str(folder / "relu"), str(folder / "folds")]
    assert regularisation.main([*runs, "--out", str(tmp_path)]) == 0
    rows = read(tmp_path / "gaps.csv")
    assert [row["run"] for row in rows] == ["relu", "folds-fold1", "folds-fold2"]
    for row, place in zip(rows, ("relu", "folds/fold1", "folds/fold2"), strict=True):
        result = json.loads((folder / place / "result.json").read_text())
        assert float(row["gap"]) == pytest.approx(result["test_error"] - result["train_error"])
    out = capsys.readouterr().out
    one, other = (float(row["gap"]) for row in rows[1:])  # of two, t(0.975, 1) s / sqrt 2 = 12.706 |a - b| / 2
    spread = "(2)" if one == pytest.approx(other) else f"± {12.7062 * abs(one - other) / 2:.2f}"
    assert f"{(one + other) / 2:.2f} {spread}" in out
    assert "CReLU (base x0.06), textures, 1 epoch, 2 networks" in out
    test = float(rows[0]["test_error"])
    assert float(rows[0]["test_standard_error"]) == pytest.approx(
        math.sqrt(test * (100 - test) / 1_000)
    )  # textures to test on
    assert (tmp_path / "gaps.png").stat().st_size > 5000


def test_the_papers_gap_stands_beside_ours():
    """Table 1: CReLU (half) on CIFAR-10 has 4.73 % in training and 8.37 % as a single network."""
    run = SimpleNamespace(
        name="x",
        label="CReLU (half)",
        settings=CifarSettings.of(act="crelu", width="half"),
        result={"train_error": 1.0, "test_error": 3.5},
    )
    row = measured(run)
    assert (row.gap, row.paper_train_error, row.paper_test_error, row.paper_gap) == (2.5, 4.73, 8.37, 3.64)


def test_each_transformation_has_its_own_column():
    """Ten fire; the same ones after a flip, half of them after a rotation.  One filter is rare."""
    both = {"flip": np.array([10, 1]), "top left": np.array([5, 0])}
    score = Score(np.array([0.5, 0.0]), np.array([10, 1]), both, places=1000, rate=0.01)
    layer = Measured("net", "trained", "conv1", "one", True, score)
    row = layer.row()
    assert (row["flip"], row["top_left"], row["score"]) == (100, 50, 75)
    assert (row["filters"], row["rare_filters"], row["score_with_rare"]) == (2, 1, (75 + 500) / 2)
    (first, _) = layer.filter_rows()
    assert (first["threshold"], first["global_rate"], first["local_rate"], first["score"]) == (0.5, 0.01, 0.75, 75)


def test_the_images_a_run_was_trained_on_are_found_again(folder, data):
    """The network sees their mean as zero: a wrong mean would shift every result."""
    for run in open_runs([folder / "relu", folder / "folds"]):
        chosen = run.training_images(data)
        assert run.normaliser(data) == Normaliser.of(data.train_images[chosen])
    assert [len(run.training_images(data)) for run in open_runs([folder / "folds"])] == [20, 21]
    (run,) = open_runs([folder / "relu"])
    run.config["train"]["sha256"] = "0"
    with pytest.raises(UsageError, match="do not match its settings"):
        run.training_images(data)


def test_a_plain_run_may_be_called_fold1(data):
    """With more than half of the images held out there are not two folds; this used to raise a ValueError."""
    asked = CifarSettings.of(dataset="textures", subset=41)
    train, _ = protocols.split(asked.chosen_images(len(data.train_labels)), 35, asked.seed)
    config = {"train": fingerprint(train), "hold_out": {"count": 35}}
    np.testing.assert_array_equal(Run(Path("fold1"), asked, config, {}).training_images(data), train)


# --- weights from elsewhere ---


def test_a_checkpoint_of_ours_is_a_file_of_weights(folder):
    found = read_filters(folder / "relu" / "checkpoint.npz", "hwio")
    assert list(found) == [f"conv{i}" for i in range(1, 9)]  # not the optimiser's state
    assert found["conv1"].shape == (3, 3, 3, 6)


def test_groups(tmp_path, capsys):
    half = np.abs(np.random.default_rng(0).normal(size=(3, 3, 2, 4)))
    np.savez(tmp_path / "net.npz", conv1_w=np.concatenate([half, -half], axis=3))
    common = ["--weights", str(tmp_path / "net.npz"), "--layout", "hwio", "--draws", "2", "--out", str(tmp_path)]
    assert pairing.main(common) == 0
    assert " -1.000 " in capsys.readouterr().out
    assert pairing.main([*common, "--groups", "conv1=2"]) == 0
    assert " -1.000 " not in capsys.readouterr().out
    with pytest.raises(UsageError, match="--groups names conv9; the layers are conv1"):
        pairing.main([*common, "--groups", "conv9=2"])
    with pytest.raises(UsageError, match="8 filters in 3 groups"):
        pairing.main([*common, "--groups", "conv1=3"])


def test_the_time_that_an_analysis_will_take(monkeypatch, capsys):
    """The second trial counts: 3 s, of which there are 100, and 1 s, of which there are 10."""
    now = 0.0

    def work(first, second):
        seconds = iter((first, second))

        def run():
            nonlocal now
            now += next(seconds)

        return run

    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: now))
    runner.announce_time("all of it", [(work(50.0, 3.0), 100), (work(9.0, 1.0), 10)])
    assert capsys.readouterr().out == "time  about 5 min 10 s (all of it), from a trial\n"


def test_long_analyses_announce_their_time(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("experiments.analyses.invariance.TRIAL", 2)
    said = []
    monkeypatch.setattr("experiments.analyses.invariance.announce_time", lambda *given: said.append(given))
    common = ["--run", str(folder / "crelu"), "--out", str(tmp_path), "--device", "cpu"]
    assert invariance.main([*common, "--subset", "24", "--control", "1"]) == 0
    ((words, ((trial, times),)),) = said
    assert words == "24 images, 1 networks and 1 untrained ones of each"
    assert times == 2 * 24 / 2  # trained and untrained, 24 images, in trials of two
    trial()


# --- what they refuse ---


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder / "crelu", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", COMMANDS)
def test_folders_that_are_no_finished_runs(name, copy):
    command = COMMANDS[name].main
    with pytest.raises(UsageError, match="there is no folder"):
        command(["--run", str(copy / "nowhere")])
    with pytest.raises(UsageError, match="it holds the runs run: name one"):
        command(["--run", str(copy.parent)])
    (copy / "result.json").unlink()
    with pytest.raises(UsageError, match="is not finished"):
        command(["--run", str(copy)])


def test_damaged_runs(copy):
    path = copy / "checkpoint.npz"
    (copy / "checkpoint.previous.npz").unlink(missing_ok=True)
    arrays, metadata = load(path)
    broken = arrays | {"model/conv3.weight": np.full_like(arrays["model/conv3.weight"], np.nan)}
    save(path, broken, metadata)
    with pytest.raises(UsageError, match="NaN or inf in conv3.weight"):
        correlation.main(["--run", str(copy)])
    save(path, {name: a for name, a in arrays.items() if "conv4" not in name}, metadata)
    with pytest.raises(UsageError, match=r"cannot be used: .*missing: conv4.weight"):
        pairing.main(["--run", str(copy)])
    (copy / "checkpoint.previous.npz").unlink()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UsageError, match="cannot be used: .*checkpoint.npz is damaged; remove the folder and train"):
        pairing.main(["--run", str(copy)])
    config = json.loads((copy / "config.json").read_text())
    del config["settings"]["act"]
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="from another version: .*act"):
        regularisation.main(["--run", str(copy)])


def test_older_weights_never_stand_in_for_those_of_the_results(copy):
    """Not while the newest checkpoint is cut, not when it is gone, and not under its name."""
    newest, older = copy / "checkpoint.npz", copy / "checkpoint.previous.npz"
    arrays, metadata = load(newest)
    save(older, arrays, metadata | {"epoch": metadata["epoch"] - 1})
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-100])
    with pytest.raises(UsageError, match="checkpoint.npz is damaged; remove the folder and train it again"):
        pairing.main(["--run", str(copy)])
    newest.unlink()
    with pytest.raises(UsageError, match="checkpoint.npz is missing; copy it from where it was trained"):
        pairing.main(["--run", str(copy)])
    assert not open_runs([copy])[0].has_weights
    older.rename(newest)
    wrong = f"holds the network after epoch {metadata['epoch'] - 1}, but the results are of epoch {metadata['epoch']}"
    with pytest.raises(UsageError, match=wrong):
        pairing.main(["--run", str(copy)])
    newest.write_bytes(whole)
    assert open_runs([copy])[0].model(CPU)


def test_a_run_and_a_file_of_one_name(copy, tmp_path):
    shutil.copy(copy / "checkpoint.npz", tmp_path / "run.npz")
    with pytest.raises(UsageError, match="two networks are called run"):
        pairing.main(["--run", str(copy), "--weights", str(tmp_path / "run.npz"), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_network_of_zeros_has_no_correlations(copy, tmp_path, capsys):
    arrays, metadata = load(copy / "checkpoint.npz")
    save(copy / "checkpoint.npz", {name: np.zeros_like(a) for name, a in arrays.items()}, metadata)
    assert correlation.main(["--run", str(copy), "--out", str(tmp_path / "out")]) == 0
    assert re.search(r"^conv1 .* - ± - ", capsys.readouterr().out, re.M)
    assert read(tmp_path / "out" / "cosines.csv") == []


def test_a_result_without_errors(copy):
    (copy / "result.json").write_text("{}")
    with pytest.raises(UsageError, match="is damaged: train_error is None"):
        regularisation.main(["--run", str(copy)])
    (copy / "result.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        regularisation.main(["--run", str(copy)])


def test_with_held_out_images_the_best_weights_count(folder):
    run = open_runs([folder / "folds"])[0]
    best = load(run.folder / "best.npz")[0]
    np.testing.assert_array_equal(run.model(CPU)["conv1"].weight.data, best["conv1.weight"])


def test_networks_without_crelu(folder, tmp_path):
    for command in (correlation, reconstruction):
        with pytest.raises(UsageError, match="without CReLU"):
            command.main(["--run", str(folder / "relu"), "--out", str(tmp_path), "--device", "cpu"])


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (pairing, [], "nothing to look at"),
        (pairing, ["--weights", "x.npz", "--draws", "0"], "--draws must be positive"),
        (invariance, ["--run", "x", "--rate", "1"], "--rate must be between"),
        (invariance, ["--run", "x", "--control", "-1"], "--control must not be negative, got -1"),
        (reconstruction, ["--run", "x", "--count", "0"], "must be positive"),
    ],
)
def test_options_that_make_no_sense(command, arguments, message):
    with pytest.raises(UsageError, match=message):
        command.main(arguments)


def test_no_layers_are_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        reconstruction.main(["--run", "x", "--layers", ","])
    assert caught.value.code == 2
    assert "expected names of layers, such as conv1,conv2" in capsys.readouterr().err


def test_more_that_makes_no_sense(folder, tmp_path):
    run = ["--run", str(folder / "crelu"), "--device", "cpu", "--out", str(tmp_path)]
    with pytest.raises(UsageError, match=r"--subset must be in 1 .. 120, got 121"):
        invariance.main([*run, "--subset", "121"])
    with pytest.raises(UsageError, match="no crop of 224x224"):
        invariance.main([*run, "--stimuli", "imagenet", "--subset", "10"])
    with pytest.raises(UsageError, match="no CReLU features at conv9; there are conv1"):
        reconstruction.main([*run, "--layers", "conv9"])
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ImageError, match="not a picture in a known format"):
        reconstruction.main([*run, "--image", str(tmp_path / "text.png")])
    with pytest.raises(UsageError, match="two runs are called crelu"):
        pairing.main([*run, *run])


@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_is_one_line_and_code_2(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--run", "nowhere"])
    with pytest.raises(SystemExit) as caught:
        run_main(COMMANDS[name].main, f"experiments.{name}")
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: there is no folder nowhere")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_opens_nothing(name, capsys):
    assert COMMANDS[name].main(["--run", "nowhere", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "would read   nowhere" in out
    assert f"in runs/{name}" in out


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_an_archive_without_the_weights_is_named_and_says_which_it_has(more, tmp_path, ends):
    tree, archive = tmp_path / "tree", tmp_path / "archive"
    with_weights, without = tiny().table1[:2]
    for training in (with_weights, without):
        write_run(tree, training, train=1.0, test=2.0)
    save(tree / "runs" / with_weights.name / "weights.npz", {"x": np.zeros(1)})
    pack(tree, archive)
    for command in (correlation, pairing):
        code, said = ends(command.main, command.MODULE, "--run", str(archive / without.name), *more)
        assert code == 2
        has = f"no weights of {without.name}; it has those of {with_weights.name}"
        assert said == f"error: the archive {archive} has {has}\n"
    assert correlation.main(["--run", str(archive / with_weights.name), "--dry-run"]) == 0
    assert regularisation.main(["--run", str(archive), "--out", str(tmp_path / "out"), *more]) == 0


def test_samples_are_the_same_every_time():
    np.testing.assert_array_equal(sample(5, 5), np.arange(5))
    first = sample(5, 100)
    np.testing.assert_array_equal(first, sample(5, 100))
    assert len(set(first)) == 5
