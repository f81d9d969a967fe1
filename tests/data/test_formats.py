"""Bytes to images and labels: the two forms agree, and damage is a DataError."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.data.dataset import DataError
from minicnn.data.formats import Binary, Pickled
from tests.data.mini import dumps, mini


def test_a_record_by_hand():
    red, green, blue = bytes([1]) * 1024, bytes([2]) * 1024, bytes([3]) * 1023 + bytes([4])
    images, labels = Binary(label_bytes=2).parse(bytes([7, 9]) + red + green + blue)
    assert images.shape == (1, 3, 32, 32)
    assert [images[0, c, 0, 0] for c in range(3)] == [1, 2, 3]
    assert images[0, 2, 31, 31] == 4
    assert labels.tolist() == [9]  # the fine label, not the coarse


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_both_forms_give_the_same(label_bytes):
    small = mini(label_bytes)
    binary, pickled = small.source.versions
    for one, other in zip(binary.files, pickled.files, strict=True):
        a = binary.format.parse(small.contents[binary.folder][one.name])
        b = pickled.format.parse(small.contents[pickled.folder][other.name])
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


DATA = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([], "not a dictionary"),
        ({}, "no 'data'"),
        ({b"data": b"abc"}, "no 'data'"),
        ({b"data": np.zeros((2, 3071), np.uint8)}, "no 'data'"),
        ({b"data": DATA}, "no 'labels' with 2 integers"),
        ({b"data": DATA, b"labels": [1]}, "no 'labels' with 2 integers"),
        ({b"data": DATA, b"labels": (1, 2)}, "no 'labels' with 2 integers"),
        ({b"data": DATA, b"labels": [1, b"2"]}, "no 'labels' with 2 integers"),
        ({b"data": DATA, b"labels": [1, False]}, "no 'labels' with 2 integers"),
        ({b"data": DATA, b"labels": [1, [[]]]}, "no 'labels' with 2 integers"),
    ],
)
def test_a_pickle_of_something_else(batch, message):
    with pytest.raises(DataError, match=message):
        Pickled(b"labels").parse(dumps(batch))


@pytest.mark.parametrize("size", [0, 1, 3072, 3074])
def test_a_binary_file_of_no_whole_records(size):
    with pytest.raises(DataError, match="not records of 3,073"):
        Binary(label_bytes=1).parse(bytes(size))


@given(st.data())
def test_damage_is_an_error_or_harmless(data):
    """With no checksum in the way."""
    content = bytearray(dumps({b"labels": [1, 2], b"data": DATA}))
    edge = st.integers(0, 120) | st.integers(len(content) - 20, len(content) - 1)  # most of the rest is pixels
    for position in data.draw(st.lists(edge, min_size=1, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    for form in (Pickled(b"labels"), Binary(label_bytes=1)):
        for damaged in (content, content[: data.draw(edge)]):
            try:
                images, labels = form.parse(bytes(damaged))
            except DataError:
                continue
            assert images.shape == (len(labels), 3, 32, 32)
            assert images.dtype == np.uint8
