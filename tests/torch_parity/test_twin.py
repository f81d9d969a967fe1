"""The networks that experiments.bench compares are the same on both sides."""

import numpy as np
import pytest

from minicnn.models import convpool, vgg
from tests.torch_parity.convert import torch

NETWORKS = {
    "crelu": lambda: convpool("crelu", "half", scale=0.1),
    "avr": lambda: convpool("avr", scale=0.1),
    "vgg": lambda: vgg("crelu", (1, 3), scale=0.1),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_twin_is_the_same_network(name):
    from experiments.benchmarks.torch_twin import torch_twin  # needs torch, so not where the tests are collected

    x = np.random.default_rng(0).standard_normal((2, 32, 32, 3)).astype(np.float32)
    ours = NETWORKS[name]()(x).data
    with torch.inference_mode():
        theirs = torch_twin(NETWORKS[name]()).eval()(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())
