"""What a run will cost: the time of a warm step, found quickly, and memory as counted by hand."""

from types import SimpleNamespace

import pytest

from experiments.train import estimate as estimating
from experiments.train.estimate import estimate, memory, seconds_per_image
from minicnn import nn
from minicnn.backend import CPU
from minicnn.nn.summary import Row, Summary

SMALL = Summary((Row("0", "Flatten", "", (12,), 0, 0), Row("1", "Linear", "", (2,), 26, 24)), (2, 2, 3))


class Network:
    """Settings of a network whose steps take given seconds of its own clock; `batches` are those it has seen."""

    def __init__(self, batch, steps):
        self.batch, self.steps, self.batches, self.now = batch, iter(steps), [], 0.0

    def build_model(self):
        return nn.Sequential(nn.Lambda(self.work), nn.Flatten(), nn.Linear(12, 2))

    def work(self, x):
        self.batches.append(len(x))
        self.now += next(self.steps)
        return x


@pytest.fixture
def network(monkeypatch):
    def make(batch, *steps):
        made = Network(batch, steps)
        monkeypatch.setattr(estimating, "time", SimpleNamespace(perf_counter=lambda: made.now))
        return made

    return make


def test_the_quickest_step_counts_and_the_cold_one_does_not(network):
    assert seconds_per_image(network(4, 0.6, 0.25, 0.2), SMALL, CPU) == pytest.approx(0.2 / 4)
    assert seconds_per_image(network(4, 0.6, 0.2, 0.25), SMALL, CPU) == pytest.approx(0.2 / 4)


def test_of_slow_steps_there_are_two(network):
    slow = network(4, 7.0, 3.0)
    assert seconds_per_image(slow, SMALL, CPU) == pytest.approx(3 / 4)
    assert len(slow.batches) == 2


@pytest.mark.parametrize(
    ("batch", "ranks", "multiply_adds", "images"),
    [
        (30, 1, 24, 30),  # as in training
        (30, 4, 24, 8),  # the largest share of a rank
        (1000, 1, 24, 128),
        (64, 1, 10**9, 20),  # a large network
        (64, 1, 10**12, 2),
        (1, 1, 24, 2),
    ],
)
def test_a_trial_step_is_as_large_as_it_can_be(batch, ranks, multiply_adds, images, network):
    made = network(batch, 1, 1, 1)
    summary = Summary((Row("1", "Linear", "", (2,), 26, multiply_adds),), (2, 2, 3))
    assert seconds_per_image(made, summary, CPU, ranks) == pytest.approx(1 / images)
    assert set(made.batches) == {images}


def test_memory_is_outputs_and_four_copies_of_the_parameters():
    assert memory(SMALL, 10) == 4 * (10 * (12 + 2) + 4 * 26)


def test_the_lines_that_are_printed(network):
    lines = estimate(network(10, 0.5, 0.5, 0.5), SMALL, CPU, images=6_000, ranks=2).splitlines()
    assert lines[0] == "memory  about 0 MiB for batches of 5, plus the data"
    assert lines[1].startswith("time    about 5 min 00 s (6,000 images, 0.0 TFLOP)")  # 6000 * 0.5 / 5 / 2
