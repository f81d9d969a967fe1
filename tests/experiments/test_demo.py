"""The demo on textures, small."""

import json
import shlex
import sys
from unittest import mock

import pytest

from experiments import demo
from experiments.cli.app import StopSignal, UsageError
from minicnn.data.dataset import DataError
from minicnn.training import Interrupted

SMALL = shlex.split("--subset 64 --epochs 1 --scale 0.03 --device cpu")


def test_the_demo_runs_and_runs_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert demo.main([*SMALL, "--dataset", "textures"]) == 0
        out = capsys.readouterr().out
        assert "ReLU baseline" in out
        assert "CReLU (half)" in out
        assert "prove nothing" in out
    for name in ("curves.png", "predictions.png"):
        assert (tmp_path / "runs" / "demo" / name).read_bytes().startswith(b"\x89PNG")


def test_the_demo_trains_by_the_best_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert demo.main([*SMALL, "--dataset", "textures"]) == 0
    found = [json.loads(path.read_text())["settings"] for path in sorted(tmp_path.glob("runs/demo/*/config.json"))]
    assert {(s["act"], s["width"]) for s in found} == {("relu", "base"), ("crelu", "half")}
    assert {(s["recipe"], s["optimiser"]) for s in found} == {("hour", "muon")}


def test_offline_it_says_so_and_goes_on_with_textures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINICNN_DATA", str(tmp_path / "empty"))
    offline = mock.Mock(side_effect=DataError("no connection"))
    monkeypatch.setattr("minicnn.data.cifar.fetch", offline)
    assert demo.main(SMALL) == 0
    assert offline.called
    out = capsys.readouterr().out
    assert "CIFAR-10 is not available here" in out
    assert "Textures prove nothing" in out


def test_without_matplotlib_there_are_no_pictures_but_all_else(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert demo.main([*SMALL, "--dataset", "textures"]) == 0
    captured = capsys.readouterr()
    assert "no curves.png: matplotlib is not installed" in captured.err
    assert "CReLU (half)" in captured.out


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StopSignal, "__enter__", lambda self: lambda: True)
    monkeypatch.setattr(StopSignal, "__exit__", lambda *_: None)
    with pytest.raises(Interrupted):
        demo.main([*SMALL, "--dataset", "textures"])
    assert "To continue:\n\n  python -m experiments.demo --subset 64 " in capsys.readouterr().err
    assert list((tmp_path / "runs" / "demo").glob("*/checkpoint.npz"))


@pytest.mark.parametrize("nonsense", [["--epochs", "0"], ["--subset", "-1"], ["--scale", "nan"], ["--scale", "inf"]])
def test_nonsense_is_refused(tmp_path, monkeypatch, nonsense):
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--dry-run"]):
        with pytest.raises(UsageError, match=nonsense[0]):
            demo.main([*nonsense, *more])
    assert not list(tmp_path.iterdir())
