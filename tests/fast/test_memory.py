"""Memory that is used again: never while somebody can still see it."""

import gc
import threading

import numpy as np
import pytest

from minicnn.fast.cpu import memory
from minicnn.fast.native.kept import _kept

SHAPE = (300, 1000)  # of float32: above the least size
MIB = 1 << 20  # the least size


@pytest.fixture(autouse=True)
def empty_shelf():
    _kept.clear()  # what networks of other tests keep of their weights
    memory.clear()
    yield
    memory.clear()


def address(a):
    return a.__array_interface__["data"][0]


def test_it_is_used_again_when_the_array_is_gone():
    a = memory.empty(SHAPE, np.float32)
    where = address(a)
    del a
    assert memory.kept_bytes() == 1_200_000
    assert address(memory.empty(SHAPE, np.float32)) == where


@pytest.mark.parametrize(
    "view", [lambda a: a[5:, ::2], lambda a: a.T, lambda a: a.reshape(-1), lambda a: a.view(np.int32)]
)
def test_not_while_a_view_is_alive(view):
    gc.disable()
    try:
        a = memory.empty(SHAPE, np.float32)
        a[...] = 7
        kept = view(a)
        expected = kept.copy()
        del a
        other = memory.empty(SHAPE, np.float32)
        other[...] = 0
        np.testing.assert_array_equal(kept, expected)
        assert not np.shares_memory(kept, other)
        del kept
        assert memory.kept_bytes() == 1_200_000
    finally:
        gc.enable()


def test_it_is_an_array_like_any_other():
    a = memory.empty(SHAPE, np.float64)
    assert (a.shape, a.dtype) == (SHAPE, np.float64)
    assert a.flags.writeable
    assert a.flags.c_contiguous


@pytest.mark.parametrize(("size", "kept"), [(6, 0), (MIB - 1, 0), (MIB, MIB)])
def test_small_arrays_are_left_to_numpy(size, kept):
    a = memory.empty((size,), np.uint8)
    del a
    assert memory.kept_bytes() == kept


def taken(sizes, size):
    """Blocks of these sizes come back to the shelf in order; which of them an array of `size` gets, or None."""
    memory._most_lent = 1 << 40  # none is given up
    arrays = [memory.empty((s,), np.uint8) for s in sizes]
    places = [address(a) for a in arrays]
    while arrays:
        del arrays[0]
    kept = memory.kept_bytes()
    a = memory.empty((size,), np.uint8)
    if address(a) not in places:
        return None
    which = places.index(address(a))
    assert memory.kept_bytes() == kept - sizes[which]  # the whole block is lent
    return which


@pytest.mark.parametrize(
    ("sizes", "size", "which"),
    [
        ([4 * MIB, 2 * MIB, 3 * MIB], MIB, 1),  # the smallest that is large enough
        ([4 * MIB, 2 * MIB, 3 * MIB], 2 * MIB, 1),  # which may fit exactly
        ([4 * MIB, 2 * MIB, 3 * MIB], 2 * MIB + 1, 2),
        ([2 * MIB, 2 * MIB, 2 * MIB, 4 * MIB], MIB, 2),  # of equal ones the last to come back: it may be in the cache
        ([8 * MIB], MIB, 0),  # eight times as large, and no more
        ([8 * MIB + 1], MIB, None),
        ([MIB, 2 * MIB], 3 * MIB, None),
    ],
)
def test_which_block_is_taken(sizes, size, which):
    assert taken(sizes, size) == which


def test_no_block_is_lent_twice():
    """Of two blocks on the shelf each is lent once; the third array is in new memory."""
    before = [memory.empty(SHAPE, np.float32) for _ in range(2)]
    places = {address(a) for a in before}
    before.clear()
    arrays = [memory.empty(SHAPE, np.float32) for _ in range(3)]
    for i, a in enumerate(arrays):
        a[...] = i
    for i, a in enumerate(arrays):
        assert (a == i).all()
    assert {address(a) for a in arrays[:2]} == places
    assert memory.kept_bytes() == 0


def test_the_shelf_has_an_end():
    """Four small blocks come back, 4.8 MB.  A large one of 4.8 MB is new: with all of them that would be twice the most
    that was ever lent, so the oldest are given up until it is 1.25 times as much: one is left."""
    arrays = [memory.empty(SHAPE, np.float32) for _ in range(4)]
    newest = address(arrays[-1])
    while arrays:
        del arrays[0]
    large = memory.empty((4, *SHAPE), np.float32)
    assert memory.kept_bytes() == 1_200_000
    assert address(memory.empty(SHAPE, np.float32)) == newest
    del large


def kept_beside_8_mib(idle):
    """How much is left of an idle block when a new one of 8 MiB, for which it is too small, is lent."""
    small = memory.empty((idle,), np.uint8)
    del small
    large = memory.empty((8 * MIB,), np.uint8)
    kept = memory.kept_bytes()
    del large
    return kept


@pytest.mark.parametrize(("idle", "kept"), [(2 * MIB, 2 * MIB), (2 * MIB + 1, 0)])
def test_a_quarter_more_than_is_lent_may_be_there(idle, kept):
    assert kept_beside_8_mib(idle) == kept


def test_what_was_lent_at_once_before_counts_until_it_is_forgotten():
    """After 16 MiB were lent so much may lie idle beside 1 MiB."""
    large = memory.empty((16 * MIB,), np.uint8)
    del large
    small = memory.empty((MIB,), np.uint8)
    assert memory.kept_bytes() == 16 * MIB
    del small
    memory.clear()
    assert kept_beside_8_mib(2 * MIB + 1) == 0


def test_a_block_that_cannot_be_had_is_not_counted(monkeypatch):
    def refuse(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(memory.np, "empty", refuse)
        with pytest.raises(MemoryError):
            memory.empty((64 * MIB,), np.uint8)
    assert kept_beside_8_mib(2 * MIB + 1) == 0


def test_many_threads():
    wrong = []

    def work(value):
        for _ in range(200):
            a = memory.empty(SHAPE, np.float32)
            a[::50] = value
            if not (a[::50] == value).all():
                wrong.append(value)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
