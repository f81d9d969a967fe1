"""The progress of a computation: bars on a terminal, lines elsewhere."""

import sys
from types import SimpleNamespace

import pytest

from experiments.cli import progress as module
from experiments.cli.progress import EpochBar, Progress
from minicnn.training import Totals


def test_progress_on_a_terminal_and_elsewhere(monkeypatch, capsys):
    with Progress(2, "work") as progress:
        progress(2)
    assert capsys.readouterr().err == "work: 2/2 images\n"
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    with Progress(10, "work") as progress:
        now = 30.0
        progress(3)
    assert capsys.readouterr().err == "work: 3/10 images, 1 min 10 s left\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress(2, "work") as progress:
        progress(1)
    assert "work" in capsys.readouterr().err


class Batches(list):
    batch = 4


@pytest.fixture
def trainer():
    """A trainer in the second epoch of ten batches; it got 5 of 20 images wrong."""
    return SimpleNamespace(epoch=1, step=0, batches=Batches(range(10)), totals=Totals(loss=10.0, wrong=5, images=20))


ROW = {"epoch": 2, "train_loss": 0.5, "train_error": 25.0, "lr": 0.01}


def test_an_epoch_says_how_it_goes_once_a_minute(trainer, monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    with EpochBar(trainer, last=5) as bar:
        trainer.step, now = 3, 59.0
        bar.update(trainer)
        assert capsys.readouterr().err == ""
        trainer.step, now = 5, 100.0  # 20 images in 100 s; 35 steps of 4 images are left
        bar.update(trainer)
        assert capsys.readouterr().err == (
            "epoch 2/5, step 5/10: loss 0.500, error 25.0 %, 0 images/s, 11 min 40 s left\n"
        )
        now = 200.0
        bar.close(ROW, ", hold-out error 30.00 %")
    assert capsys.readouterr().err == (
        "epoch 2/5: loss 0.5000, train error 25.00 %, hold-out error 30.00 %, lr 0.01, 3 min 20 s\n"
    )


def test_an_epoch_is_a_bar_on_a_terminal_and_a_line_remains(trainer, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with EpochBar(trainer, last=5) as bar:
        trainer.step = 5
        bar.update(trainer)
        bar.close(ROW)
    said = capsys.readouterr().err
    assert "epoch 2/5:" in said
    assert "5/10" in said
    assert "loss 0.5000, train error 25.00 %, lr 0.01" in said
