"""The table of a model: counts worked out by hand."""

import numpy as np
import pytest

from minicnn import Parameter, nn, ops
from minicnn.autodiff import watcher as ops_watched
from minicnn.nn.module import watcher as modules_watched
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


class Block(nn.Module):
    """A layer, a matrix that an op multiplies by, a scale, and a layer whose filters are used behind its back."""

    def __init__(self):
        self.conv = nn.Conv2d(4, 4, 3, pad=1, bias=False)
        self.mix = Parameter(np.ones((4, 5), np.float32))
        self.scale = Parameter(np.ones(1, np.float32))
        self.unseen = nn.Conv2d(4, 4, 1, bias=False)

    def forward(self, x, train, stream):
        y = self.conv(x, train=train, stream=stream) * self.scale + x
        y = ops.conv2d(y, self.unseen.weight)
        return ops.linear(y.mean(axis=(1, 2)), self.mix)


def test_modules_of_ones_own_are_counted():
    """Their layers, their parameters and the work of their ops; within a Sequential, and alone."""
    conv, block = ("conv", "Conv2d", (6, 6, 4), 144, 6 * 6 * 144), ("Block", (5,), 20 + 1 + 16, 6 * 6 * 16 + 20)
    for model, prefix, own in ((Block(), "", ""), (nn.Sequential(first=Block()), "first.", "first")):
        table = nn.describe(model, (6, 6, 4))
        assert [(r.name, r.layer, r.output, r.parameters, r.multiply_adds) for r in table.rows] == [
            (prefix + conv[0], *conv[1:]),
            (own, *block),
        ]
        assert table.parameters == sum(p.data.size for p in model.parameters())


def test_a_layer_that_is_hidden_from_the_model_is_an_error():
    """Its parameters would not be learned."""
    hidden = nn.Linear(2, 3)
    model = nn.Sequential(nn.Linear(2, 2), nn.Lambda(lambda x: hidden(x)))
    with pytest.raises(ValueError, match="a Linear with parameters is called but is no attribute"):
        nn.describe(model, (2,))


def test_after_a_table_nothing_is_watched():
    with pytest.raises(ValueError, match="conv2d"):
        nn.describe(network(), (4, 4, 7, 7))
    nn.describe(network(), (9, 9, 3))
    assert modules_watched.get() is None
    assert ops_watched.get() is None


def test_on_another_device_and_precision():
    model = network().to(STANDIN, dtype=np.float64)
    assert nn.describe(model, (9, 9, 3)) == nn.describe(network(), (9, 9, 3))


def test_a_model_without_parameters():
    assert nn.describe(nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), (2,)).parameters == 0
