"""The demo on textures, small."""

import sys

import pytest

from experiments import demo
from experiments.common import StopSignal, UsageError, duration


def test_the_demo_runs_and_runs_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["--dataset", "textures", "--subset", "64", "--epochs", "1", "--scale", "0.03", "--device", "cpu"]
    for _ in range(2):
        assert demo.main(arguments) == 0
        out = capsys.readouterr().out
        assert "ReLU baseline" in out
        assert "CReLU (half)" in out
        assert "prove nothing" in out
    for name in ("curves.png", "predictions.png"):
        assert (tmp_path / "runs" / "demo" / name).read_bytes().startswith(b"\x89PNG")


def test_offline_it_says_so_and_goes_on_with_textures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    arguments = ["--data", "empty", "--subset", "64", "--epochs", "1", "--scale", "0.03", "--device", "cpu"]
    assert demo.main(arguments) == 0
    out = capsys.readouterr().out
    assert "CIFAR-10 is not to be had here" in out
    assert "Textures prove nothing" in out


def test_without_matplotlib_there_are_no_pictures_but_all_else(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = ["--dataset", "textures", "--subset", "32", "--epochs", "1", "--scale", "0.03", "--device", "cpu"]
    assert demo.main(arguments) == 0
    captured = capsys.readouterr()
    assert "no curves.png: matplotlib is not installed" in captured.err
    assert "CReLU (half)" in captured.out


def test_durations():
    assert [duration(s) for s in (45, 200, 3720)] == ["45 s", "3 min 20 s", "1 h 02 min"]


def test_the_second_ctrl_c_stops_at_once(capsys):
    import signal

    with StopSignal() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert "stopping after this step" in capsys.readouterr().err


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StopSignal, "__enter__", lambda self: lambda: True)
    monkeypatch.setattr(StopSignal, "__exit__", lambda *_: None)
    arguments = ["--dataset", "textures", "--subset", "64", "--epochs", "1", "--scale", "0.03", "--device", "cpu"]
    assert demo.main(arguments) == 130
    assert "To go on:\n\n  python -m experiments.demo --dataset textures" in capsys.readouterr().err
    assert list((tmp_path / "runs" / "demo").glob("*/checkpoint.npz"))


@pytest.mark.parametrize("nonsense", [["--epochs", "0"], ["--subset", "-1"], ["--scale", "nan"], ["--scale", "inf"]])
def test_nonsense_is_refused(tmp_path, monkeypatch, nonsense):
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--dry-run"]):
        with pytest.raises(UsageError, match=nonsense[0]):
            demo.main([*nonsense, *more])
    assert not list(tmp_path.iterdir())
