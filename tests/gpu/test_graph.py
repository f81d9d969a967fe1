"""Trainings as CUDA graphs end in the bits of plain ones, whatever happens on the way."""

from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

from minicnn import backend, nn, ops
from minicnn.cuda import CupyCuda
from minicnn.fast import graph
from minicnn.optim import SGD
from minicnn.precision import PRECISION, set_precision
from minicnn.schedule import StepDecay
from minicnn.training import Interrupted, Trainer
from tests.fast.cuda.test_training import OPTIMISERS, source

if problem := backend.gpu_problem():
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)

pytestmark = pytest.mark.gpu

PER_EPOCH = 7  # batches: six of 4 images, one of 2
GRAPHS = 2 * (PER_EPOCH - 1) - graph.WARM_UP  # passes by a graph in two epochs, with the one that is compared


def network():
    """Dropout, batch normalisation, Winograd's algorithm, and a linear layer."""
    return nn.Sequential(
        drop=nn.Dropout(0.3),
        conv=nn.Conv2d(3, 16, 3, pad=1),
        norm=nn.BatchNorm(16),
        act=nn.CReLU(),
        wide=nn.Conv2d(32, 16, 3),
        relu=nn.ReLU(),
        pool=nn.MaxPool2d(2),
        flat=nn.Flatten(),
        out=nn.Linear(144, 5),
    ).initialise(0)


def sgd(parameters):
    lr = StepDecay(0.05, every=3, factor=0.5)
    return SGD(parameters, lr, momentum=0.9, nesterov=True, weight_decay=1e-3, clip=1.0)


def new_trainer(model=None, optimiser=sgd, **options):
    model = network() if model is None else model
    batches = source(4 * PER_EPOCH - 2, 4, 8, 5)
    return Trainer(model, optimiser(model.parameters()), batches, device="gpu", seed=0, **options)


@contextmanager
def launched():
    """Within, a list to which every pass by a graph adds its step."""
    steps, launch = [], graph.Captured.launch

    def noted(captured, x, labels, step, parameters):
        steps.append(step)
        return launch(captured, x, labels, step, parameters)

    with mock.patch.object(graph.Captured, "launch", noted):
        yield steps


def two_epochs(trainer, **options):
    """Its state at the end, and what each epoch reported."""
    totals = [trainer.finish_epoch(**options) for _ in range(2)]
    return trainer.state()[0], totals


@contextmanager
def no_graphs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINICNN_GRAPH", "0")
        yield


def plain(make=new_trainer, train=two_epochs):
    with no_graphs(), launched() as steps:
        result = train(make())
    assert steps == []
    return result


def assert_same_bits(found, expected):
    (arrays, totals), (others, other_totals) = found, expected
    assert totals == other_totals
    assert arrays.keys() == others.keys()
    for name, value in others.items():
        np.testing.assert_array_equal(arrays[name], value, err_msg=name)


@pytest.mark.parametrize("name", ["clipped, decaying", *OPTIMISERS])
def test_the_same_bits_as_plain_passes(name):
    """Every optimiser; the last batch of an epoch is smaller, and done plainly."""
    optimiser = OPTIMISERS.get(name, sgd)
    expected = plain(lambda: new_trainer(optimiser=optimiser))
    with launched() as steps:
        assert_same_bits(two_epochs(new_trainer(optimiser=optimiser)), expected)
    assert steps == [3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert len(steps) == GRAPHS


def test_an_average_of_the_weights():
    def make():
        model = network()
        return new_trainer(model, average=nn.EMA(model, 0.9))

    expected = plain(make)
    with launched() as steps:
        assert_same_bits(two_epochs(make()), expected)
    assert len(steps) == GRAPHS


def test_resumed_by_another_trainer():
    expected = plain()
    first, second = new_trainer(), new_trainer()
    with launched() as steps:
        with pytest.raises(Interrupted):
            first.finish_epoch(stop=lambda: first.step == 5)
        second.restore(*first.state())
        totals = [second.finish_epoch(), second.finish_epoch()]
    assert_same_bits((second.state()[0], totals), expected)
    assert len(steps) == 2 + 3


def gone_back(trainer):
    """One epoch, then back to its third step, with arrays that are others than those of the graph."""
    with pytest.raises(Interrupted):
        trainer.finish_epoch(stop=lambda: trainer.step == 3)
    saved = trainer.state()
    trainer.finish_epoch()
    trainer.restore(*saved)
    return two_epochs(trainer)


def test_back_to_an_earlier_step():
    """A graph of the new arrays is made, after plain passes in turn: those before a smaller batch do not count."""
    expected = plain(train=gone_back)
    with launched() as steps:
        assert_same_bits(gone_back(new_trainer()), expected)
    assert steps == [3, 4, 5, 10, 11, 12]


def changed(change):
    """Trains; after the fifth step somebody changes something."""

    def on_step(trainer):
        if (trainer.epoch, trainer.step) == (0, 5):
            change(trainer)

    return lambda trainer: two_epochs(trainer, on_step=on_step, every=1)


CHANGES = {
    "the rate of dropout": lambda trainer: setattr(trainer.model["drop"], "rate", 0.6),
    "the momentum of batch normalisation": lambda trainer: setattr(trainer.model["norm"], "momentum", 0.5),
    "smoothing": lambda trainer: setattr(trainer, "smoothing", 0.2),
    "a layer": lambda trainer: trainer.model.layers.update(relu=nn.AVR()),
    "a frozen parameter": lambda trainer: trainer.model["wide"].freeze(),
    "weights": lambda trainer: trainer.model.load_state_dict(network().state_dict()),
    "a learning rate": lambda trainer: setattr(trainer.optimiser, "lr", lambda step: 0.001),
    "an earlier step": lambda trainer: setattr(trainer.optimiser, "steps", 1),
    "the precision": lambda trainer: set_precision("bf16"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_on_the_way(name, monkeypatch):
    monkeypatch.setenv(PRECISION, "float32")  # so that it is put back
    train = changed(CHANGES[name])
    expected = plain(train=train)
    set_precision("float32")
    with launched() as steps:
        assert_same_bits(train(new_trainer()), expected)
    assert len(steps) == (GRAPHS if name in ("a learning rate", "an earlier step") else 2 + 3)


def test_gradients_that_somebody_left():
    """A pass adds to them, once; a graph would not."""

    def left(trainer):
        for p in trainer.optimiser.parameters:
            p.grad = p.data.copy()

    train = changed(left)
    expected = plain(train=train)
    with launched() as steps:
        assert_same_bits(train(new_trainer()), expected)
    assert len(steps) == GRAPHS - 1


def test_losses_that_are_kept_are_not_overwritten():
    """They are looked at once, after the last step of an epoch."""
    found = []
    with mock.patch.object(Trainer, "_fetch", lambda trainer, pending: found.append([float(p.loss) for p in pending])):
        new_trainer().finish_epoch()
        with no_graphs():
            new_trainer().finish_epoch()
    assert found[0] == found[1]
    assert len(set(found[0])) == PER_EPOCH


class Counting(nn.Module):
    """Computes something else in every step."""

    def __init__(self):
        self.steps = 0

    def forward(self, x, train, stream):
        self.steps += 1
        return ops.leaky_relu(x, slope=1 / self.steps)


def test_a_layer_of_ones_own_is_not_captured(capsys):
    def make():
        return new_trainer(nn.Sequential(*network().layers.values(), Counting()))

    expected = plain(make)
    with launched() as steps:
        assert_same_bits(two_epochs(make()), expected)
    assert steps == []
    words = "gpu:0: no CUDA graph for this training, each launch by itself: the layer 9 is not one of minicnn.nn\n"
    assert capsys.readouterr().err == words


def fails(cuda, work):
    work()
    raise RuntimeError("it failed")


def wrong_bits(cuda, work, capture=CupyCuda.capture):
    """The graph adds something to the loss."""
    (loss, wrong), captured = capture(cuda, work)

    def launch():
        captured.launch()
        loss[...] += 1

    return (loss, wrong), captured._replace(launch=launch)


def too_late(cuda, work, capture=CupyCuda.capture):
    """Waits for the device within the capture."""
    return capture(cuda, lambda: (work(), cuda.cupy.ones(3).get()))


@pytest.mark.parametrize(
    ("capture", "word"),
    [(fails, "it failed"), (wrong_bits, "it does not give the same bits"), (too_late, "captur")],
)
def test_a_capture_that_fails(capture, word, monkeypatch, capsys):
    expected = plain()
    monkeypatch.setattr(CupyCuda, "capture", capture)
    assert_same_bits(two_epochs(new_trainer()), expected)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gpu:0: no CUDA graph for this training")
    assert word in line


def test_too_little_memory_for_a_graph(monkeypatch, capsys):
    expected = plain()
    monkeypatch.setattr(CupyCuda, "room_for_a_graph", lambda cuda: False)
    assert_same_bits(two_epochs(new_trainer()), expected)
    assert "gpu:0 has too little memory for a second copy" in capsys.readouterr().err
