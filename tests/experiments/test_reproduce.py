"""The whole paper from one command: planning, running, resuming, failing, moving; on tiny networks."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments import cifar, reproduce
from experiments.common import UsageError, run_main
from experiments.reproduction import photos
from experiments.reproduction.commands import resources
from experiments.reproduction.execute import Executor
from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES, convpool
from experiments.reproduction.steps import Step, training_step
from experiments.reproduction.targets import TARGETS, Files, steps_of
from minicnn.checkpoint import load
from minicnn.data.folders import picture_set
from reference.paper import TABLE_1
from tests.experiments.made_runs import tiny, write_run
from tests.ranks import mpiexec, needs_mpi

ROOT = Path(__file__).parents[2]
CPU = ["--device", "cpu"]


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


def results(root):
    """What must not depend on how often it was interrupted."""
    found = {}
    for path in sorted((root / "runs").glob("*/result.json")):
        values = {k: v for k, v in json.loads(path.read_text()).items() if k != "seconds"}
        arrays, _ = load(path.with_name("checkpoint.npz"))
        found[path.parent.name] = (values, {name: a.tobytes() for name, a in arrays.items()})
    return found


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
    (pair,) = (pair for pair in scale.pairs if pair.name == "cifar10")
    assert {pair.relu.name, pair.crelu.name} == whole


def test_the_full_scale_is_the_papers():
    assert not [t.name for t in SCALES["full"](None).table1 if t.settings.reductions]
    assert not [t.name for t in SCALES["full"](None).table4 if t.settings.reductions]
    assert {t.protocol for t in SCALES["full"](None).table1} == {"single", "folds"}


def test_a_run_is_called_as_its_settings_say():
    made = convpool("crelu", "half", "--scale", "0.25", "--seed", "0")
    assert made.name == "cifar10-convpool-half-crelu-x0.25-short10-seed0"
    assert convpool("relu", "base", "--recipe", "paper", "--protocol", "single").name.endswith("-paper350-seed0-single")


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
        (["table7"], "no target table7; there are table1"),
        (["table1", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["table1", "--seeds", "0"], "--seeds must be at least 1"),
        (["table1", "--import", "/nowhere"], "--import: there is no folder /nowhere"),
        (["figure1", "--alexnet", "/nowhere.npz"], "--alexnet: there is no file"),
        (["table4", "--imagenet", "/nowhere"], "--imagenet: there is no folder"),
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
    assert (out / "analyses" / "correlation-tiny" / "correlation.csv").exists()
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


def test_an_export_is_small_and_stands_for_the_runs(finished, tmp_path, capsys):
    export = finished / "export"
    files = sorted(path.name for path in (export / "runs" / tiny().table1[0].name).iterdir())
    assert files == ["config.json", "metrics.csv", "predictions.npz", "result.json", "weights.npz"]
    assert run("table1", "table6", "tableS1", "--out", str(tmp_path), "--import", str(export)) == 0
    shown = capsys.readouterr().out
    assert len(re.findall(rf" imported +from {re.escape(str(export))}$", shown, re.M)) == 4
    assert "1 of 6 steps to do" in shown  # reconstruction, from exported weights
    assert (tmp_path / "analyses" / "reconstruction-tiny" / "ratios.csv").exists()
    assert not (tmp_path / "runs").exists()
    pages = [(folder / "report.html").read_text() for folder in (finished / "out", tmp_path)]
    for name in ("ReLU (base x0.04)", "CReLU (half x0.04)"):
        rows = [re.findall(rf">{re.escape(name)}</th>.*?</tr>", page)[0] for page in pages]
        numbers = [re.findall(r"\d+\.\d\d ± \d+\.\d\d", row) for row in rows]
        assert numbers[0] == numbers[1]
        assert numbers[0]


def test_predictions_of_an_export_are_those_of_the_run(finished):
    name = tiny().table1[1].name
    arrays, _ = load(finished / "export" / "runs" / name / "predictions.npz")
    result = json.loads((finished / "out" / "runs" / name / "result.json").read_text())
    assert arrays["predicted"].dtype == np.uint8
    assert 100 * np.mean(arrays["predicted"] != arrays["right"]) == pytest.approx(result["test_error"])


def test_an_analysis_is_made_again_when_its_run_has_changed(finished, tmp_path):
    shutil.copytree(finished / "out", tmp_path / "out")
    (step,) = (s for s in steps_of([TARGETS["table6"]], tiny(), Files()) if s.makes)
    assert Records([tmp_path / "out"]).done(step)
    path = tmp_path / "out" / "runs" / step.of[0].name / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "test_error": 1.0}))
    assert not Records([tmp_path / "out"]).done(step)


def test_one_failed_run_does_not_stop_the_others(tmp_path, capsys):
    good, _ = tiny(1).table1
    bad = convpool("crelu", "half", *good.options[2:], "--lr", "1e30")
    scale = tiny(table1=(bad, good), pairs=())
    assert run("table1", "--out", str(tmp_path), scale=scale) == 1
    shown, said = capsys.readouterr()
    assert f"  {good.name}: epoch 1/1: " in said  # the last line of a step is passed on too
    assert "1 failed, 1 done" in shown
    assert f"FAILED {bad.name}" in shown
    line = re.search(r"^  (python -m experiments.cifar .*--resume.*)$", shown, re.M)[1]
    assert "1e30" in line
    assert bad.name in line
    assert list(results(tmp_path)) == [good.name]
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", "{half", "is damaged"),
        ("result.json", "[]", "is damaged: no results in it"),
        ("result.json", '{"train_error": 1, "test_error": "<script>"}', "is damaged: test_error is '<script>'"),
        ("result.json", '{"train_error": 1, "test_error": NaN}', "is damaged: test_error is nan"),
        ("config.json", '{"settings": {"act": "relu"}}', "holds a run of other settings"),
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


def test_a_run_without_weights_blocks_its_analyses(tmp_path, capsys):
    scale = tiny(1)
    for training in scale.table1:
        write_run(tmp_path, training, train=1.0, test=2.0)
    assert run("table6", "--out", str(tmp_path), scale=scale) == 0
    assert f"BLOCKED correlation-tiny: needs the weights of {scale.table1[1].name}" in capsys.readouterr().out


# Interruptions.


def start(out, *options):
    """made_runs.py is experiments.reproduce with a tiny scale."""
    line = [sys.executable, "-m", "tests.experiments.made_runs", *table1(out), *options]
    return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def table1(out):
    return ["table1", "--scale", "tiny", "--out", str(out), *CPU]


def complete(out, *options):
    process = start(out, *options)
    said, _ = process.communicate()
    assert process.returncode == 0, said


def wait_for(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    complete(out)
    return results(out)


def test_killed_and_started_again_it_ends_in_the_same_bits(tmp_path, uninterrupted):
    """kill -9, at the first checkpoint and in the middle of the second run; what it had started ends too."""
    for count in (1, 2):
        process = start(tmp_path)
        wait_for(lambda count=count: len(list(tmp_path.glob("runs/*/checkpoint.npz"))) >= count)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_for(lambda: not _children(tmp_path))
    complete(tmp_path)
    assert results(tmp_path) == uninterrupted


def _children(out):
    """Processes that train below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"experiments.reproduction.child" in line and os.fsencode(str(out)) in line:
            found.append(path.parent.name)
    return found


def test_ctrl_c_saves_all_workers_and_says_how_to_go_on(tmp_path, uninterrupted):
    process = start(tmp_path, "--workers", "2")
    wait_for(lambda: len(list(tmp_path.glob("runs/*/checkpoint.npz"))) >= 1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "interrupted; to go on:" in said
    assert f"python -m experiments.reproduce table1 --scale tiny --out {tmp_path}" in said
    assert "Traceback" not in said
    assert not _children(tmp_path)
    complete(tmp_path)
    assert results(tmp_path) == uninterrupted


@needs_mpi
def test_a_pool_of_ranks_ends_in_the_same_bits(tmp_path, uninterrupted):
    out = mpiexec(
        3, "mpi4py.futures", "-m", "tests.experiments.made_runs", *table1(tmp_path), "--workers", "mpi", cwd=ROOT
    )
    assert out.returncode == 0, out.stderr
    assert "2 done" in out.stdout
    assert results(tmp_path) == uninterrupted


def test_a_pool_of_ranks_must_be_started(capsys):
    with pytest.raises(UsageError, match="mpiexec -n 5 python -m mpi4py.futures -m experiments.reproduce"):
        run("table1", "--workers", "mpi")


def test_every_worker_has_its_gpu_and_its_share_of_the_cores(monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.reproduction.commands.gpu_problem", lambda i: None if i < 2 else "no such card")
    monkeypatch.setattr("experiments.reproduction.commands.threads", lambda: 8)
    made = resources("auto", 3, {"cifar100": Path("c.tar")}, Files())
    assert made.devices == ("gpu:0", "gpu:1")
    assert made.environment()["MINICNN_THREADS"] == "2"
    step = training_step(convpool("relu", "base", "--dataset", "cifar100"))
    lines = [" ".join(made.arguments(step, Records([tmp_path]), slot)) for slot in range(3)]
    assert [re.search(r"--device (\S+)", line)[1] for line in lines] == ["gpu:0", "gpu:1", "gpu:0"]
    assert "--data c.tar --resume" in lines[0]
    assert resources("cpu", 3, {}, Files()).devices == ("cpu",)


def test_a_full_disk_is_the_failure_of_a_step(tmp_path):
    (tmp_path / "logs").mkdir()
    training = tiny().table1[0]
    (tmp_path / "logs" / f"{training.name}.out").symlink_to("/dev/full")
    executor = Executor(Records([tmp_path]), resources("cpu", 1, {}, Files()), 1, lambda: False)
    (outcome,) = executor.run([training_step(training)])
    assert outcome.how == "failed"
    assert "No space left on device" in outcome.why


def test_a_stamp_that_cannot_be_written_is_the_failure_of_a_step(tmp_path, monkeypatch):
    def full(path, value):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("experiments.reproduction.execute.write_json", full)
    step = Step("made", photos.MODULE, ("--train", "3", "--validation", "2"), makes=("train",))
    executor = Executor(Records([tmp_path]), resources("cpu", 1, {}, Files()), 1, lambda: False)
    (outcome,) = executor.run([step])
    assert outcome.how == "failed"
    assert "No space left on device" in outcome.why


def test_a_folder_that_cannot_be_made_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["reproduce", "networks", "--out", "/dev/full/out"])
    with pytest.raises(SystemExit) as caught:
        run_main(reproduce.main, "experiments.reproduce")
    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_photographs_are_generated_once(tmp_path):
    photos.main(["--out", str(tmp_path / "pictures"), "--train", "40", "--validation", "20"])
    made = picture_set(tmp_path / "pictures", None)
    assert (len(made.classes), len(made.train), len(made.validation)) == (10, 40, 20)
    with pytest.raises(UsageError, match="is there already"):
        photos.main(["--out", str(tmp_path / "pictures")])
