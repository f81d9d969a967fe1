"""Streams: the right bits, the same bits wherever they are drawn."""

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
