"""The command that checks the paper's statements: verdicts, exit codes, files, pictures, recovery."""

import dataclasses
import json
import sys

import numpy as np
import pytest

from experiments import theory
from experiments.analyses import recovery
from experiments.cli.app import run_main
from experiments.figures.theory import rademacher
from experiments.statements import FALSE, HOLDS, SEVERITIES, STATEMENTS, UNDECIDED, WITH_CONDITIONS, Evidence
from minicnn.data import cifar
from minicnn.data.dataset import Dataset
from minicnn.theory import frames

QUICK = {"pooling-step": FALSE, "pooling-switches": WITH_CONDITIONS, "rademacher-step": FALSE, "one-percent": FALSE}


def test_all_verdicts_are_as_expected(tmp_path, capsys):
    assert theory.main(["--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines()[:-1])) <= 120  # the last names the folder
    assert f"[{len(STATEMENTS)}/{len(STATEMENTS)}]" in captured.err
    saved = json.loads((tmp_path / "results.json").read_text())
    assert [s["key"] for s in saved["statements"]] == [s.key for s in STATEMENTS]
    assert all(s["verdict"] == s["expected"] and s["key"] in captured.out for s in saved["statements"])
    assert saved["seed"] == 0
    places = [captured.out.index(f"=== {severity}: ") for severity in SEVERITIES]  # the worst come first
    assert places == sorted(places)
    for one in STATEMENTS:
        later = [place for place in places if place > captured.out.index(f"{one.key}: ")]
        assert len(later) == len(SEVERITIES) - 1 - list(SEVERITIES).index(one.severity), one.key


def test_keys_and_verdicts_are_sound():
    assert len({s.key for s in STATEMENTS}) == len(STATEMENTS)
    assert {s.expected for s in STATEMENTS} == {HOLDS, WITH_CONDITIONS, FALSE}


@pytest.mark.parametrize("key", QUICK)
def test_a_changed_verdict_is_noticed(key, tmp_path, monkeypatch, capsys):
    changed = tuple(dataclasses.replace(s, expected=HOLDS) for s in STATEMENTS)
    monkeypatch.setattr(theory, "STATEMENTS", changed)
    assert theory.main(["--only", key, "--out", str(tmp_path)]) == 1
    assert f"NOT AS EXPECTED: {key}: expected holds, found {QUICK[key]}" in capsys.readouterr().err


def test_a_number_that_is_not_the_one_on_paper_decides_nothing(tmp_path, monkeypatch, capsys):
    one = next(s for s in STATEMENTS if s.key == "one-percent")
    slipped = dataclasses.replace(one.check(0), by_hand={"energy": (1, 2)})
    wrong = dataclasses.replace(one, check=lambda seed: slipped)
    monkeypatch.setattr(theory, "STATEMENTS", (wrong,))
    assert theory.main(["--out", str(tmp_path)]) == 1
    assert "found undecided (not as worked out by hand: energy)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"printed": True, "repaired": True}, HOLDS),
        ({"printed": False, "repaired": True}, FALSE),
        ({"printed": False, "repaired": True, "conditions": True}, WITH_CONDITIONS),
        ({"printed": False, "repaired": False}, UNDECIDED),
        ({"printed": True, "repaired": False}, UNDECIDED),
        ({"printed": True, "repaired": True, "by_hand": {"x": (1.0, 1.001)}}, UNDECIDED),
    ],
)
def test_verdicts_follow_from_evidence(found, verdict):
    assert Evidence("", **found).verdict == verdict


def test_a_broken_correction_is_noticed(tmp_path, monkeypatch, capsys):
    """The verdict is computed, not hard-coded: with another bound in place of ours, nothing is found false."""
    from experiments.statements import complexity

    monkeypatch.setattr(complexity, "PROVED", 1.2)
    assert theory.main(["--only", "rademacher-theorem", "--out", str(tmp_path)]) == 1
    assert "found undecided" in capsys.readouterr().err


def test_dry_run_lists_and_computes_nothing(tmp_path, capsys):
    assert theory.main(["--dry-run", "--out", str(tmp_path / "none")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(STATEMENTS)
    assert theory.main(["--measure", "--dry-run", "--out", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out.split()[0] == "conv1"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("arguments", [["--only", "one-percent"], ["--measure", "conv1"]])
def test_a_folder_that_cannot_be_made_is_found_out_before_the_work(arguments, tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as caught:
        theory.main([*arguments, "--out", str(tmp_path / "file" / "out")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"error: argument --out: {tmp_path / 'file'} is a file; name a folder" in said
    assert "[1/1]" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "--only: no nonsense; there are crelu-inverse"),
        (["--measure", "nonsense"], "--measure: no nonsense; there are conv1"),
        (["--measure", "alexnet"], "needs --alexnet FILE"),
        (["--measure", "--alexnet", "nowhere.npz"], "there is no file nowhere.npz"),
        (["--measure", "--only", "one-percent"], "exclude each other"),
        (["--data", "there"], "are for --measure"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--images", "0"], "--images in 1 .. 10000"),
    ],
)
def test_bad_arguments_exit_2_with_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["theory", *arguments])
    with pytest.raises(SystemExit) as caught:
        run_main(theory.main, theory.MODULE)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_figures(tmp_path):
    assert theory.main(["--only", "one-percent", "--figures", "--out", str(tmp_path)]) == 0
    for name in ("pooling_bounds", "subspace_means", "rademacher"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_legend_covers_none_of_the_constants():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    rademacher(figure, seed=0)
    figure.canvas.draw()
    right = figure.axes[1]
    assert right.get_legend().get_window_extent().y0 >= right.get_window_extent().y1


def test_without_matplotlib_there_are_no_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert theory.main(["--only", "one-percent", "--figures", "--out", str(tmp_path)]) == 0
    assert "no rademacher.png: matplotlib is not installed" in capsys.readouterr().err


@pytest.fixture
def small(monkeypatch):
    """Four random images for CIFAR-10, pictures of 19x19 pixels."""
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    data = Dataset("cifar10", ("a",), images, np.zeros(4, int), images, np.zeros(4, int))
    monkeypatch.setattr(cifar, "load", lambda name, where: data)
    monkeypatch.setattr(recovery, "GAUSSIAN_SIZE", 19)
    monkeypatch.setattr(recovery, "ALEXNET_SIZE", 19)
    monkeypatch.setattr(recovery, "JOINT_SCALES", (0.25,))
    monkeypatch.setattr(recovery, "JOINT_WIDTHS", {"crelu": (24, 24, 8, 8), "relu": (8, 8, 8, 8)})
    monkeypatch.setattr(recovery, "JOINT_STEPS", 2)


def test_measurements(small, tmp_path, capsys):
    filters = tmp_path / "filters.npz"
    np.savez(filters, conv1_w=np.random.default_rng(1).normal(size=(128, 3, 11, 11)).astype(np.float32))
    arguments = ["--measure", "--alexnet", str(filters), "--figures", "--out", str(tmp_path)]
    assert theory.main(arguments) == 0
    found = json.loads((tmp_path / "measured.json").read_text())["measured"]
    assert list(found) == list(recovery.MEASUREMENTS)
    assert found["conv1"]["float32"]["gaussian"] < 1e-5
    assert found["conv1"]["float64"]["gaussian"] < 1e-12
    assert all(found["conv1"][name]["largest error / (eps cond)"] <= 20 for name in ("float32", "float64"))
    for name, most in (("gaussian", 0.9), ("alexnet", 0.01)):  # 864 and 2048 responses for 1083 pixels
        assert all(curve[0] == 1 and curve[-1] < most for curve in found[name]["curves"].values())
    assert 0.9 < found["pooling"]["mean"] < 1
    assert found["joint"]["crelu, width x0.25, conv2"]["known per number"] == 2  # 6 filters for 3 channels
    assert found["joint"]["crelu, width x0.25, conv2"]["switches"] < 0.9
    assert set(found["joint"]["relu, width x0.25, conv4"]) == {"known per number", "switches", "no switches"}
    assert found["conditioning"]["condition number of T"] > 1
    assert (tmp_path / "error_curves.png").read_bytes().startswith(b"\x89PNG")
    assert "Table S1: 0.99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (None, "is not an .npz with conv1_w"),  # no archive at all
        ({"other": np.ones(3)}, "is not an .npz with conv1_w"),
        ({"conv1_w": np.ones(3)}, "is not an .npz with conv1_w"),
        ({"conv1_w": np.ones((4, 2, 3, 3))}, "conv1_w must be (filters, 3, height, width), got (4, 2, 3, 3)"),
        ({"conv1_w": np.full((4, 3, 3, 3), np.nan)}, "NaN or inf in conv1"),
        ({"conv1_w": np.zeros((4, 3, 3, 3))}, "all filters are zero"),
        ({"conv1_w": np.ones((4, 3, 30, 30))}, "the kernel (30) is larger than the padded image"),
    ],
)
def test_a_bad_file_of_filters(arrays, message, small, tmp_path, monkeypatch, capsys):
    path = tmp_path / "filters.npz"
    path.write_bytes(b"no archive") if arrays is None else np.savez(path, **arrays)
    monkeypatch.setattr(sys, "argv", ["theory", "--measure", "alexnet", "--alexnet", str(path), "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        run_main(theory.main, theory.MODULE)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_windows_in_the_padding_make_the_condition_number_infinite(small, monkeypatch):
    """1x1 filters with pad 2: an iteration finds the eigenvalue 0."""
    monkeypatch.setattr(frames, "DENSE_ENTRIES", 0)
    found = recovery.conditioning(recovery.Inputs(np.zeros((1, 32, 32, 3)), np.ones((1, 1, 3, 2)), seed=0))
    assert found["condition number of T"] == np.inf
