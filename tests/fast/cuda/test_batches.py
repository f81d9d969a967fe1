"""Batches on the device are the batches on the host, to the last bit."""

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.backend import CPU
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.fast.batches import ResidentBatches, StagedBatches, on_device
from tests.cuda_shim.device import ShimCuda
from tests.cuda_shim.shim import needs_compiler
from tests.devices import STANDIN, standin_with_kernels
from tests.standin import no_synchronisation

pytestmark = needs_compiler


def batches(n=11, size=(5, 4), channels=3, batch=4, flip=True, shift=2, seed=0, reflect=False):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, *size, channels), np.uint8)
    labels = rng.integers(0, 10, n)
    normalise = Normaliser(tuple(rng.uniform(0.3, 0.6, channels)), tuple(rng.uniform(0.1, 0.3, channels)))
    return Batches(images, labels, batch, normalise, Augmentation(flip, shift, reflect=reflect), seed)


def same(ours, theirs):
    """Every batch of `ours` (on the device) has the bits of those of `theirs`; gives their number."""
    count = 0
    for (x, labels), (expected, expected_labels) in zip(ours, theirs, strict=True):
        count += 1
        for there, here in ((x, expected), (labels, expected_labels)):
            there = there if isinstance(there, np.ndarray) else there.get()
            assert there.dtype == here.dtype
            np.testing.assert_array_equal(there, here)
    return count


@given(data=st.data())
def test_resident_batches(data):
    size, reflect = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6))), data.draw(st.booleans())
    source = batches(
        n=data.draw(st.integers(1, 9)),
        size=size,
        channels=data.draw(st.integers(1, 4)),
        batch=data.draw(st.integers(1, 10)),
        flip=data.draw(st.booleans()),
        shift=data.draw(st.integers(0, min(size) - 1 if reflect else 8)),
        seed=data.draw(st.integers(0, 99)),
        reflect=reflect,
    )
    epoch, start = data.draw(st.integers(0, 3)), data.draw(st.integers(0, len(source)))
    with standin_with_kernels() as device:
        ours = ResidentBatches(source, device)
        assert (len(ours), ours.batch) == (len(source), source.batch)
        same(ours.epoch(epoch, start), source.epoch(epoch, start))


def test_staged_batches():
    """Two epochs of batches that wait in a queue until somebody waits for them; the last is smaller."""
    with standin_with_kernels() as device:
        source = batches(n=30)
        ours = StagedBatches(source, device)
        assert same(ours.epoch(0), source.epoch(0)) == 8
        assert same(ours.epoch(1, 5), source.epoch(1, 5)) == 3


def test_staged_memory_is_not_written_while_it_is_read():
    """Before a copy to a place, its stream waits for the computation on what was there."""
    with standin_with_kernels() as device:
        source = batches(n=40)
        for _ in StagedBatches(source, device).epoch(0):
            pass
        used, waited, places = {}, set(), {}
        for stream, what, about in device.cuda.log:
            if (stream, what) == ("copy", "wait"):
                waited.add(about)
            elif (stream, what) == ("compute", "record"):
                used[about] = len(used)
            elif (stream, what) == ("copy", "copy"):
                places.setdefault(about, []).append(max((used[e] for e in waited), default=-1))
        assert len(places) == 6  # three slots, x and labels in each
        for seen in places.values():
            assert seen == sorted(set(seen)), "a copy began without a wait for the last computation"


def test_an_epoch_that_is_left_early_leaves_its_memory_guarded():
    """The first copy of the next epoch goes to the same place, and waits for the computation on what was there."""
    with standin_with_kernels() as device:
        staged = StagedBatches(batches(n=40), device)
        with closing(staged.epoch(0)) as epoch:
            next(epoch)
            device.cuda.log.clear()
        ((*_, used),) = device.cuda.log
        with closing(staged.epoch(1)) as epoch:
            next(epoch)
        kinds = [entry[:2] for entry in device.cuda.log]
        assert device.cuda.log.index(("copy", "wait", used)) < kinds.index(("copy", "copy"))


def test_an_empty_batch_passes():
    class Damaged:
        batch = 2

        def __len__(self):
            return 2

        def epoch(self, epoch, start=0):
            yield np.zeros((0, 3), np.float32), np.zeros(0, np.int64)
            yield np.ones((2, 3), np.float32), np.arange(2)

    with standin_with_kernels() as device:
        assert same(StagedBatches(Damaged(), device).epoch(0), Damaged().epoch(0)) == 2


def test_which_is_chosen(monkeypatch):
    source = batches()
    assert on_device(source, CPU) is source
    assert on_device(source, STANDIN) is source
    with standin_with_kernels() as device:
        assert type(on_device(source, device)) is ResidentBatches
        monkeypatch.setenv("MINICNN_FAST", "0")
        assert on_device(source, device) is source
        monkeypatch.delenv("MINICNN_FAST")
    with standin_with_kernels(cuda=ShimCuda(free=4 * source.images.nbytes - 1)) as device:
        assert type(on_device(source, device)) is StagedBatches


def test_nothing_waits():
    with standin_with_kernels() as device:
        for ours in (ResidentBatches(batches(), device), StagedBatches(batches(), device)):
            with no_synchronisation():
                assert len(list(ours.epoch(0))) == 3


def test_an_image_by_hand():
    """2x2 pixels, moved down by one and mirrored: (x / 255 - mean) / std, zeros move in."""
    images = np.array([[[10, 20], [30, 40]]], np.uint8).reshape(1, 2, 2, 1)
    source = Batches(images, np.zeros(1, int), 1, Normaliser((0.0,), (1 / 255,)), Augmentation(), 0)
    with standin_with_kernels() as device, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batches, "draw", lambda *_: (np.zeros(1, np.int64), np.ones(1, bool), np.array([[1, 0]])))
        ((x, _),) = ResidentBatches(source, device).epoch(0)
    np.testing.assert_allclose(x.get()[0, :, :, 0], [[0, 0], [20, 10]], rtol=1e-6)
