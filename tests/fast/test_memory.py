"""Memory that is used again: never while somebody can still see it."""

import gc
import threading

import numpy as np
import pytest

from minicnn.fast.cpu import memory

SHAPE = (300, 1000)  # of float32: above the least size


@pytest.fixture(autouse=True)
def empty_shelf():
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


def test_what_one_gets():
    a = memory.empty(SHAPE, np.float64)
    assert (a.shape, a.dtype) == (SHAPE, np.float64)
    assert a.flags.writeable
    assert a.flags.c_contiguous
    small = memory.empty((2, 3), np.float32)
    del small
    assert memory.kept_bytes() == 0


def test_the_smallest_block_that_is_large_enough():
    large, middle = memory.empty((4, *SHAPE), np.float32), memory.empty((2, *SHAPE), np.float32)
    where = address(middle)
    del large, middle
    small = memory.empty(SHAPE, np.float32)
    assert (address(small), small.shape) == (where, SHAPE)
    assert memory.kept_bytes() == 4 * 1_200_000


def test_no_block_that_is_far_too_large():
    large = memory.empty((9, *SHAPE), np.float32)
    where = address(large)
    del large
    assert address(memory.empty(SHAPE, np.float32)) != where


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
