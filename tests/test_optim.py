"""Optimisers: steps worked out by hand, states that restore exactly, errors."""

import math

import numpy as np
import pytest

from minicnn import Parameter, Tape, nn, ops
from minicnn.optim import SGD, Adam, Muon, Together, grad_norm
from minicnn.schedule import Piecewise
from tests.devices import on_devices

VARIANTS = {
    "plain": lambda ps: SGD(ps, lr=0.1),
    "momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda ps: SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "torch7": lambda ps: SGD(ps, lr=1.0, momentum=0.9, dampening=0.9, weight_decay=5e-4),
    "clipped": lambda ps: SGD(ps, lr=0.1, momentum=0.9, clip=0.5),
    "scheduled": lambda ps: SGD(ps, lr=Piecewise((2,), (0.1, 0.01)), weight_decay=Piecewise((1,), (0.5, 0.0))),
    "adam": lambda ps: Adam(ps, lr=0.01, weight_decay=0.01),
    "muon and sgd": lambda ps: Together(
        Muon([p for p in ps if len(p.shape) > 1], lr=0.1, momentum=0.8, weight_decay=0.01),
        SGD([p for p in ps if len(p.shape) < 2], lr=Piecewise((2,), (0.1, 0.01)), momentum=0.9, clip=1.0),
    ),
}


def quadratic_steps(optimiser, parameters, steps):
    """The gradient of ||p||^2 / 2 is p."""
    for _ in range(steps):
        for p in parameters:
            p.grad = p.data.copy()
        optimiser.step()
        optimiser.zero_grad()


def run(p, steps, **options):
    parameter = Parameter(np.array([p]))
    quadratic_steps(SGD([parameter], **options), [parameter], steps)
    return parameter.data.item()


def test_sgd_by_hand():
    assert run(1.0, 2, lr=0.5) == 0.25
    assert run(1.0, 2, lr=0.5, weight_decay=1.0) == 0.0
    # v: 1, then 0.5 * 1 + 0.5 = 1;  p: 0.5, then 0
    assert run(1.0, 2, lr=0.5, momentum=0.5) == 0
    # first step 1 - 0.5 (1 + 0.5 * 1) = 0.25; then v = 0.5 + 0.25, p = 0.25 - 0.5 (0.25 + 0.5 * 0.75)
    assert run(1.0, 2, lr=0.5, momentum=0.5, nesterov=True) == -0.0625
    # v: 1, then 0.5 * 1 + 0.5 * 0.5 = 0.75;  p: 0.5, then 0.125
    assert run(1.0, 2, lr=0.5, momentum=0.5, dampening=0.5) == 0.125


def test_adam_takes_steps_of_lr_at_first():
    for gradient in (1e-3, 1.0, 1e3):
        p = Parameter(np.array([5.0]))
        p.grad = np.array([gradient])
        Adam([p], lr=0.1).step()
        np.testing.assert_allclose(p.data, 4.9, rtol=1e-5)


def test_adam_by_hand():
    """g = 2, then 0, both betas 1/2.  Means 1 and 1/2, squares 2 and 1; over 1 - 1/2^t: 2 and 2/3, 4 and 4/3."""
    p = Parameter(np.array([5.0]))
    optimiser = Adam([p], lr=0.1, betas=(0.5, 0.5))
    for gradient, step in ((2.0, 2 / math.sqrt(4)), (0.0, (2 / 3) / math.sqrt(4 / 3))):
        before, p.grad = p.data.item(), np.array([gradient])
        optimiser.step()
        assert before - p.data.item() == pytest.approx(0.1 * step, rel=1e-7)


def test_torch7_average_is_classical_momentum_at_a_tenth_of_the_rate():
    """In the long run; its first step is ten times as long, because v starts as g."""
    ema, classical = Parameter(np.zeros(1)), Parameter(np.zeros(1))
    first, second = SGD([ema], lr=1.0, momentum=0.9, dampening=0.9), SGD([classical], lr=0.1, momentum=0.9)
    for _ in range(300):
        ema.grad, classical.grad = np.ones(1), np.ones(1)
        before = ema.data.copy(), classical.data.copy()
        first.step()
        second.step()
    np.testing.assert_allclose(ema.data - before[0], classical.data - before[1], rtol=1e-9)


@on_devices
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_variant_on_every_device(device, name, dtype):
    start = np.array([[1.0, -2.0], [3.0, 0.5]], dtype), np.array([0.25], dtype)
    results = []
    for where in (None, device):
        ps = [Parameter(a.copy() if where is None else where.put(a.copy())) for a in start]
        arrays = [p.data for p in ps]
        optimiser = VARIANTS[name](ps)
        quadratic_steps(optimiser, ps, 5)
        assert all(p.data is a and p.dtype == dtype for p, a in zip(ps, arrays, strict=True))  # in place
        results.append([p.numpy() for p in ps])
    for a, b, s in zip(*results, start, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)  # a GPU fuses products with sums
        assert (a != s).all()


@on_devices
@pytest.mark.parametrize("name", VARIANTS)
def test_a_saved_state_continues_exactly(device, name):
    def parameters():
        return [Parameter(device.put(np.array([1.0, -2.0]))), Parameter(device.put(np.array([[0.5]])))]

    ps = parameters()
    optimiser = VARIANTS[name](ps)
    quadratic_steps(optimiser, ps, 3)
    saved, values = optimiser.state_dict(), [p.numpy().copy() for p in ps]
    quadratic_steps(optimiser, ps, 4)
    others = [Parameter(device.put(v)) for v in values]
    resumed = VARIANTS[name](others)
    resumed.load_state_dict(saved)
    quadratic_steps(resumed, others, 4)
    assert resumed.steps == 7
    for p, q in zip(ps, others, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_clipping_scales_all_gradients_together_and_leaves_them_alone():
    a, b = Parameter(np.zeros(2)), Parameter(np.zeros(1))
    a.grad, b.grad = np.array([3.0, 0.0]), np.array([4.0])
    assert grad_norm([a, b]) == 5
    SGD([a, b], lr=1.0, clip=1.0).step()
    np.testing.assert_allclose(a.data, [-0.6, 0], rtol=1e-6)
    np.testing.assert_allclose(b.data, [-0.8], rtol=1e-6)
    np.testing.assert_array_equal(a.grad, [3, 0])
    SGD([a, b], lr=1.0, clip=100.0).step()
    np.testing.assert_allclose(b.data, [-4.8], rtol=1e-6)
    assert grad_norm([Parameter(np.ones(1))]) is None


def test_clipping_does_not_hide_nan():
    p = Parameter(np.zeros(2))
    p.grad = np.array([np.nan, 1.0])
    SGD([p], lr=1.0, clip=1.0).step()
    assert np.isnan(p.data).all()


def test_a_parameter_without_gradient_is_left_alone():
    p, q = Parameter(np.ones(1)), Parameter(np.ones(1))
    q.grad = np.ones(1)
    optimiser = SGD([p, q], lr=0.5, momentum=0.9, weight_decay=0.1, clip=10.0)
    optimiser.step()
    assert p.data.item() == 1
    assert set(optimiser.state_dict()) == {"steps", "updates", "velocity.1"}
    SGD([p], lr=0.5, clip=1.0).step()
    assert p.data.item() == 1


def test_scalars_are_parameters_too():
    """NumPy turns 0-d arrays into scalars, which nothing writes into."""
    results = []
    for shape in ((), (1,)):
        p = Parameter(np.ones(shape))
        optimiser = SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1, clip=100.0)
        for _ in range(4):
            p.grad = np.ones(shape)
            optimiser.step()
        results.append(p.data.item())
    assert results[0] == results[1]


def test_numpy_numbers_do_not_change_the_precision():
    p = Parameter(np.ones(3, np.float32))
    optimiser = SGD([p], Piecewise((1,), (np.float64(0.1), np.float64(0.2))), momentum=np.float64(0.9),
                    weight_decay=Piecewise((), (np.float64(0.1),)), clip=np.float64(1.0))  # fmt: skip
    for _ in range(2):
        p.grad = np.ones(3, np.float32)
        optimiser.step()
    assert optimiser.state_dict()["velocity.0"].dtype == np.float32


def test_a_state_of_another_optimiser_is_refused():
    p = Parameter(np.ones(2))
    plain = SGD([p], lr=0.1)
    quadratic_steps(plain, [p], 2)
    with pytest.raises(ValueError, match="incomplete: parameter 0 lacks mean, square"):
        Adam([p]).load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match=r"misshapen: updates is \(\) for 1 parameters"):
        Adam([p]).load_state_dict({"steps": np.array(2), "updates": np.array(2)})


@on_devices
def test_a_small_network_learns(device):
    """Two classes that no linear map separates, which CReLU does."""
    x = np.random.default_rng(0).normal(size=(64, 4, 4, 1)).astype(np.float32)
    labels = (np.abs(x).mean((1, 2, 3)) > np.median(np.abs(x).mean((1, 2, 3)))).astype(int)
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.CReLU(), nn.GlobalAvgPool(), nn.Linear(8, 2)).initialise(0).to(device)
    optimiser = Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(100):
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(device.put(x), train=True), labels)
        tape.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[0] > 0.5
    assert losses[-1] < 0.25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD([], lr=0.1), "SGD: got no parameters"),
        (lambda: SGD([Parameter(np.ones(1))] * 2, lr=0.1), "SGD: a parameter was given twice"),
        (lambda: SGD([Parameter(np.ones(1))], lr=0.1, momentum=1.0), "momentum and dampening must be in"),
        (lambda: SGD([Parameter(np.ones(1))], lr=0.1, nesterov=True), "nesterov needs a momentum"),
        (lambda: SGD([Parameter(np.ones(1))], 0.1, momentum=0.9, dampening=0.5, nesterov=True), "no dampening"),
        (lambda: SGD([Parameter(np.ones(1))], lr=0.1, clip=0.0), "clip must be positive"),
        (lambda: SGD([Parameter(np.ones(1))], lr=np.nan), "lr must be finite and not negative, got nan"),
        (lambda: Adam([Parameter(np.ones(1))], lr=-0.1), "lr must be finite and not negative, got -0.1"),
        (lambda: SGD([Parameter(np.ones(1))], lr=0.1, weight_decay=-1), "weight_decay must be finite"),
        (lambda: Adam([Parameter(np.ones(1))], betas=(0.9, 1.0)), "both betas must be in"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_model_in_place_of_its_parameters_is_refused():
    model = nn.Sequential(nn.Linear(2, 3))
    for given in (model, [model], [np.ones(2)]):
        with pytest.raises(TypeError, match=r"SGD: expected [pP]arameters, got a \w+; give model.parameters\(\)"):
            SGD(given, lr=0.1)


def test_a_state_that_does_not_fit_is_refused_whole():
    p = Parameter(np.ones(2))
    optimiser = Adam([p])
    quadratic_steps(optimiser, [p], 1)
    with pytest.raises(ValueError, match="does not fit") as caught:
        optimiser.load_state_dict(
            {
                "updates": np.ones(3),
                "mean.0": np.ones(3),
                "velocity.0": np.ones(2),
                "mean.7": np.ones(2),
                "square.0": np.ones(2),
                "x": np.ones(1),
            }
        )
    assert str(caught.value).splitlines()[1:] == [
        "  missing: steps",
        "  misshapen: updates is (3,) for 1 parameters",
        "  misshapen: mean.0 is (3,), the parameter is (2,)",
        "  unexpected: velocity.0",
        "  unexpected: mean.7",
        "  unexpected: x",
        "  incomplete: parameter 0 lacks mean",
    ]
    assert optimiser.steps == 1


def test_rates_may_be_set_later():
    """p = 8, g = p: with lr 1/2 it is 4; with lr 1/4 and decay 1 then 4 - (4 + 4) / 4 = 2; clipped to 1, 2 - 1/4."""
    p = Parameter(np.array([8.0]))
    optimiser, found = SGD([p], lr=0.5), []
    for change in ({}, {"lr": 0.25, "weight_decay": np.float32(1)}, {"weight_decay": lambda step: 0.0, "clip": 1}):
        for name, value in change.items():
            setattr(optimiser, name, value)
        quadratic_steps(optimiser, [p], 1)
        found.append(p.data.item())
    np.testing.assert_allclose(found, [4, 2, 1.75], rtol=1e-6)
    assert (optimiser.lr(7), optimiser.weight_decay(7), optimiser.clip) == (0.25, 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lr", -1, "SGD: lr must be finite and not negative, got -1"),
        ("weight_decay", math.nan, "SGD: weight_decay must be finite and not negative, got nan"),
        ("clip", 0, "SGD: clip must be positive, got 0"),
    ],
)
def test_a_rate_that_is_set_is_checked_at_once(name, value, words):
    optimiser = SGD([Parameter(np.ones(1))], lr=0.5, weight_decay=0.5, clip=0.5)
    with pytest.raises(ValueError, match=words):
        setattr(optimiser, name, value)
    assert (optimiser.lr(0), optimiser.weight_decay(0), optimiser.clip) == (0.5, 0.5, 0.5)


def test_a_schedule_that_ends_in_nan_changes_nothing():
    p = Parameter(np.ones(2))
    optimiser = SGD([p], lr=lambda step: 0.1 if step == 0 else np.nan)
    p.grad = np.ones(2)
    optimiser.step()
    with pytest.raises(ValueError, match="lr must be finite"):
        optimiser.step()
    np.testing.assert_allclose(p.data, 0.9)


def test_a_state_in_another_precision_than_its_parameter_is_refused():
    p = Parameter(np.ones(2, np.float32))
    optimiser = Adam([p])
    p.grad = np.ones(2, np.float32)
    optimiser.step()
    p.data, p.grad = p.data.astype(np.float64), np.ones(2)
    with pytest.raises(TypeError, match="parameter 0 has become float64; make a new optimiser"):
        optimiser.step()
    assert optimiser.updates == [1]
