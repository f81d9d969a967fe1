"""The ablation on textures: a table and a file, nothing done twice, errors."""

import csv
import json
import shlex

import pytest

from experiments import ablation
from experiments.cli.app import UsageError

SMALL = shlex.split(
    "--dataset textures --scale 0.03 --subset 200 --hold-out 100 --epochs 1 --device cpu "
    "--changes usual-start,no-shifts"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_table_and_file(tmp_path, capsys):
    assert ablation.main([*SMALL, "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    assert "10 trainings: 3 rows, 2 networks, 1 epochs, 100 images held out, 2 seeds" in shown  # ReLU has no such start
    with open(tmp_path / "runs/ablation/trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    errors = {(row["network"], row["change"], row["seed"]): float(row["hold_out_error"]) for row in rows}
    (folder,) = (tmp_path / "runs/ablation/no-shifts-relu").glob("*-seed1")
    assert errors["ReLU (base)", "no-shifts", "1"] == json.loads((folder / "result.json").read_text())["hold_out_error"]
    settings = json.loads((folder / "config.json").read_text())["settings"]
    assert (settings["recipe"], settings["shift"], settings["act"]) == ("hour", 0, "relu")
    more = [errors["ReLU (base)", "no-shifts", seed] - errors["ReLU (base)", "hour", seed] for seed in "01"]
    (line,) = [line for line in shown.splitlines() if line.startswith("no shifts")]
    assert f"{sum(more) / 2:+.2f} ± " in line
    (line,) = [line for line in shown.splitlines() if line.startswith("no looks-linear start")]
    assert line.split()[-2:] == ["-", "-"]
    with open(tmp_path / "runs/ablation/ablation.csv", newline="") as file:
        table = {row["changed"]: row for row in csv.DictReader(file)}
    assert float(table["no shifts"]["ReLU (base), more by"]) == pytest.approx(sum(more) / 2)
    assert table["no looks-linear start"]["ReLU (base), error %"] == ""
    before = (folder / "checkpoint.npz").stat().st_mtime_ns
    assert ablation.main([*SMALL, "--seeds", "2"]) == 0
    assert (folder / "checkpoint.npz").stat().st_mtime_ns == before


def test_every_change_is_one():
    """Of the settings of at least one network, and of what it says."""
    args = ablation.parser().parse_args([])
    for name in ablation.CHANGES:
        changed = [ablation.settings(args, network, name) for network in ablation.NETWORKS]
        usual = [ablation.settings(args, network, "hour") for network in ablation.NETWORKS]
        assert (changed != usual) == (name != "hour")
        for own in changed:
            own[0].check()


def test_nonsense_is_refused(capsys):
    for wrong, message in (
        (["--changes", "nothing"], "unknown: nothing; choose from hour, sgd"),
        (["--seeds", "0"], "--seeds must be positive"),
        (["--hold-out", "200"], "cannot hold out 200 of 200 training images"),
    ):
        with pytest.raises((SystemExit, UsageError)) as caught:
            ablation.main([*SMALL, *wrong])
        assert message in capsys.readouterr().err + str(caught.value)
