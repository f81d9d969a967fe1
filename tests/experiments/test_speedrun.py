"""The speed run on textures: a table and a file, nothing done twice, errors."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from experiments import speedrun
from experiments.cli.app import UsageError
from experiments.cli.environment import processor
from experiments.cli.files import write_csv
from experiments.train.cifar import PATCHED, CifarSettings
from experiments.train.run import open_run
from experiments.train.variants import Variants
from minicnn.checkpoint import load
from minicnn.data.augment import Normaliser
from minicnn.data.textures import textures

ROOT = Path(__file__).parents[2]
SMALL = shlex.split(
    "--dataset textures --scale 0.05 --subset 600 --epochs 1 --device cpu --no-pytorch --variants relu-learned"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_table_and_file(tmp_path, capsys):
    assert speedrun.main([*SMALL, "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    with open(tmp_path / "runs/speedrun/trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["variant"], row["seed"]) for row in rows] == [("relu-learned", "0"), ("relu-learned", "1")]
    folder = tmp_path / "runs/speedrun/relu-learned/textures-sprint-relu-learned-x0.05-sprint1-seed1"
    result = json.loads((folder / "result.json").read_text())
    assert float(rows[1]["test_error"]) == pytest.approx(result["test_error"])
    assert float(rows[1]["test_error_mirrored"]) == pytest.approx(result["test_error_mirrored"])
    assert float(rows[1]["test_error_six_views"]) == pytest.approx(six_views(folder), abs=1e-9)
    assert [row["machine"] for row in rows] == 2 * [processor()]
    errors = [float(row["test_error"]) for row in rows]
    mean = 100 - sum(errors) / 2
    spread = "(2)" if errors[0] == pytest.approx(errors[1]) else "± "  # so small networks may well err alike
    assert f"relu-learned {mean:.2f} {spread}" in " ".join(shown.split())
    before = (folder / "checkpoint.npz").stat().st_mtime_ns
    assert speedrun.main([*SMALL, "--seeds", "2"]) == 0
    assert (folder / "checkpoint.npz").stat().st_mtime_ns == before
    assert f"{mean:.2f}" in capsys.readouterr().out


def six_views(folder):
    """The test error of a run when six views of each image are averaged, from the definition."""
    run, images, labels = open_run(folder), textures().test_images, textures().test_labels
    network = run.classifier("cpu")
    around = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    moved = [around[:, 1 - step : 33 - step, 1 - step : 33 - step] for step in (0, 1, -1)]
    mirrored = np.pad(images[:, :, ::-1], ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    moved += [mirrored[:, 1 - step : 33 - step, 1 - step : 33 - step] for step in (0, 1, -1)]
    mean = sum(network.probabilities(np.ascontiguousarray(view)) for view in moved) / 6
    return 100 * (mean.argmax(axis=1) != labels).mean()


def test_the_command_knows_the_trainings_of_docs():
    args = speedrun.parser().parse_args([])
    wanted = {name: speedrun.settings(args, name) for name in speedrun.VARIANTS}
    there = Variants(wanted, args.out, speedrun.ERRORS)
    with open(ROOT / "docs" / "speedrun" / "trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        one = wanted[row["variant"]][int(row["seed"])]
        assert row["settings"] == there.fingerprint(row["variant"], one)


@pytest.mark.parametrize(
    ("machines", "minutes", "said"),
    [
        (["A", "A", "A"], "4.0 ± ", "Trained on A.\n"),
        (
            ["A", "B", "B"],
            "5.0 (2)",
            "Trained on B (2 of 3 trainings), A (1 of 3 trainings); minutes are of those on B.",
        ),
        (["A", None, "A"], "3.5 ± ", "a machine not recorded (1 of 3 trainings); minutes are of those on A."),
        (["A", "B", "here"], "5.0 (1)", "minutes are of those on here."),
    ],
)
def test_minutes_are_of_one_machine(machines, minutes, said, tmp_path, monkeypatch, capsys):
    """Seeds took 2, 5 and 5 minutes, and accuracies count from everywhere.  Of a tie, this machine counts."""
    monkeypatch.setattr(speedrun, "processor", lambda: "here")
    args = speedrun.parser().parse_args([*SMALL, "--seeds", "3"])
    wanted = {"relu-learned": speedrun.settings(args, "relu-learned")}
    there = Variants(wanted, tmp_path, (*speedrun.ERRORS, "seconds"))
    errors = dict.fromkeys(speedrun.ERRORS, 10.0)
    took = [120.0, 300.0, 300.0]
    rows = [
        {"settings": there.fingerprint("relu-learned", one), "seconds": seconds, "machine": machine} | errors
        for one, seconds, machine in zip(wanted["relu-learned"], took, machines, strict=True)
    ]
    write_csv(tmp_path / "known.csv", rows)
    assert speedrun.main([*SMALL, "--seeds", "3", "--report", "--import", str(tmp_path / "known.csv")]) == 0
    shown = capsys.readouterr().out
    assert f"90.00 (3) 90.00 (3) 90.00 (3) {minutes}" in " ".join(shown.split())
    assert said in shown


def test_without_pytorch_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(speedrun, "missing", lambda framework: ["torch"])
    assert speedrun.main([option for option in SMALL if option != "--no-pytorch"] + ["--seeds", "1"]) == 0
    assert "PyTorch is timed with the whole network alone" in capsys.readouterr().out
    one = CifarSettings.of(model="sprint")
    assert "PyTorch is not installed" in speedrun.pytorch(one, 500, 1)


def test_minutes_of_a_training_follow_from_its_steps(monkeypatch):
    """50,001 images in batches of 2,000 are 26 steps per epoch, 260 in ten; the fastest of a family counts."""
    seconds = {"ours": ("ours", 1.5), "PyTorch, a": ("PyTorch", 3.0), "PyTorch, b": ("PyTorch", 2.0)}
    found = {name: {"family": family, "seconds": took} for name, (family, took) in seconds.items()}
    monkeypatch.setattr(speedrun, "missing", lambda framework: [])
    timed = []
    monkeypatch.setattr(speedrun, "compare", lambda case, *args: timed.append(case) or {"contenders": found})
    table = speedrun.pytorch(CifarSettings.of(model="sprint", act="relu"), 50_001, 1)
    (case,) = timed
    assert case.batch == 2000
    assert case.network.build()["conv1"].weight.shape == (2, 2, 3, 24)  # of this variant; CReLU has 12 filters
    assert [column.head for column in table.columns] == ["who", "ms per step", "minutes for 260 steps"]
    assert table.rows == [["ours", 1500, pytest.approx(6.5)], ["PyTorch", 2000, pytest.approx(260 / 30)]]


def test_whitened_filters_are_those_of_the_training_images_and_stay(tmp_path):
    assert speedrun.main([*SMALL, "--variants", "crelu", "--seeds", "1"]) == 0
    (folder,) = (tmp_path / "runs/speedrun").glob("crelu/*")
    s = CifarSettings.from_json(json.loads((folder / "config.json").read_text())["settings"])
    data = textures()
    images = data.train_images[s.chosen_images(len(data.train_images))]
    expected = s.build_model()["conv1"]
    before = expected.weight.data.copy()
    expected.whiten(Normaliser.of(images)(images[:PATCHED]), opposites=False)
    found = load(folder / "checkpoint.npz")[0]["model/conv1.weight"]
    np.testing.assert_array_equal(found, expected.weight.data)
    assert (found != before).any()


def test_nonsense_is_refused(capsys):
    for wrong, message in (
        (["--variants", "relu"], "unknown: relu; choose from plus-minus, crelu"),
        (["--seeds", "0"], "--seeds must be positive"),
        (["--epochs", "0"], "--epochs must be positive"),
    ):
        with pytest.raises((SystemExit, UsageError)) as caught:
            speedrun.main([*SMALL, *wrong])
        assert message in capsys.readouterr().err + str(caught.value)


def test_every_variant_is_explained():
    assert re.findall(r"^  (\S+) {2,}\d* ?\S", speedrun.__doc__.partition("what CReLU does to that:")[2], re.M) == [
        *speedrun.VARIANTS
    ]
