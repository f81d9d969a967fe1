"""Unfold and fold: adjoint, and equal to the loops; arguments that make no sense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.windows
from minicnn.gradcheck import check_adjoint
from minicnn.ops.windows import Windows, fold, unfold
from tests import draw
from tests.devices import on_devices


@on_devices
@given(data=st.data())
def test_unfold_and_fold_equal_the_loops_and_are_adjoint(device, data):
    arrays, static = data.draw(st.composite(draw.conv)())
    x, k = arrays[0], arrays[1].shape[:2]
    there = device.put(x)
    windows = Windows.over("test", there, k, static["stride"], static["pad"])
    rows = unfold(there, windows)
    np.testing.assert_array_equal(device.get(rows), reference.windows.unfold(x, k=k, **static))
    np.testing.assert_allclose(
        device.get(fold(rows, windows)),
        reference.windows.fold(device.get(rows), shape=x.shape, **static),
        rtol=1e-12,
        atol=1e-12,
    )
    check_adjoint(lambda a: unfold(a, windows), lambda r: fold(r, windows), there)


def test_unfold_of_an_unpadded_image_is_a_view():
    x = np.zeros((1, 5, 5, 2))
    assert np.shares_memory(unfold(x, Windows.over("test", x, 3, 2, 0)), x)


@given(
    st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.booleans()
)  # fmt: skip
def test_output_sizes_equal_the_reference(size, k, stride, before, after, ceil):
    x = np.zeros((1, size, 9, 1))
    try:
        expected = reference.windows.output_size(size, k, stride, before, after, ceil)
    except ValueError:
        with pytest.raises(ValueError, match="kernel"):
            Windows.over("test", x, (k, 1), stride, ((before, after), (0, 0)), ceil)
    else:
        assert Windows.over("test", x, (k, 1), stride, ((before, after), (0, 0)), ceil).out[0] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be an integer >= 1 or a pair of them, got 0"),
        ({"k": 2.0}, r"k must be an integer >= 1 .* got 2\.0"),
        ({"k": (1, 2, 3)}, r"got \(1, 2, 3\)"),
        ({"stride": 0}, "stride must be an integer >= 1"),
        ({"stride": (1, -1)}, "stride must be an integer >= 1"),
        ({"pad": -1}, "pad must be an integer >= 0"),
        ({"pad": ((0, 1), 2)}, r"pad must be an integer >= 0 .* got \(\(0, 1\), 2\)"),
        ({"pad": ((0, -1), (0, 0))}, "pad must be an integer >= 0"),
        ({"pad": ((0, 0), (0, 0), (0, 0))}, "pad must be an integer >= 0"),
        ({"k": 5}, r"the kernel \(5\) is larger than the padded image \(4 \+ 0 \+ 0\), x has shape \(1, 4, 4, 1\)"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"test: .*{message}"):
        Windows.over("test", np.zeros((1, 4, 4, 1)), **{"k": 2, "stride": 1, "pad": 0, **arguments})


def test_windows_of_other_images_are_refused():
    """Not read: the memory behind an image that is smaller than its windows say."""
    windows = Windows.over("test", np.zeros((1, 8, 8, 1)), 3, 1, 0)
    with pytest.raises(ValueError, match=r"unfold: x must have shape \('N', 8, 8, 'C'\), got \(1, 4, 4, 1\)"):
        unfold(np.ones((1, 4, 4, 1)), windows)
    with pytest.raises(
        ValueError, match=r"fold: rows must have shape \('N', 6, 6, 3, 3, 'C'\), got \(1, 1, 6, 3, 3, 1\)"
    ):
        fold(np.ones((1, 1, 6, 3, 3, 1)), windows)
