"""The table of a model: counts worked out by hand."""

import numpy as np

from minicnn import nn
from tests.devices import STANDIN


def network():
    return nn.Sequential(
        conv=nn.Conv2d(3, 4, (3, 5), stride=2, pad=1),
        act=nn.CReLU(),
        norm=nn.BatchNorm(8),
        pool=nn.MaxPool2d(3, stride=2, ceil=True),
        block=nn.Sequential(nn.GlobalAvgPool(), nn.Linear(8, 10)),
    )


def test_rows_and_totals():
    table = nn.describe(network(), (9, 9, 3))
    assert [(r.name, r.layer, r.output, r.parameters, r.multiply_adds) for r in table.rows] == [
        ("conv", "Conv2d", (5, 4, 4), 3 * 5 * 3 * 4 + 4, 5 * 4 * 3 * 5 * 3 * 4),
        ("act", "CReLU", (5, 4, 8), 0, 0),
        ("norm", "BatchNorm", (5, 4, 8), 16, 0),
        ("pool", "MaxPool2d", (2, 2, 8), 0, 0),
        ("block.0", "GlobalAvgPool", (8,), 0, 0),
        ("block.1", "Linear", (10,), 90, 80),
    ]
    assert table.parameters == 184 + 16 + 90
    assert table.multiply_adds == 3600 + 80


def test_the_printed_table(capsys):
    table = nn.summary(network(), (9, 9, 3))
    printed = capsys.readouterr().out
    assert printed == f"{table}\n"
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["name", "layer", "kernel", "output", "parameters", "multiply-adds"]
    assert lines[2] == ["input", "9x9x3"]
    assert lines[3] == ["conv", "Conv2d", "3x5x3x4", "/2", "pad", "1", "5x4x4", "184", "3,600"]
    assert lines[6] == ["pool", "MaxPool2d", "k", "3", "stride", "2", "ceil", "2x2x8"]
    assert lines[-1] == ["total", "290", "3,680"]


def test_on_another_device_and_precision():
    model = network().to(STANDIN, dtype=np.float64)
    assert nn.describe(model, (9, 9, 3)) == nn.describe(network(), (9, 9, 3))


def test_a_model_without_parameters():
    assert nn.describe(nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), (2,)).parameters == 0
