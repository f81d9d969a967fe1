"""The ablation on textures: a table and a file, nothing done twice, errors."""

import csv
import json
import shlex
import shutil
from pathlib import Path

import pytest

from experiments import ablation
from experiments.cli.app import UsageError
from experiments.train.cifar import RECIPES
from experiments.train.variants import Variants
from minicnn.precision import PRECISION
from tests.fast.native.ways import needs_compiler

DOCS = Path(__file__).parents[2] / "docs"
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
    assert "10 trainings: 3 rows, 2 networks, 1 epoch, 100 images held out, 2 seeds" in shown  # ReLU has no such start
    with open(tmp_path / "runs/ablation/trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    errors = {(row["variant"], row["seed"]): float(row["hold_out_error"]) for row in rows}
    (folder,) = (tmp_path / "runs/ablation/no-shifts-relu").glob("*-seed1")
    assert errors["no-shifts relu", "1"] == json.loads((folder / "result.json").read_text())["hold_out_error"]
    settings = json.loads((folder / "config.json").read_text())["settings"]
    assert (settings["recipe"], settings["shift"], settings["act"]) == ("hour", 0, "relu")
    more = [errors["no-shifts relu", seed] - errors["hour relu", seed] for seed in "01"]
    spread = "(2)" if more[0] == pytest.approx(more[1]) else "± "  # so small networks may well differ alike
    (line,) = [line for line in shown.splitlines() if line.startswith("no shifts")]
    assert f"{sum(more) / 2:+.2f} {spread}" in line
    (line,) = [line for line in shown.splitlines() if line.startswith("no looks-linear start")]
    assert line.split()[-2:] == ["-", "-"]
    with open(tmp_path / "runs/ablation/ablation.csv", newline="") as file:
        table = {row["changed"]: row for row in csv.DictReader(file)}
    assert float(table["no shifts"]["ReLU (base), more by"]) == pytest.approx(sum(more) / 2)
    assert table["no looks-linear start"]["ReLU (base), error %"] == ""
    before = (folder / "checkpoint.npz").stat().st_mtime_ns
    assert ablation.main([*SMALL, "--seeds", "2"]) == 0
    assert (folder / "checkpoint.npz").stat().st_mtime_ns == before
    known = shutil.move(tmp_path / "runs/ablation/trainings.csv", tmp_path / "known.csv")
    shutil.rmtree(tmp_path / "runs")
    capsys.readouterr()
    assert ablation.main([*SMALL, "--seeds", "2", "--import", str(known)]) == 0  # on another machine
    assert f"{sum(more) / 2:+.2f} {spread}" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "runs/ablation").iterdir() if path.is_dir()] == []


def test_a_report_shows_what_is_finished_and_compares_by_seeds(tmp_path, capsys):
    """Of the recipe seed 1 is known and of the change both: by seed 1 alone it is 3 more."""
    args = ablation.parser().parse_args([*SMALL, "--seeds", "2"])
    made = {f"{name} relu": ablation.settings(args, "ReLU (base)", name) for name in ("hour", "no-shifts")}
    variants = Variants(made, tmp_path, ("hold_out_error", "seconds"), hold_out=100)
    numbers = {"hour relu": {1: 20.0}, "no-shifts relu": {0: 99.0, 1: 23.0}}
    variants.save(
        {
            name: {s: {"hold_out_error": e, "seconds": 1.0, "machine": "A"} for s, e in own.items()}
            for name, own in numbers.items()
        }
    )
    assert ablation.main([*SMALL, "--seeds", "2", "--report", "--import", str(tmp_path / "trainings.csv")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("no shifts")]
    assert line.split()[-2:] == ["+3.00", "(1)"]
    other = ["--epochs", "2", "--seeds", "2", "--report", "--import", str(tmp_path / "trainings.csv")]
    assert ablation.main([*SMALL, *other]) == 0  # other settings: not these trainings
    assert "+3.00" not in capsys.readouterr().out


@needs_compiler
def test_trainings_with_less_exact_products_are_others(tmp_path, capsys, monkeypatch):
    """They have folders and rows of their own, and are not taken for each other."""
    monkeypatch.setenv(PRECISION, "float32")  # so that it is put back
    small = [*SMALL, "--changes", "hour", "--seeds", "1"]
    assert ablation.main(small) == 0
    assert ablation.main([*small, "--precision", "bf16"]) == 0
    folders = sorted(path.name for path in (tmp_path / "runs/ablation/hour-relu").iterdir())
    assert len(folders) == 2
    assert folders[1] == f"{folders[0]}-bf16"
    known = shutil.copy(tmp_path / "runs/ablation/trainings.csv", tmp_path / "known.csv")
    capsys.readouterr()
    other = ["--report", "--out", "other", "--import", str(known)]
    assert ablation.main([*small, *other, "--precision", "bf16"]) == 0
    assert capsys.readouterr().out.partition("the recipe")[2].split()[1] == "(1)"
    assert ablation.main([*small, *other, "--precision", "float32"]) == 0
    assert capsys.readouterr().out.partition("the recipe")[2].split()[0] == "-"


def test_ideas_are_trainings_of_their_own(tmp_path, capsys):
    """With the settings of the recipe, but in another way, and not taken for it; growing images get more epochs."""
    assert ablation.main([*SMALL, "--subset", "120", "--seeds", "1", "--changes", "average"]) == 0
    (folder,) = (tmp_path / "runs/ablation/average-crelu").iterdir()
    assert folder.name.endswith("-seed0-average")
    with open(tmp_path / "runs/ablation/trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == ["hour crelu", "average crelu", "hour relu", "average relu"]
    assert len({row["settings"] for row in rows}) == 4
    args = ablation.parser().parse_args(["--epochs", "3"])
    assert ablation.settings(args, "CReLU (half)", "growing")[0].epochs == 4


def test_every_change_is_one():
    """Of the settings of at least one network, and of what it says."""
    args = ablation.parser().parse_args([])
    for name in ablation.CHANGES:
        changed = [ablation.settings(args, network, name) for network in ablation.NETWORKS]  # AVR's, too
        usual = [ablation.settings(args, network, "hour") for network in ablation.NETWORKS]
        assert (changed != usual or bool(ablation.CHANGES[name].idea)) == (name != "hour")
        for own in changed:
            own[0].check()


def test_networks_are_chosen_by_their_activation(capsys):
    """A change that is none for them has no row."""
    some = ["--scale", "0.1", "--seeds", "1", "--networks", "avr", "--changes", "he-gain,usual-start"]
    assert ablation.main([*SMALL, *some]) == 0
    shown = capsys.readouterr().out
    assert "2 trainings: 2 rows, 1 network," in shown
    assert "AVR (base), more by" in shown
    assert "He's gain, as for ReLU" in shown
    assert "looks-linear" not in shown
    args = ablation.parser().parse_args([])
    he, own = (ablation.settings(args, "AVR (base)", name)[0] for name in ("he-gain", "hour"))
    assert (he.gain, own.gain) == (2**0.5, 1.0)


def test_the_row_of_sgd_trains_as_the_recipe_short():
    args, short = ablation.parser().parse_args([]), RECIPES["short"]["convpool"]
    for network in ablation.NETWORKS:
        one = ablation.settings(args, network, "sgd")[0]
        assert (one.optimiser, one.momentum, one.lr, one.weight_decay, one.clip) == ("sgd", 0.9, 0.04, 5e-4, 2.0)
        assert one.lr == short.lr
        assert one.shift == 2  # the rest is that of hour


def test_nonsense_is_refused(capsys):
    for wrong, message in (
        (["--changes", "nothing"], "unknown: nothing; choose from hour, sgd"),
        (["--networks", "half"], "unknown: half; choose from crelu, relu, avr"),
        (["--seeds", "0"], "--seeds must be positive"),
        (["--import", "nothing.csv"], "--import: nothing.csv is not a trainings.csv of this command"),
        (["--hold-out", "200"], "cannot hold out 200 of 200 training images"),
    ):
        with pytest.raises((SystemExit, UsageError)) as caught:
            ablation.main([*SMALL, *wrong])
        assert message in capsys.readouterr().err + str(caught.value)


@pytest.mark.parametrize(
    ("file", "products"),
    [("trainings.csv", "float32"), ("bf16-trainings.csv", "bf16"), ("avr-trainings.csv", "float32")],
)
def test_the_command_knows_the_trainings_of_the_documents(file, products):
    """Whoever imports them trains none of them again, whatever settings were added since."""
    args = ablation.parser().parse_args([])
    with open(DOCS / "ablation" / file, newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) >= 6
    for row in rows:
        change, act = row["variant"].split()
        (network,) = [name for name, own in ablation.NETWORKS.items() if own["act"] == act]
        one = ablation.settings(args, network, change)[int(row["seed"])]
        idea = ablation.CHANGES[change].idea
        variants = Variants({}, DOCS, (), args.hold_out, products, {row["variant"]: idea} if idea else {})
        assert variants.fingerprint(row["variant"], one) == row["settings"], row["variant"]
