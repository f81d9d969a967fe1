"""Which models compute the same in every step, and what changes that."""

import pytest

from minicnn import autodiff, models, nn, ops
from minicnn.nn.fixed import problem, snapshot


class Own(nn.Module):
    def forward(self, x, train, stream):
        return x


@pytest.mark.parametrize("model", [models.convpool("crelu", "half"), models.vgg("relu"), models.sprint()])
def test_the_papers_networks_have_no_problem(model):
    assert problem(model) is None
    assert snapshot(model) == snapshot(model)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Own(), "the layer 0.own is not one of minicnn.nn"),
        (nn.Lambda(lambda x: x), "the layer 0.own calls <function <lambda>"),
        (nn.CReLU(abs), "the layer 0.own calls <built-in function abs>"),
    ],
)
def test_code_of_others_is_a_problem(layer, expected):
    assert problem(nn.Sequential(nn.Sequential(own=layer))).startswith(expected)


def test_a_forward_of_ones_own_is_a_problem():
    model = nn.Sequential(nn.ReLU())
    model["0"].forward = lambda x, train, stream: x
    assert "calls <function" in problem(model)


def test_watchers_are_a_problem():
    model, watchers = nn.Sequential(nn.ReLU()), (autodiff.watcher, nn.module.watcher)
    for watcher in watchers:
        token = watcher.set(lambda *arguments: None)
        assert problem(model) == "somebody watches what is computed"
        watcher.reset(token)
    assert problem(model) is None


def rate(model):
    model["drop"].rate = 0.25


def option(model):
    model["pool"].options["k"] = 3


def momentum(model):
    model["norm"].momentum = 0.5


def frozen(model):
    model["conv"].weight.freeze()


def layer(model):
    model.layers["act"] = nn.ReLU()


def appended(model):
    model.layers["last"] = nn.ReLU()


@pytest.mark.parametrize("change", [rate, option, momentum, frozen, layer, appended], ids=lambda f: f.__name__)
def test_changes_show(change):
    layers = {"conv": nn.Conv2d(3, 4, 3), "norm": nn.BatchNorm(4), "act": nn.Activation(ops.avr)}
    model = nn.Sequential(**layers, pool=nn.AvgPool2d(2), drop=nn.Dropout(0.5))
    before = snapshot(model)
    assert snapshot(model) == before
    change(model)
    assert snapshot(model) != before


@pytest.mark.parametrize(("name", "value"), [("MINICNN_CONV", "im2col"), ("MINICNN_PRECISION", "tf32")])
def test_switches_show(monkeypatch, name, value):
    model = nn.Sequential(nn.ReLU())
    before = snapshot(model)
    monkeypatch.setenv(name, value)
    assert snapshot(model) != before
