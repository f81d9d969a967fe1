"""Batches: every image once an epoch, the same wherever one begins; a thread that ends when it should."""

import threading
import time

import numpy as np
import pytest

from minicnn.cluster import ALONE
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import AHEAD, Batches, ahead
from tests.ranks import Thread

IMAGES = np.arange(10, dtype=np.uint8).repeat(4).reshape(10, 2, 2, 1)
IDENTITY = Normaliser((0.0,), (1 / 255,))


def batches(batch=3, seed=0, cluster=ALONE, **augmentation):
    return Batches(IMAGES, np.arange(10), batch, IDENTITY, Augmentation(**augmentation), seed, cluster)


def test_every_image_once_with_its_label():
    parts = list(batches().epoch(0))
    assert [len(labels) for _, labels in parts] == [3, 3, 3, 1]
    assert len(batches()) == 4
    x, labels = (np.concatenate(p) for p in zip(*parts, strict=True))
    np.testing.assert_allclose(x[:, 0, 0, 0], labels, rtol=1e-6)
    assert sorted(labels) == list(range(10))
    assert list(labels) != list(range(10))


def test_epochs_and_seeds_differ_and_repeat():
    def order(epoch, seed=0):
        return [int(i) for _, labels in batches(seed=seed).epoch(epoch) for i in labels]

    assert order(0) == order(0)
    assert len({tuple(order(e, s)) for e in range(3) for s in range(3)}) == 9


def test_alternate_flips_show_every_image_from_both_sides_in_turn():
    """Also in another order; half of them begin mirrored, others in another run, and none are without `flip`."""

    def mirrored(epoch, seed=0, **augmentation):
        images = np.arange(1000)
        one = Batches(
            images.astype(np.uint8).reshape(-1, 1, 1, 1), images, 10, IDENTITY, Augmentation(**augmentation), seed
        )
        order, flips, _ = one.draw(epoch)
        return flips[np.argsort(order)]

    first = mirrored(0, alternate=True)
    for epoch in range(1, 5):
        np.testing.assert_array_equal(mirrored(epoch, alternate=True), first ^ bool(epoch % 2))
    assert 400 < first.sum() < 600
    assert (first != mirrored(0, seed=1, alternate=True)).any()
    assert not mirrored(1, flip=False, alternate=True).any()


@pytest.mark.parametrize("start", [0, 1, 3, 4])
def test_an_epoch_can_be_entered_in_the_middle(start):
    whole = list(batches(shift=1).epoch(5))[start:]
    part = list(batches(shift=1).epoch(5, start))
    assert len(part) == len(whole)
    for (x, labels), (other_x, other_labels) in zip(part, whole, strict=True):
        np.testing.assert_array_equal(x, other_x)
        np.testing.assert_array_equal(labels, other_labels)


@pytest.mark.parametrize(
    ("size", "shares"),
    [
        (1, [[(0, 4)], [(4, 8)], [(8, 10)]]),
        (2, [[(0, 2), (2, 4)], [(4, 6), (6, 8)], [(8, 9), (9, 10)]]),
        (3, [[(0, 1), (1, 2), (2, 4)], [(4, 5), (5, 6), (6, 8)], [(8, 8), (8, 9), (9, 10)]]),
    ],
)
def test_ranks_share_every_batch_alike(size, shares):
    """Ten images in batches of four, by hand: also the last batch, of two, is shared out, so that none waits."""
    whole = list(batches(batch=4, shift=1).epoch(2))
    ranks = [batches(batch=4, cluster=Thread(rank, size, None, None), shift=1) for rank in range(size)]
    for k, expected in enumerate(shares):
        assert [(at.start, at.stop) for at in (rank.share(k) for rank in ranks)] == expected
    for k, parts in enumerate(zip(*(rank.epoch(2) for rank in ranks), strict=True)):
        assert [len(labels) for _, labels in parts] == [stop - start for start, stop in shares[k]]
        for together, one in zip(zip(*parts, strict=True), whole[k], strict=True):
            np.testing.assert_array_equal(np.concatenate(together), one)


def test_batches_are_made_ahead():
    made = []
    items = ahead((made.append(i) or i for i in range(10)), AHEAD)
    assert next(items) == 0
    for _ in range(200):
        if len(made) > 2:
            break
        time.sleep(0.01)
    assert len(made) > 2
    assert list(items) == list(range(1, 10))


def test_stopping_early_stops_the_thread():
    before = threading.active_count()
    items = ahead((i for i in range(1000)), 2)
    next(items)
    items.close()
    assert threading.active_count() == before


def test_an_error_in_the_thread_is_raised_here():
    def broken():
        yield 1
        raise ZeroDivisionError("in the thread")

    items = ahead(broken(), 2)
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        next(items)


def test_images_and_labels_of_other_kinds_are_refused():
    """At once, and not by a thread in the middle of an epoch; images from 0 to 1 would be divided by 255 again."""
    labels = np.arange(10)
    with pytest.raises(TypeError, match=r"Batches: images must be uint8, \(N, H, W, C\), got float64 \(10, 2, 2, 1\)"):
        Batches(IMAGES / 255, labels, 3, IDENTITY, Augmentation(), 0)
    with pytest.raises(ValueError, match=r"\(10, 1, 2, 2\) looks like \(N, C, H, W\)"):
        Batches(IMAGES.transpose(0, 3, 1, 2), labels, 3, IDENTITY, Augmentation(), 0)
    for wrong, named in ((labels.tolist(), "list"), (labels / 1, "float64"), (labels[:, None], r"int64 \(10, 1\)")):
        with pytest.raises(TypeError, match=rf"labels must be a NumPy array of integers, \(N,\), got {named}.*'int64'"):
            Batches(IMAGES, wrong, 3, IDENTITY, Augmentation(), 0)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="got 10 images and 9 labels"):
        Batches(IMAGES, np.arange(9), 3, IDENTITY, Augmentation(), 0)
    with pytest.raises(ValueError, match="batch size must be at least 1"):
        batches(batch=0)
    with pytest.raises(ValueError, match=r"no 2 pixels inside of an edge to mirror; shift them by at most 1"):
        batches(shift=2, reflect=True)
