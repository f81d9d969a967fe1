"""Streams: the right bits, the same bits wherever they are drawn."""

import hashlib
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import nn, random
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.random import Stream
from reference.philox import philox, uniform16


def test_the_reference_is_philox():
    """Known answers of the Random123 library, philox4x64 with 10 rounds."""
    assert philox((0, 0, 0, 0), (0, 0)) == (
        0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B,
    )  # fmt: skip
    ones = 2**64 - 1
    assert philox((ones,) * 4, (ones,) * 2) == (
        0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0,
    )  # fmt: skip


@given(
    st.integers(0, 2**40), st.integers(0, 2**33), st.integers(0, 2**20), st.integers(0, 3), st.integers(1, 40)
)  # fmt: skip
def test_uniform16_equals_the_reference(seed, step, first, samples, size):
    key = struct.unpack("<QQ", hashlib.blake2b(f'[{seed}, "a", "b.c"]'.encode(), digest_size=16).digest())
    ours = Stream(seed).child("a", "b.c").at(step, first).uniform16(samples, size)
    assert ours.dtype == np.uint16
    np.testing.assert_array_equal(ours, uniform16(key, step, first, samples, size))


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 40))
def test_a_sample_has_its_bits_whatever_is_drawn_with_it(before, after, size):
    stream = Stream(7).child("dropout", "3").at(step=9)
    whole = stream.uniform16(before + 1 + after, size)
    alone = stream.at(step=9, first=before).uniform16(1, size)
    np.testing.assert_array_equal(whole[before : before + 1], alone)


def test_streams_of_other_names_seeds_steps_and_kinds_differ():
    streams = [
        Stream(0),
        Stream(1),
        Stream(0).child("a"),
        Stream(0).child("a", "b"),
        Stream(0).child("a.b"),
        Stream(0).at(1),
    ]
    draws = [s.generator().integers(0, 2**63) for s in streams] + [int(streams[0].uniform16(1, 4).view("u8")[0, 0])]
    assert len(set(draws)) == len(draws)


def test_a_stream_does_not_remember():
    stream = Stream(3).child("init")
    np.testing.assert_array_equal(stream.generator().normal(size=5), stream.generator().normal(size=5))


def test_uniform16_is_uniform():
    counts = np.bincount(Stream(0).uniform16(64, 4096).ravel() >> 8, minlength=256)
    chi_square = ((counts - 1024) ** 2 / 1024).sum()
    assert 150 < chi_square < 380  # 255 degrees of freedom: outside with probability < 1e-6


@pytest.mark.parametrize("bad", [{"seed": -1}, {"seed": 0, "step": -1}, {"seed": 0, "first": -1}])
def test_negative_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="must not be negative"):
        Stream(**bad)


def written(purpose, **names):
    """What the line of minicnn/random.py that begins with this purpose evaluates to."""
    (line,) = re.findall(rf'^    (Stream\(seed\)\.child\("{purpose}".*?)  ', random.__doc__, re.MULTILINE)
    return eval(line, {"Stream": Stream, **names})


def test_the_streams_that_the_docstring_names_are_those_of_the_library():
    seed, epoch, step, n = 5, 3, 1234, 4
    model = nn.Sequential(conv1=nn.Conv2d(2, 3, 3), drop1=nn.Dropout(0.3)).initialise(seed)
    weight = model["conv1"].weight
    by_hand = nn.init.he_normal(weight.shape, written("init", seed=seed))
    np.testing.assert_array_equal(weight.data, by_hand.astype(np.float32))

    images, labels = np.arange(9 * 48, dtype=np.uint8).reshape(9, 4, 4, 3), np.arange(9)
    batches = Batches(images, labels, 9, normalise=Normaliser.of(images), augmentation=Augmentation(), seed=seed)
    np.testing.assert_array_equal(batches.draw(epoch)[0], written("shuffle", seed=seed, epoch=epoch).permutation(9))

    x = np.ones((n, 5, 5, 2), np.float32)
    before = model["conv1"](x).data
    y = model(x, train=True, stream=Stream(seed).child("dropout").at(step)).data
    bits = written("dropout", seed=seed, step=step, n=n, size=before[0].size)
    np.testing.assert_array_equal(y != 0, (bits >= round(0.3 * 65536)).reshape(y.shape) & (before != 0))


def test_names_go_level_by_level():
    model = nn.Sequential(block1=nn.Sequential(nn.Linear(2, 3))).initialise(7)
    by_hand = nn.init.he_normal((2, 3), Stream(7).child("init", "block1", "0", "weight").generator())
    np.testing.assert_array_equal(model["block1"]["0"].weight.data, by_hand.astype(np.float32))


def test_another_step_is_of_the_same_samples():
    stream = Stream(0).at(1, first=5)
    assert stream.at(2) == Stream(0, step=2, first=5)
    assert stream.at(2, first=0) == Stream(0, step=2)


def test_integers_of_numpy_are_integers():
    for kind in (np.int64, np.int32, np.uint8, np.array):
        stream = Stream(kind(3), ("a",), kind(2), kind(1))
        assert stream == Stream(3, ("a",), 2, 1)
        np.testing.assert_array_equal(stream.uniform16(2, 5), Stream(3, ("a",), 2, 1).uniform16(2, 5))
    with pytest.raises(TypeError, match=r"Stream: seed must be an integer, got 0\.5"):
        Stream(0.5)
