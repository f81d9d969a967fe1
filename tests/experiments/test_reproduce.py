"""The whole paper from one command: planning, running, resuming, failing, moving; on tiny networks."""

import importlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from experiments import cifar, photos, reproduce
from experiments.cli.app import UsageError, run_main
from experiments.cli.files import locked
from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES
from experiments.reproduction.steps import PICTURES, Analysis, convpool
from experiments.reproduction.targets import TARGETS, Files, steps_of
from experiments.train.archive import unpack
from experiments.train.settings import asked_settings
from minicnn.checkpoint import load, save
from minicnn.data.dataset import DataError
from minicnn.data.folders import picture_set
from reference.paper import TABLE_1
from tests.experiments.made_runs import CPU, results, tiny, write_run


def run(*arguments, scale=None):
    made = {"tiny": lambda seeds: scale or tiny()}
    return reproduce.main([*arguments, "--scale", "tiny", *CPU], made)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Four runs, a correlation, a report and an export, made by two workers."""
    place = tmp_path_factory.mktemp("reproduced")
    assert (
        run("table1", "table6", "--out", str(place / "out"), "--workers", "2", "--export", str(place / "export")) == 0
    )
    return place


# Plans.


def test_every_table_figure_and_theorem_is_a_target(capsys):
    assert reproduce.main(["--list"]) == 0
    shown = capsys.readouterr().out
    names = [*(f"table{n}" for n in range(1, 7)), "tableS1", *(f"figure{n}" for n in range(1, 6)), "theory", "networks"]
    assert all(re.search(rf"^{name}\b", shown, re.M) for name in [*names, "all"])


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_has_no_step_twice_and_what_a_step_needs_comes_with_it(scale):
    made = SCALES[scale](None)
    for files in (Files(), Files(imagenet=Path("imagenet"), alexnet=Path("alexnet.npz"))):
        steps = steps_of(TARGETS.values(), made, files)
        names = [step.name for step in steps]
        assert len(names) == len(set(names))
        assert {need for step in steps for need in step.needs} <= set(names)


def test_the_cpu_scale_is_five_paired_seeds_of_the_five_models_of_table_1():
    trained = [t.settings for t in SCALES["cpu"](None).table1]
    quarter = [s for s in trained if s.dataset == "cifar10" and s.scale == 0.25]
    wanted = {(row.act, row.width, seed) for row in TABLE_1 if row.dataset == "cifar10" for seed in range(5)}
    assert {(s.act, s.width, s.seed) for s in quarter} == wanted
    hundred = {(s.act, s.width, s.seed) for s in trained if s.dataset == "cifar100"}
    assert hundred == {(*model, seed) for model in (("relu", "base"), ("crelu", "half")) for seed in range(3)}


def test_the_cpu_scale_has_one_pair_at_full_width_which_trains_longer_and_is_analysed():
    scale = SCALES["cpu"](None)
    whole = {t.name for t in scale.table1 if t.settings.scale == 1}
    assert whole == {
        "cifar10-convpool-base-relu-short16-seed0",
        "cifar10-convpool-half-crelu-short16-seed0",
    }
    (pair,) = (pair for pair in scale.pairs if pair.name == "cifar10-seed0")
    assert {pair.relu.name, pair.crelu.name} == whole


def test_the_hours_scale_trains_the_main_pair_first_seed_by_seed_and_then_in_other_ways():
    scale = SCALES["hours"](None)
    by_main = [t.settings for t in scale.table1[:10]]
    first = [(s.act, s.width, s.seed) for s in by_main]
    assert first == [(*model, seed) for seed in range(5) for model in (("crelu", "half"), ("relu", "base"))]
    alone = [t for t in scale.table1 if t.protocol == "plain"]
    assert {(t.settings.recipe, t.settings.epochs, t.settings.scale) for t in alone} == {
        ("hour", 8, 1.0),
        ("short", 16, 1.0),
    }
    by_sgd = [t.settings for t in alone if t.settings.recipe == "short"]
    assert {s.optimiser for s in by_sgd} == {"sgd"}
    assert [(s.act, s.width, s.seed) for s in by_sgd] == [(s.act, s.width, s.seed) for s in by_main[:6]]
    flips = [t for t in alone if t.control]
    assert [(s.act, s.width, s.seed) for s in (t.settings for t in flips)] == [(s.act, s.width, s.seed) for s in by_sgd]
    assert {t.settings for t in flips} == {replace(s, shift=0) for s in by_main[:6]}
    assert all(t.settings.how_trained == "recipe hour with no shifts" for t in flips)
    assert len({(t.settings.recipe, t.settings.epochs, t.settings.scale) for t in scale.table2}) == 1
    voting = [(t.settings.act, t.settings.width) for t in scale.table1 if t.protocol == "folds"]
    assert voting == [("crelu", "half"), ("relu", "base")]


def test_an_interrupted_plan_leaves_pairs_that_are_known_in_full():
    """Analyses come as soon as their networks are trained; controls seed by seed, each beside the main pair."""
    scale = SCALES["hours"](None)
    pictures, *steps = steps_of([TARGETS[name] for name in ("table1", "figure3")], scale, Files())
    names = [step.name for step in steps]
    assert pictures.name == PICTURES
    pair = [training.name for training in scale.table1[:2]]
    assert names[:3] == [*pair, "pairing-cifar10-seed0"]
    assert names[3:6] == [*(training.name for training in scale.table1[2:4]), "pairing-cifar10-seed1"]
    seeds = [step.settings.seed for step in steps_of([TARGETS["controls"]], scale, Files())]
    assert seeds == [0] * 7 + [1] * 7 + [2] * 5 + [3] * 2 + [4] * 2


def test_controls_differ_from_the_main_pair_in_one_thing():
    scale = SCALES["hours"](None)
    main, base, *others, avr, he_gain = [control.trainings[0] for control in scale.controls]
    assert [control.against for control in scale.controls] == ["", *["CReLU (half)"] * 4, "", "AVR (base)"]
    assert {main, base, avr} <= set(scale.table1)
    names = [one.name for one in scale.trainings]
    assert len(names) == len(set(names))  # also where the settings have no place in the name

    def changed(one, other):
        mine, yours = one.settings.as_json(), other.settings.as_json()
        return {key for key in mine if mine[key] != yours[key]}

    assert [changed(one, of) for one, of in zip([*others, he_gain], (base, base, main, avr), strict=True)] == [
        {"scale"},
        {"epochs"},
        {"looks_linear"},
        {"gain"},
    ]
    equal_size = others[0].settings.parameters / main.settings.parameters
    assert equal_size == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seeds", [None, 1, 4])
def test_every_seed_of_the_main_pair_is_analysed(scale, seeds):
    made = SCALES[scale](seeds)
    trained = {t.name for t in made.table1 if t.protocol != "folds" and not t.control}
    main = {name for name in trained if "-base-relu-" in name or "-half-crelu-" in name}
    assert main == {training.name for pair in made.pairs for training in (pair.relu, pair.crelu)}
    assert all(pair.relu.settings.seed == pair.crelu.settings.seed for pair in made.pairs)


def test_the_full_scale_is_the_papers():
    assert not [t.name for t in SCALES["full"](None).table1 if t.settings.reductions]
    assert not [t.name for t in SCALES["full"](None).table4 if t.settings.reductions]
    assert {t.protocol for t in SCALES["full"](None).table1} == {"single", "folds"}


def test_a_run_is_called_as_its_settings_say():
    made = convpool("crelu", "half", scale=0.25)
    assert made.name == "cifar10-convpool-half-crelu-x0.25-short10-seed0"
    assert convpool("relu", "base", "single", recipe="paper").name.endswith("-paper350-seed0-single")


@pytest.mark.parametrize("scale", SCALES)
def test_the_command_of_a_training_stands_for_its_settings(scale):
    """Settings become options where a process begins, and the options become the same settings inside it."""
    for training in SCALES[scale](None).trainings:
        module = importlib.import_module(training.module)
        args = module.parser().parse_args(training.options)
        assert asked_settings(type(training.settings), args) == training.settings
        assert getattr(args, "protocol", "plain") == training.protocol


def test_a_dry_run_writes_nothing_and_says_what_it_would_cost(tmp_path, capsys):
    assert run("all", "--out", str(tmp_path / "new"), "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "textures-convpool-half-crelu-x0.04-short1-seed1" in shown
    assert re.search(r"\d+ of \d+ steps to do, about .* and \d+ MB of disk", shown)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a target: table1"),
        (["table7"], "no target table7; did you mean tableS7?"),
        (["xyz"], "no target xyz; there are table1"),
        (["table1", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["table1", "--seeds", "0"], "--seeds must be at least 1"),
        (["table1", "--seeds", "99999999999999999999"], "--seeds must be at most 1000"),
        (["table1", "--import", "/nowhere"], "--import: there is no folder /nowhere"),
        (["figure1", "--alexnet", "/nowhere.npz"], "--alexnet: there is no file"),
        (["table4", "--imagenet", "/nowhere"], "--imagenet: there is no folder"),
        (["table1", "--data", "cifar10=/nowhere.tar"], "--data: there is no file or folder /nowhere.tar"),
        (["table1", "--dry-run", "--import", "/nowhere"], "--import: there is no folder /nowhere"),
        (["figure1", "--dry-run", "--alexnet", "/nowhere.npz"], "--alexnet: there is no file /nowhere.npz"),
        (["table4", "--dry-run", "--imagenet", "/nowhere"], "--imagenet: there is no folder /nowhere"),
        (["table1", "--dry-run", "--data", "/nowhere"], "--data: there is no file or folder /nowhere"),
        (["tabel1"], "no target tabel1; did you mean table1?"),
        (["fig4", "table1"], "no target fig4; did you mean figure4?"),
        (["table1", "--data", "cifar-100=/nowhere.tar"], "no data set 'cifar-100'; there are cifar10 and cifar100"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
    with pytest.raises(SystemExit) as caught:
        run_main(reproduce.main, "experiments.reproduce")
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert message in said
    assert len(said.splitlines()) == 1


# Running.


def test_everything_is_there_and_the_second_time_nothing_is_left(finished, capsys):
    out = finished / "out"
    assert len(results(out)) == 4
    assert (out / "analyses" / "correlation-tiny-seed0" / "correlation.csv").exists()
    page = (out / "report.html").read_text()
    assert "textures-convpool-half-crelu-x0.04-short1-seed1" in page
    before = results(out)
    assert run("table1", "table6", "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "0 of 5 steps to do" in shown
    assert "nothing was left to do" in shown
    assert results(out) == before


def test_runs_of_experiments_cifar_are_known_and_have_the_same_config(finished, tmp_path, capsys):
    training = tiny().table1[0]
    folder = tmp_path / "out" / "runs" / training.name
    assert cifar.main([*training.options, *CPU, "--out", str(folder)]) == 0
    other = finished / "out" / "runs" / training.name
    configs = [json.loads((place / "config.json").read_text()) for place in (folder, other)]
    for config in configs:
        del config["command"]
    assert configs[0] == configs[1]
    assert results(tmp_path / "out")[training.name] == results(finished / "out")[training.name]
    capsys.readouterr()
    run("table1", "--out", str(tmp_path / "out"), "--dry-run")
    assert re.search(rf"{training.name} +done", capsys.readouterr().out)


def tree_of(archive, place):
    """An export with one folder per run, as a reproduction has them."""
    unpack(archive, place)
    return place


def test_an_export_is_a_few_files_and_stands_for_the_runs(finished, tmp_path, capsys):
    export = finished / "export"
    looked_at = tiny().pairs[0].crelu.name  # by table6, alone
    files = sorted(path.relative_to(export).as_posix() for path in export.rglob("*") if path.is_file())
    assert files == [
        "analyses.json",
        "analyses/correlation-tiny-seed0/correlation.png",
        "analyses/correlation.csv",
        "analyses/cosines.csv",
        "report.html",
        "runs.json",
        "runs/metrics.csv",
        "runs/predictions.npz",
        f"runs/{looked_at}/weights.npz",
        "tables/README.md",
        *(
            f"tables/{name}.csv"
            for name in ("against-the-baseline", "board", "runs", "table-1", "table-6", "what-was-reduced")
        ),
    ]
    assert run("table1", "table6", "tableS1", "--out", str(tmp_path), "--import", str(export)) == 0
    shown = capsys.readouterr().out
    assert len(re.findall(rf" imported +from {re.escape(str(export))}$", shown, re.M)) == 4
    assert "1 of 6 steps to do" in shown  # reconstruction, from exported weights
    assert (tmp_path / "analyses" / "reconstruction-tiny-seed0" / "ratios.csv").exists()
    assert not (tmp_path / "runs").exists()
    pages = [(folder / "report.html").read_text() for folder in (finished / "out", tmp_path, export)]
    for name in ("ReLU (base x0.04)", "CReLU (half x0.04)"):
        rows = [re.findall(rf">{re.escape(name)}</th>.*?</tr>", page, re.S)[0] for page in pages]
        numbers = [re.findall(r"\d+\.\d\d ± \d+\.\d\d", row) for row in rows]
        assert numbers[0] == numbers[1] == numbers[2]
        assert numbers[0]


def test_what_is_in_an_export_is_what_the_runs_have(finished, tmp_path):
    """One folder per run again: the same files, except for this machine's paths in the command."""
    tree = tree_of(finished / "export", tmp_path)
    for training in tiny().table1:
        ours, theirs = (root / "runs" / training.name for root in (finished / "out", tree))
        for name in ("result.json", "metrics.csv"):
            assert (ours / name).read_bytes() == (theirs / name).read_bytes()
        a, b = (json.loads((folder / "config.json").read_text()) for folder in (ours, theirs))
        assert str(finished) in a.pop("command")
        assert b.pop("command").endswith(f"--out runs/{training.name}")
        assert a == b
        result = json.loads((ours / "result.json").read_text())
        arrays, _ = load(theirs / "predictions.npz")
        assert arrays["predicted"].dtype == np.uint8
        assert 100 * np.mean(arrays["predicted"] != arrays["right"]) == pytest.approx(result["test_error"])
    (ours, theirs) = (root / "analyses" / "correlation-tiny-seed0" for root in (finished / "out", tree))
    assert {path.name for path in theirs.iterdir()} == {path.name for path in ours.iterdir()}
    for path in theirs.iterdir():
        assert path.read_bytes() == (ours / path.name).read_bytes()


def test_no_line_of_an_exported_report_is_long_and_its_pictures_are_files(finished):
    page = (finished / "export" / "report.html").read_text()
    assert max(map(len, page.splitlines())) <= 2000
    pictures = [name for name in re.findall(r'<img src="([^"]*)"', page) if not name.startswith("data:image/svg")]
    assert pictures == ["analyses/correlation-tiny-seed0/correlation.png"]
    assert all((finished / "export" / name).exists() for name in pictures)
    assert 'src="data:image/png' in (finished / "out" / "report.html").read_text()  # that one is whole by itself


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.json", "{"),
        ("runs.json", "[]"),
        ("runs.json", '{"../outside/config.json": {}}'),
        ("runs/metrics.csv", "run,epoch\nx\n"),
        ("runs/predictions.npz", "PK"),
        ("analyses.json", "[1]"),
    ],
)
def test_a_damaged_archive_is_named(finished, tmp_path, name, content):
    shutil.copytree(finished / "export", tmp_path / "export")
    (tmp_path / "export" / name).write_text(content)
    with pytest.raises(UsageError, match=f"{re.escape(str(tmp_path / 'export'))}.* is damaged|/{name} is damaged"):
        unpack(tmp_path / "export", tmp_path / "tree")
    assert not (tmp_path / "outside").exists()


def test_an_export_made_again_has_the_new_network(finished, tmp_path):
    """A training was repeated: neither the predictions nor the weights of the old one stay."""
    out, export, training = tmp_path / "out", tmp_path / "export", tiny().pairs[0].crelu
    shutil.copytree(finished / "out", out)
    shutil.copytree(finished / "export", export)
    folder = out / "runs" / training.name
    saved, _ = load(folder / "predictions.npz")
    p = np.random.default_rng(0).random(saved["probabilities"].shape)
    save(folder / "predictions.npz", {"probabilities": p, "labels": saved["labels"]})
    error = 100 * float((p.argmax(axis=1) != saved["labels"]).mean())
    result = json.loads((folder / "result.json").read_text())
    assert error != result["test_error"]
    (folder / "result.json").write_text(json.dumps({**result, "test_error": error}))
    arrays, metadata = load(folder / "checkpoint.npz")
    changed = {name: array + 1 if "weight" in name else array for name, array in arrays.items()}
    save(folder / "checkpoint.npz", changed, metadata)
    old, _ = load(export / "runs" / training.name / "weights.npz")
    assert run("table1", "table6", "--out", str(out), "--no-training", "--export", str(export)) == 0
    tree = tree_of(export, tmp_path / "tree")
    exported = load(tree / "runs" / training.name / "predictions.npz")[0]
    np.testing.assert_array_equal(exported["predicted"], p.argmax(axis=1))
    new, _ = load(export / "runs" / training.name / "weights.npz")
    name = next(name for name in new if "weight" in name)
    np.testing.assert_array_equal(new[name], old[name] + 1)
    assert not list(export.rglob("*previous*"))


def test_an_export_made_again_keeps_nothing_that_is_gone(finished, tmp_path):
    """Weights of a network that has none any more would be those of another one."""
    out, export = tmp_path / "out", tmp_path / "export"
    shutil.copytree(finished / "out", out)
    shutil.copytree(finished / "export", export)
    folder = out / "runs" / tiny().pairs[0].crelu.name
    for path in folder.glob("checkpoint*.npz"):
        path.unlink()
    assert list(export.rglob("weights.npz"))
    assert run("table1", "table6", "--out", str(out), "--report", "--export", str(export)) == 0
    assert not list(export.rglob("weights.npz"))
    assert (export / "runs" / "predictions.npz").exists()


def test_an_export_does_not_go_among_runs(finished, tmp_path):
    for place, words in ((tmp_path / "new", "is where the runs are"), (finished / "out", "is no archive")):
        with pytest.raises(UsageError, match=words):
            run("table1", "--out", str(tmp_path / "new"), "--export", str(place))
    assert not (tmp_path / "new").exists()
    assert not (finished / "out" / "runs.json").exists()


def test_the_report_of_a_reproduction_has_its_commands_as_they_were(finished):
    own, exported = ((finished / name / "report.html").read_text() for name in ("out", "export"))
    assert str(finished / "out") in own
    assert str(finished) not in exported


def test_predictions_of_another_network_are_not_used(finished, tmp_path):
    training = tiny().table1[0]
    for root, place in ((tree_of(finished / "export", tmp_path / "tree"), "an archive"), (tmp_path / "out", "a run")):
        if place == "a run":
            shutil.copytree(finished / "out", root)
        assert Records(root).run(training).predictions() is not None
        path = root / "runs" / training.name / "result.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "test_error": 1.0}))
        assert Records(root).run(training).predictions() is None


def test_runs_of_an_older_version_are_read_and_brought_up_to_date(finished, tmp_path):
    """They saved the outputs in a separate file, without the labels."""
    training = tiny().table1[0]
    shutil.copytree(finished / "out", tmp_path / "out")
    folder = tmp_path / "out" / "runs" / training.name
    saved, _ = load(folder / "predictions.npz")
    (folder / "predictions.npz").unlink()
    np.save(folder / "test_probabilities.npy", saved["probabilities"])
    assert Records(tmp_path / "out").run(training).predictions() is None
    assert cifar.main([*training.options, *CPU, "--out", str(folder)]) == 0  # it is finished: nothing is trained
    again, _ = load(folder / "predictions.npz")
    assert all(np.array_equal(again[name], saved[name]) for name in saved)


def test_an_export_does_not_replace_a_report_by_a_smaller_one(finished, tmp_path):
    shutil.copytree(finished / "export", tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="lacks, so the report there was left unchanged: table-6.csv.*Name their"):
        run("table1", "--report", "--out", str(finished / "out"), "--export", str(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(UsageError, match="would lack: .*table-6.csv.*nothing was done"):  # before anything is trained
        run("table1", "--out", str(tmp_path / "new"), "--export", str(tmp_path))
    assert not (tmp_path / "new").exists()


def test_trainings_on_generated_pictures_are_not_taken_for_others():
    made = SCALES["smoke"](None)
    generated, own = ({t.name for t in scale.table4} for scale in (made, made.with_imagenet()))
    assert generated.isdisjoint(own)
    assert all(name.endswith("-generated") for name in generated)
    assert "table4" not in made.with_imagenet().missing
    steps = steps_of([TARGETS["table4"], TARGETS["figure4"]], made.with_imagenet(), Files(imagenet=Path("imagenet")))
    assert not [step for step in steps if "generated" in step.name or "pictures" in step.needs]


def test_an_analysis_is_made_again_when_its_file_has_changed(tmp_path):
    """Or has another name, which its results are found by: also in an archive, which has no pictures."""

    def looks_at(path):
        steps = steps_of([TARGETS["figure1"]], tiny(), Files(alexnet=path))
        (found,) = (step for step in steps if isinstance(step, Analysis) and step.file)
        return found

    path, root = tmp_path / "alexnet.npz", tmp_path / "out"
    path.write_bytes(b"one")
    step = looks_at(path)
    for name in (*step.makes, "stamp.json"):
        (step.folder(root) / name).parent.mkdir(parents=True, exist_ok=True)
        (step.folder(root) / name).write_text(json.dumps(Records(root).stamp(step)))
    assert Records(root).done(step)
    for picture in root.rglob("*.png"):
        picture.unlink()
    archive = Records(tmp_path / "new", [root])
    assert archive.done(step)
    assert not archive.done(looks_at(Path(shutil.copy(path, tmp_path / "another.npz"))))
    path.write_bytes(b"two")
    assert not archive.done(step)


def test_two_at_once_in_a_folder_are_refused(tmp_path):
    with locked(tmp_path, "reproducing"), pytest.raises(UsageError, match="another process is reproducing in"):
        run("table1", "--out", str(tmp_path))
    assert not (tmp_path / "runs").exists()


def test_an_analysis_is_made_again_when_its_run_has_changed(finished, tmp_path):
    shutil.copytree(finished / "out", tmp_path / "out")
    (step,) = (s for s in steps_of([TARGETS["table6"]], tiny(), Files()) if isinstance(s, Analysis))
    assert Records(tmp_path / "out").done(step)
    path = tmp_path / "out" / "runs" / step.of[0].name / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "test_error": 1.0}))
    assert not Records(tmp_path / "out").done(step)


def test_one_failed_run_does_not_stop_the_others(tmp_path, capsys):
    good, _ = tiny(1).table1
    bad = replace(good, settings=replace(good.settings, act="crelu", width="half", lr=1e30))
    scale = tiny(table1=(bad, good), pairs=())
    assert run("table1", "--out", str(tmp_path), scale=scale) == 1
    shown, said = capsys.readouterr()
    assert f"  {good.name}: epoch 1/1: " in said  # the last line of a step is passed on too
    assert "1 failed, 1 done" in shown
    assert f"FAILED {bad.name}" in shown
    line = re.search(r"^  (python -m experiments.cifar .*--resume.*)$", shown, re.M)[1]
    assert "1e+30" in line
    assert bad.name in line
    assert list(results(tmp_path)) == [good.name]
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", "{half", "is damaged"),
        ("result.json", "[]", "is damaged: it has no results"),
        ("result.json", '{"train_error": 1, "test_error": "<script>"}', "is damaged: test_error is '<script>'"),
        ("result.json", '{"train_error": 1, "test_error": NaN}', "is damaged: test_error is nan"),
        ("config.json", '{"settings": {"act": "relu"}}', "holds a run with other settings"),
        ("config.json", "", "is damaged"),
    ],
)
def test_what_is_damaged_is_named_and_left_alone(tmp_path, name, content, message, capsys):
    scale = tiny(1, pairs=())
    folders = [write_run(tmp_path, training, train=1.0, test=2.0) for training in scale.table1]
    (folders[0] / name).write_text(content)
    assert run("table1", "--out", str(tmp_path), scale=scale) == 1
    shown = capsys.readouterr().out
    assert f"UNUSABLE {folders[0].name}" in shown
    assert message in shown
    assert (folders[0] / name).read_text() == content
    assert run("table1", "--out", str(tmp_path), "--report", scale=scale) == 1
    assert f"UNUSABLE {folders[0].name}" in capsys.readouterr().out
    assert ">1 unusable<" in (tmp_path / "report.html").read_text()


def test_without_training_only_what_is_trained_is_analysed(finished, tmp_path, capsys):
    """The first of two pairs is trained: its analysis is done, the second's is left out along with its trainings."""
    out = finished / "out"
    shutil.copytree(out / "runs", tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs" / tiny().table1[-1].name)
    assert run("table1", "table6", "--out", str(tmp_path), "--no-training", scale=tiny(analysed=2)) == 0
    assert [path.name for path in (tmp_path / "analyses").iterdir()] == ["correlation-tiny-seed0"]
    assert not (tmp_path / "runs" / tiny().table1[-1].name).exists()
    assert "1 of 4 steps to do" in capsys.readouterr().out


def test_an_export_has_the_weights_of_one_seed_and_no_large_files(finished, tmp_path):
    """Two seeds are analysed; a file of 200 kB is exported, a larger one is not."""
    out, export, scale = tmp_path / "out", tmp_path / "export", tiny(analysed=2)
    shutil.copytree(finished / "out", out)
    for size in (200_000, 200_001):
        (out / "analyses" / "correlation-tiny-seed0" / f"{size}.png").write_bytes(bytes(size))
    assert run("table1", "table6", "--out", str(out), "--no-training", "--export", str(export), scale=scale) == 0
    assert [path.parent.name for path in export.rglob("weights.npz")] == [scale.pairs[0].crelu.name]
    assert [path.name for path in export.rglob("20000*.png")] == ["200000.png"]
    assert {path.parent.name for path in export.rglob("*.png")} == {"correlation-tiny-seed0"}  # none of seed 1


def test_a_run_without_weights_blocks_its_analyses(tmp_path, capsys):
    scale = tiny(1)
    for training in scale.table1:
        write_run(tmp_path, training, train=1.0, test=2.0)
    assert run("table6", "--out", str(tmp_path), scale=scale) == 0
    assert f"BLOCKED correlation-tiny-seed0: needs the weights of {scale.table1[1].name}" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["reproduce", "networks", "--out", "/dev/full/out"])
    with pytest.raises(SystemExit) as caught:
        run_main(reproduce.main, "experiments.reproduce")
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: argument --out: /dev/full is a file; name a folder")


def test_photographs_are_generated_once(tmp_path):
    photos.main(["--out", str(tmp_path / "pictures"), "--train", "40", "--validation", "20"])
    made = picture_set(tmp_path / "pictures", None)
    assert (len(made.classes), len(made.train), len(made.validation)) == (10, 40, 20)
    with pytest.raises(UsageError, match="already exists"):
        photos.main(["--out", str(tmp_path / "pictures")])


def test_pieces_of_photographs(tmp_path):
    """Left parts are red and right parts blue: no training piece reaches into what validation judges by."""
    for name, height in (("cat", 60), ("coffee", 90)):
        pixels = np.zeros((height, 100, 3), np.uint8)
        pixels[:, :70, 0] = pixels[:, 70:, 2] = 255
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    files = [str(tmp_path / name) for name in ("cat.png", "coffee.png")]
    photos.main(["--out", str(tmp_path / "pieces"), "--of", *files, "--train", "9", "--validation", "4"])
    made = picture_set(tmp_path / "pieces", None)
    assert made.classes == ("cat", "coffee")
    assert (len(made.train), len(made.validation)) == (9, 4)
    for part, channel in (("train", 0), ("val", 2)):
        for path in (tmp_path / "pieces" / part).rglob("*.JPEG"):
            with Image.open(path) as piece:
                assert piece.width == piece.height >= 15
                assert np.asarray(piece).mean((0, 1)).argmax() == channel
                assert np.asarray(piece)[..., 2 - channel].max() < 40
    Image.new("RGB", (3, 500)).save(tmp_path / "thin.png")
    with pytest.raises(DataError, match=r"thin.png: too small to cut .*\nname another file"):
        photos.main(["--out", str(tmp_path / "more"), "--of", files[0], str(tmp_path / "thin.png")])
    for of, words in (([files[0]], "two photographs"), ([files[0]] * 2, "2 files called cat")):
        with pytest.raises(UsageError, match=words):
            photos.main(["--out", str(tmp_path / "more"), "--of", *of])
    with pytest.raises(UsageError, match="at least 2"):
        photos.main(["--out", str(tmp_path / "more"), "--of", *files, "--train", "1"])
    assert not (tmp_path / "more").exists()


def test_the_list_counts_in_plain_english(capsys):
    assert run("--list") == 0
    assert re.search(r"^theory +1 analysis +every theorem", capsys.readouterr().out, re.M)
