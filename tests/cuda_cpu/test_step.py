"""What a training step at batch 128 asks of a GPU, and that it gives the numbers of the CPU."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from minicnn import backend, models, training
from minicnn.backend import CPU
from minicnn.optim import SGD
from minicnn.training import Interrupted, Trainer
from tests import cuda_cpu
from tests.fast.cuda.test_training import source
from tests.test_training import Doubled

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not cuda_cpu.ASKED, reason="about the CPU in the place of a GPU")]

NETWORKS = {"CReLU (half)": lambda: models.convpool("crelu", "half"), "VGG": models.vgg}
MOST_LAUNCHES = {"CReLU (half)": 100, "VGG": 336}
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
SUMS = {"sum_rows", "sum_squares", "batch_norm_sums"}  # the first stage of a sum over a batch (fast/cuda/sums.py)


def trainer(device, images, batch, dtype="float32", network="CReLU (half)"):
    model = NETWORKS[network]().initialise(0).to(device, dtype)
    optimiser = SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=1e-3)
    made = source(images, batch, 32, 10)
    return Trainer(model, optimiser, Doubled(made) if dtype == "float64" else made, device=device, seed=0)


@cache
def recorded_step(network="CReLU (half)"):
    """The launches of the third step and of making its batch, and how often it waits; nothing is computed."""
    records, train = [], Trainer._train

    def recorded(self, *batch):
        result = train(self, *batch)
        records.append(cuda_cpu.Record())  # of what follows
        return result

    with pytest.MonkeyPatch.context() as patch, cuda_cpu.order("never"):
        patch.setattr(Trainer, "_train", recorded)
        patch.setattr(Trainer, "_fetch", lambda self, pending: None)  # no numbers there,
        patch.setattr(training, "_check_start", lambda model: None)  # nor in the weights
        device = backend.device("gpu")
        with device.xp.cuda.using_allocator(device.xp.get_default_memory_pool().malloc):
            trainer(device, 3 * 128, 128, network=network).finish_epoch()
        return records[1].launches[: -len(records[2].launches) or None], records[1].waits


@pytest.mark.parametrize("network", NETWORKS)
def test_launches(network):
    launches, _ = recorded_step(network)
    assert len(launches) <= MOST_LAUNCHES[network], Counter(name for name, *_ in launches)
    assert f"of {network} at batch 128 is {len(launches)} launches" in PAGE.read_text()


def test_every_launch_is_a_kernel_a_product_or_a_sum():
    """What is left to CuPy: sums, a mean, and a bias."""
    theirs = {re.sub("__.*", "", name) for name, *_ in recorded_step()[0] if name.startswith("cupy_")}
    assert theirs <= {"cupy_sum", "cupy_mean", "cupy_add"}


def test_the_program_does_not_wait():
    assert recorded_step()[1] == 0


def test_every_sum_over_a_batch_has_blocks_enough():
    """What CuPy sums are the chunks of our sums, the loss and the number of wrong answers."""
    launches, _ = recorded_step()
    ours = [(name, blocks) for name, blocks, _ in launches if name in SUMS]
    assert len(ours) == 8
    assert all(blocks >= 64 for _, blocks in ours), ours
    assert sum(name == "cupy_sum" for name, *_ in launches) == len(ours) + 2


def test_twenty_steps_in_float64_equal_those_of_the_cpu():
    """All layers at full width, with dropout, from the same seed."""
    states = []
    for device in (CPU, backend.device("gpu")):
        one = trainer(device, 20, 1, "float64")
        assert len(one.batches) == 20
        one.finish_epoch()
        states.append(one.model.state_dict())
    for name, value in states[0].items():
        np.testing.assert_allclose(states[1][name], value, rtol=1e-8, atol=1e-8, err_msg=name)


def test_a_resumed_training_ends_in_the_same_bits():
    """All layers at full width, with dropout, stopped after one of two steps and continued by another trainer."""
    device = backend.device("gpu")
    whole, first, second = (trainer(device, 2, 1) for _ in range(3))
    whole.finish_epoch()
    with pytest.raises(Interrupted):
        first.finish_epoch(stop=lambda: first.step == 1)
    second.restore(*first.state())
    second.finish_epoch()
    expected = whole.model.state_dict()
    assert not all(np.array_equal(value, expected[name]) for name, value in first.model.state_dict().items())
    for name, value in second.model.state_dict().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
