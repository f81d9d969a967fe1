"""A small training that uses every kernel (tests/gpu compares it with the CPU), and what is asked of memory."""

import math
from contextlib import contextmanager
from unittest import mock

import numpy as np

from minicnn import nn
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.fast.cuda.winograd import tiles_of
from minicnn.ops.windows import Windows
from minicnn.optim import SGD, Adam, Muon, Together
from minicnn.parallel import DEVICE_PIECE_BYTES
from minicnn.training import Trainer
from tests.cuda_shim.device import ShimCuda
from tests.cuda_shim.shim import needs_compiler
from tests.devices import standin_with_kernels
from tests.standin import launches, no_synchronisation

pytestmark = needs_compiler


def network():
    """A bit of everything that has a kernel: Winograd's algorithm for both sizes, im2col, every activation and pool."""
    return nn.Sequential(
        nn.Dropout(0.1),
        nn.Conv2d(3, 16, 3, pad=1),
        nn.CReLU(),
        nn.Conv2d(32, 16, 5, pad=2, bias=False),  # BatchNorm takes a bias away: its gradient is rounding alone
        nn.BatchNorm(16),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, ceil=True),
        nn.Dropout(0.5),
        nn.Conv2d(16, 16, 3),
        nn.AVR(),
        nn.AvgPool2d(2, stride=1, pad=1),
        nn.Conv2d(16, 20, 1, pad=1),
        nn.LeakyReLU(0.1),
        nn.GlobalAvgPool(),
        nn.Linear(20, 5),
    ).initialise(0)


def source(n, batch, size, classes):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (n, size, size, 3), np.uint8), rng.integers(0, classes, n)
    return Batches(images, labels, batch, Normaliser((0.5,) * 3, (0.25,) * 3), Augmentation(shift=2), seed=0)


def muon(parameters):
    filters = [p for p in parameters if p.ndim > 1]
    rest = [p for p in parameters if p.ndim == 1]
    return Together(Muon(filters, 0.02, centred=True, keep_norm=True), SGD(rest, 0.02, momentum=0.9, clip=1.0))


OPTIMISERS = {
    "sgd": lambda p: SGD(p, 0.02, momentum=0.9, nesterov=True, weight_decay=1e-3, clip=1.0),
    "adam": lambda p: Adam(p, 1e-3),
    "muon": muon,
}


def trained(device, dtype, steps, optimiser, batches):
    """The state after so many steps, and the totals of the epoch."""
    model = network().to(device, dtype)
    trainer = Trainer(model, OPTIMISERS[optimiser](model.parameters()), batches, device=device, seed=0)
    assert len(batches) == steps
    totals = trainer.finish_epoch()
    return model.state_dict(), totals


@contextmanager
def steps_that_do_not_wait():
    """Within, a training step that waits for the device is an error; gives the launches of each."""
    found, train = [], Trainer._train

    def step(trainer, *batch):
        launches.clear()
        with no_synchronisation():
            result = train(trainer, *batch)
        found.append(list(launches))
        return result

    with mock.patch.object(Trainer, "_train", step):
        yield found


def test_a_batch_of_128_is_one_piece():
    for size, c, f in ((32, 96, 48), (16, 96, 96), (16, 192, 96), (8, 192, 96)):
        windows = Windows((size, size), (3, 3), (1, 1), ((1, 1), (1, 1)), (size, size))
        assert 128 * 36 * math.prod(tiles_of(windows)) * (c + f) * 4 <= DEVICE_PIECE_BYTES
    assert DEVICE_PIECE_BYTES >= 128 * 32 * 32 * 27 * 4  # conv1 by im2col


def test_photographs_are_staged_without_waiting():
    """A data set that does not fit: the steps still wait for nothing."""
    with standin_with_kernels(cuda=ShimCuda(free=0)) as device, steps_that_do_not_wait() as found:
        model = network().to(device)
        Trainer(model, SGD(model.parameters(), 0.01), source(8, 4, 9, 5), device=device, seed=0).finish_epoch()
        assert len(found) == 2
        assert ("compute", "record") in {entry[:2] for entry in device.cuda.log}
