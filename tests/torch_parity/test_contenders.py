"""Whoever experiments.bench compares computes what we do, in 32 bits or in 16.  What is not installed is skipped."""

import numpy as np
import pytest

from experiments.benchmarks import networks
from experiments.benchmarks.contenders import FRAMEWORKS, missing, variants
from minicnn import models

NETWORKS = {
    "crelu": lambda: models.convpool("crelu", "half", scale=0.1),
    "avr": lambda: models.convpool("avr", scale=0.1),
    "vgg": lambda: models.vgg("crelu", (1, 3), scale=0.1),
    "allcnn": lambda: models.allcnn_b("crelu-conv1-4", classes=10, scale=0.05),
}
LIMIT = {"float32": 1e-5, "bf16": 5e-2}  # of the error over the largest logit; bf16 has 8 bits


@pytest.fixture(params=[name for name in FRAMEWORKS if name != "ours"])
def rivals(request):
    if lacking := missing(request.param):
        pytest.skip(f"{' and '.join(lacking)} not installed")
    return [contender for contender in variants(request.param) if not contender.compiled]  # compiling takes minutes


@pytest.mark.parametrize("name", NETWORKS)
def test_the_logits_are_ours(rivals, name, monkeypatch):
    side = 224 if name == "allcnn" else 32
    monkeypatch.setitem(networks.MODELS, "small", networks.Network(NETWORKS[name], side))
    case = networks.NetworkCase("small", 2, training=False)
    (exact,) = case.exact()
    for rival in rivals:
        call = rival.prepare(case)
        for _ in range(2):  # the arrays of the first call must live on
            (logits,) = rival.values(case, call)
            assert logits.shape == exact.shape
            error = np.abs(logits - exact).max() / np.abs(exact).max()
            assert error < LIMIT[rival.precision], rival.name
            assert rival.precision == "float32" or error > 1e-4, "16 bits round more"


def test_a_training_step_runs_in_every_precision(rivals, monkeypatch):
    monkeypatch.setitem(networks.MODELS, "small", networks.Network(NETWORKS["vgg"]))
    case = networks.NetworkCase("small", 4, training=True)
    for rival in rivals:
        if "training" in rival.kinds:
            step = rival.prepare(case)
            step()
            step()
