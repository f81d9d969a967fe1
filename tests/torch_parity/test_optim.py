"""Ten steps of each optimiser on one small problem; each side computes its own gradients."""

import numpy as np
import pytest

from minicnn import Parameter, Tape, ops
from minicnn.optim import SGD, Adam, Muon, grad_norm
from minicnn.schedule import Piecewise, StepDecay
from tests.torch_parity.convert import F, assert_close_to_largest, integers, leaf, normal, torch

STEPS = 10
SGD_OPTIONS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "dampening": {"momentum": 0.9, "dampening": 0.9},
    "dampening-half": {"momentum": 0.8, "dampening": 0.5},
    "decay": {"weight_decay": 0.1},
    "momentum-decay": {"momentum": 0.9, "weight_decay": 0.1},
    "nesterov-decay": {"momentum": 0.5, "nesterov": True, "weight_decay": 0.05},
    "dampening-decay": {"momentum": 0.9, "dampening": 0.9, "weight_decay": 0.1},
}
ADAM_OPTIONS = {
    "default": {},
    "decay": {"weight_decay": 0.1},
    "betas": {"betas": (0.5, 0.9)},
    "no-memory": {"betas": (0.0, 0.0)},
    "large-eps": {"eps": 0.1, "weight_decay": 0.01},
}
RULES = {  # name: (ours, theirs, options)
    **{f"sgd-{name}": (SGD, torch.optim.SGD, {"lr": 0.3, **o}) for name, o in SGD_OPTIONS.items()},
    **{f"adam-{name}": (Adam, torch.optim.Adam, {"lr": 0.05, **o}) for name, o in ADAM_OPTIONS.items()},
}
rules = pytest.mark.parametrize(("ours", "theirs", "options"), RULES.values(), ids=RULES.keys())


class Problem:
    """Classification of 12 vectors by linear, crelu, linear: the parameters of both sides, and their gradients."""

    def __init__(self, dtype):
        x, *values = normal(dtype, (12, 4), (4, 5), (5,), (10, 3), (3,))
        (labels,) = integers(np.int64, (12,), least=0, most=2)
        self.dtype, self.x, self.labels = dtype, x, labels
        self.ours, self.theirs = [Parameter(v.copy()) for v in values], [leaf(v) for v in values]

    def backward(self):
        w1, b1, w2, b2 = self.ours
        with Tape() as tape:
            logits = ops.linear(ops.crelu(ops.linear(self.x, w1, b1)), w2, b2)
            loss = ops.softmax_cross_entropy(logits, self.labels)
        tape.backward(loss)
        w1, b1, w2, b2 = self.theirs
        h = F.linear(torch.tensor(self.x), w1.T, b1)
        F.cross_entropy(F.linear(torch.cat((F.relu(h), F.relu(-h)), 1), w2.T, b2), torch.tensor(self.labels)).backward()

    def run(self, ours, theirs, before_step=lambda: None, after_step=lambda: None):
        """Steps of both optimisers, comparing the parameters after each of them."""
        for step in range(STEPS):
            self.backward()
            before_step()
            for optimiser in (ours, theirs):
                optimiser.step()
                optimiser.zero_grad()
            after_step()
            for i, (p, q) in enumerate(zip(self.ours, self.theirs, strict=True)):
                assert_close_to_largest(p, q, self.dtype, f"parameter {i} after step {step}")


@rules
def test_ten_steps(ours, theirs, options, dtype):
    problem = Problem(dtype)
    problem.run(ours(problem.ours, **options), theirs(problem.theirs, **options))


@rules
def test_parameter_without_gradient_is_left_alone(ours, theirs, options, dtype):
    """Weight decay and momentum do not touch it either."""
    problem = Problem(dtype)
    kept = problem.ours[1].numpy().copy()

    def forget():
        problem.ours[1].grad = problem.theirs[1].grad = None

    problem.run(ours(problem.ours, **options), theirs(problem.theirs, **options), before_step=forget)
    assert np.array_equal(problem.ours[1].numpy(), kept)


@pytest.mark.parametrize(
    "rule",
    [
        "sgd-dampening",
        "sgd-nesterov-decay",
        "adam-default",
    ],
)
def test_gradient_that_comes_late(rule, dtype):
    """The first three steps leave one parameter alone, then it joins."""
    problem = Problem(dtype)
    ours, theirs, options = RULES[rule]
    optimiser = ours(problem.ours, **options)

    def forget():
        if optimiser.steps < 3:
            problem.ours[1].grad = problem.theirs[1].grad = None

    problem.run(optimiser, theirs(problem.theirs, **options), before_step=forget)


@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0], ids=["small", "some-steps", "never"])
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.1}], ids=["plain", "momentum-decay"])
def test_clipping(clip, options, dtype):
    problem = Problem(dtype)

    def clip_theirs():
        norm = torch.nn.utils.clip_grad_norm_(problem.theirs, clip)
        assert_close_to_largest(grad_norm(problem.ours), norm, dtype, "norm of the gradients")

    ours = SGD(problem.ours, lr=0.3, clip=clip, **options)
    theirs = torch.optim.SGD(problem.theirs, lr=0.3, **options)
    problem.run(ours, theirs, before_step=clip_theirs)


def test_step_decay(dtype):
    problem = Problem(dtype)
    theirs = torch.optim.SGD(problem.theirs, lr=0.3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(theirs, step_size=3, gamma=0.5)
    problem.run(SGD(problem.ours, StepDecay(0.3, every=3, factor=0.5), momentum=0.9), theirs, after_step=schedule.step)


def test_piecewise(dtype):
    problem = Problem(dtype)
    theirs = torch.optim.Adam(problem.theirs, lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(theirs, milestones=[2, 7], gamma=0.1)
    ours = Adam(problem.ours, Piecewise((2, 7), (0.1, 0.01, 0.001)))
    problem.run(ours, theirs, after_step=schedule.step)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (30, 8)])
@pytest.mark.parametrize("options", [{"momentum": 0.95}, {"momentum": 0.8, "weight_decay": 0.1}])
def test_muon(shape, options):
    """PyTorch has outputs x inputs, and iterates in bf16, so the steps agree to two digits."""
    rng = np.random.default_rng(0)
    ours, theirs = Parameter(np.ones(shape)), torch.ones(shape[::-1], dtype=torch.float64, requires_grad=True)
    rules = Muon([ours], 0.1, **options), torch.optim.Muon([theirs], 0.1, **{"weight_decay": 0.0, **options})
    for _ in range(STEPS):
        g = rng.normal(size=shape)
        ours.grad, theirs.grad = g, torch.tensor(g.T.copy())
        for rule in rules:
            rule.step()
    largest = np.abs(ours.data - 1).max()
    np.testing.assert_allclose(ours.data, theirs.detach().numpy().T, atol=0.03 * largest)
