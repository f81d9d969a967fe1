"""Mistakes on a command line: one line, which names what was probably meant, before anything is computed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import minicnn
from experiments import __main__ as front
from experiments import bench, cifar, demo, evaluate, explore, gpu_check, illustration, photos, predict, search
from experiments.cli.app import program
from experiments.cli.parser import did_you_mean

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--epcohs", "3"], "there is no option --epcohs; did you mean --epochs?"),
        (["--epcohs=3"], "there is no option --epcohs; did you mean --epochs?"),
        (["-resume"], "there is no option --resume; did you mean --resume?"),
        (["epochs"], "unexpected: 'epochs'; did you mean --epochs?"),
        (["--xyzzy"], "there is no option --xyzzy"),
        (["--act", "crellu"], r"argument --act: invalid choice: 'crellu' .*; did you mean crelu\?"),
        (["--epochs", "ten"], "--epochs must be a whole number, got 'ten'"),
        (["--scale", "half"], "--scale must be a number, got 'half'"),
        (["crelu"], "unexpected: 'crelu'; did you mean --act crelu?"),
        (["textures", "--act", "crelu"], "unexpected: 'textures'; did you mean --dataset textures?"),
    ],
)
def test_typos_get_one_line(ends, arguments, line):
    code, said = ends(cifar.main, cifar.MODULE, *arguments)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert re.match(f"error: {line if '.*' in line else re.escape(line)}", said)
    assert said.endswith("(python -m experiments.cifar --help)\n")


def test_only_what_is_close_is_meant():
    assert did_you_mean("--width", ["--width-of-it", "--out"]) == "; did you mean --width-of-it?"
    assert did_you_mean("--zzz", ["--width", "--out"]) == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "file"], "argument --out: file is a file; name a folder"),
        (["--out", "file/below/it"], "/file is a file; name a folder"),
        (["--out", "x" * 5000], "cannot be a folder (File name too long)"),
        (["--data", "nowhere", "--dataset", "cifar10"], "nowhere: there is no such file or folder"),
        (["--subset", "5001"], "--subset must be in 1 .. 5000, got 5001"),
        (["--subset", "100", "--hold-out", "100"], "cannot hold out 100 of 100 training images: lower --hold-out"),
        (["--subset", "5", "--protocol", "folds"], "--folds must be at most the number of training images, 5, got 10"),
    ],
)
def test_mistakes_are_found_before_anything_is_computed(ends, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr(cifar, "announce", lambda *_: pytest.fail("trial steps were taken"))
    code, said = ends(cifar.main, cifar.MODULE, "--dataset", "textures", *arguments)
    assert code in (1, 2)
    assert message in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_who_has_pictures_is_sent_to_the_command_for_them(ends, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, told in (("own/cat/a.JPG", True), ("other/cat/a.txt", False)):
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
        code, said = ends(cifar.main, cifar.MODULE, "--data", Path(name).parts[0])
        assert code == 1
        assert ("\nFor pictures of your own: python -m experiments.imagenet --data own\n" in said) == told


@pytest.mark.parametrize(
    ("command", "option", "result", "message"),
    [
        (explore, "--out", "file/e.html", "file is a file; name a folder"),
        (explore, "--out", ".", ". is a folder; name a file"),
        (illustration, "--out", "file/i.svg", "file is a file; name a folder"),
        (photos, "--out", "file/pictures", "/file is a file; name a folder"),
        (predict, "--out", "file", "file is a file; name a folder"),
        (search, "--out", "file", "file is a file; name a folder"),
        (bench, "--json", "file/b.json", "file is a file; name a folder"),
        (bench, "--tables", "file", "file is a file; name a folder"),
    ],
    ids=lambda value: getattr(value, "MODULE", str(value)),
)
def test_a_result_that_cannot_be_written_is_found_out_before_the_work(
    ends, monkeypatch, tmp_path, command, option, result, message
):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    code, said = ends(command.main, command.MODULE, option, result, *(["picture.png"] if command is predict else []))
    assert code == 2
    assert re.match(f"error: argument {option}: .*{re.escape(message)}", said)


def test_the_demo_does_not_go_on_without_the_data_that_was_named(ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = ends(demo.main, demo.MODULE, "--data", "nowhere")
    assert code == 1
    assert "nowhere: there is no such file or folder" in said


@pytest.fixture
def front_door(monkeypatch, capsys):
    """front_door("minicnn", "--help"): (exit code, stdout, stderr) of `minicnn --help`, run within this process."""

    def run(started_as, *arguments):
        monkeypatch.setattr(sys, "argv", [started_as, *arguments])
        monkeypatch.delitem(sys.modules, "experiments.cifar", raising=False)  # as in a new process
        try:
            front.main()
            code = 0
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_all_commands_are_listed(front_door):
    code, out, _ = front_door("/venv/bin/minicnn")
    assert code == 0
    files = {path.stem for path in (ROOT / "experiments").glob("[!_]*.py")}
    assert set(re.findall(r"^  minicnn (\w+)  +\S", out, re.M)) == files
    assert "  minicnn cifar " in out
    assert "python -m experiments.cifar " in front_door("experiments/__main__.py")[1]


def test_a_command_runs_under_both_names(front_door):
    """It speaks of itself as it was started."""
    for started_as, name in (("/venv/bin/minicnn", "minicnn cifar"), ("__main__.py", "python -m experiments.cifar")):
        code, out, _ = front_door(started_as, "cifar", "--help")
        assert code == 0
        assert out.startswith(f"usage: {name} ")
        assert front_door(started_as, "cifar", "--epcohs", "3")[2].endswith(f"({name} --help)\n")


def test_commands_that_do_not_exist(front_door):
    assert front_door("minicnn", "ciffar") == (2, "", "error: there is no command 'ciffar'; did you mean cifar?\n")
    assert "; choose from ablation, bench, " in front_door("minicnn", "zzz")[2]


def test_versions(front_door):
    for arguments in (["--version"], ["cifar", "--version"]):
        assert front_door("minicnn", *arguments)[:2] == (0, f"minicnn {minicnn.__version__}\n")


def test_python_m_experiments_lists_them_too():
    out = subprocess.run([sys.executable, "-m", "experiments"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "  python -m experiments.cifar " in out.stdout


def test_only_the_commands_have_a_short_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/venv/bin/minicnn"])
    assert program("experiments.cifar") == ["minicnn", "cifar"]
    assert program("exercises.check") == ["python", "-m", "exercises.check"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (gpu_check, "print images per second, and nothing else"),
        (evaluate, "also compute it with ONNX Runtime (onnx) or PyTorch (torch)"),
        (illustration, "This program writes the SVG itself, without a plotting library."),
        (cifar, "sprint: of --model sprint, which has no other"),
    ],
    ids=lambda value: getattr(value, "MODULE", str(value)),
)
def test_help_speaks_plainly(command, words, capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert words in said
    assert "images a second" not in said
