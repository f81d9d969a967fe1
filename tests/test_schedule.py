"""Schedules: values worked out by hand."""

import math

import pytest

from minicnn.schedule import Constant, Cosine, Linear, OneCycle, Piecewise, StepDecay, as_schedule, milestones


def test_numbers_are_constant_schedules():
    assert as_schedule(0.1) == Constant(0.1)
    assert as_schedule(1)(10**6) == 1.0
    assert as_schedule(schedule := StepDecay(1.0, 2, 0.5)) is schedule


def test_piecewise():
    """The paper's ImageNet schedule has this form, for the rate and for the decay."""
    schedule = Piecewise((10, 20), (0.1, 0.01, 0.001))
    assert [schedule(s) for s in (0, 9, 10, 19, 20, 1000)] == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    assert Piecewise((), (3.0,))(5) == 3.0


def test_step_decay():
    schedule = StepDecay(1.0, every=25, factor=0.5)
    assert [schedule(s) for s in (0, 24, 25, 50, 99)] == [1, 1, 0.5, 0.25, 0.125]


def test_one_cycle():
    schedule = OneCycle(peak=2.0, total=100, warmup=0.2, start=0.1, end=0.0)
    assert math.isclose(schedule(0), 0.2)
    assert math.isclose(schedule(10), 2 * (0.1 + 1) / 2)
    assert math.isclose(schedule(20), 2.0)
    assert math.isclose(schedule(60), 1.0)
    assert math.isclose(schedule(100), 0.0, abs_tol=1e-12)
    assert schedule(200) == schedule(100)
    values = [schedule(s) for s in range(101)]
    assert max(values) == values[20]
    assert OneCycle(peak=1.0, total=10, warmup=0.0)(0) == 1.0


def test_linear():
    assert [Linear(8.0, 4)(s) for s in (0, 1, 2, 3, 4, 9)] == [8, 6, 4, 2, 0, 0]
    assert [Linear(4.0, 8, warmup=0.375)(s) for s in range(9)] == pytest.approx([1, 2, 3, 4, 3.2, 2.4, 1.6, 0.8, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Piecewise((1, 2), (0.1, 0.2)), "2 boundaries need 3 values, got 2"),
        (lambda: Piecewise((2, 2), (0.1, 0.2, 0.3)), "boundaries must increase"),
        (lambda: StepDecay(1.0, 0, 0.5), "every must be at least 1"),
        (lambda: OneCycle(1.0, 0), "needs total >= 1"),
        (lambda: Linear(1.0, 0), "Linear: needs total >= 1"),
        (lambda: Linear(1.0, 10, warmup=1.0), "0 <= warmup < 1"),
        (lambda: OneCycle(1.0, 10, warmup=1.0), "0 <= warmup < 1"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_milestones_increase_in_the_shortest_runs_too():
    assert milestones(700, (200 / 350, 250 / 350, 300 / 350)) == (400, 500, 600)
    for total in range(1, 12):
        Piecewise(milestones(total, (200 / 350, 250 / 350, 300 / 350)), (4, 3, 2, 1))
    assert milestones(3, (0.5, 0.6, 0.9)) == (2, 3, 4)


def test_cosine_by_hand():
    """Half-way down it is in the middle, at a third of the way at three quarters; it rises by equal steps."""
    falls = Cosine(2.0, total=12, end=1.0)
    assert [falls(step) for step in (0, 4, 6, 12, 100)] == pytest.approx([2, 1.75, 1.5, 1, 1])
    rises = Cosine(3.0, total=10, warmup=2)
    assert [rises(step) for step in (0, 1, 2, 6, 10)] == pytest.approx([1, 2, 3, 1.5, 0])
    for total, warmup in ((0, 0), (5, 5), (5, -1)):
        with pytest.raises(ValueError, match="Cosine: needs"):
            Cosine(1.0, total, warmup=warmup)
