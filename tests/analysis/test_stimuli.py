"""Flips, rotations, shifts and crops: by hand, against SciPy, on every device."""

import numpy as np
import pytest
from scipy import ndimage

from minicnn.analysis.stimuli import STIMULI, cifar_stimuli, flip, imagenet_stimuli, rotate, translate
from tests.devices import on_devices


@on_devices
def test_a_flip_is_left_to_right(device):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3, 1)
    assert device.get(flip(device.put(x))).ravel().tolist() == [2, 1, 0, 5, 4, 3]


@pytest.mark.parametrize(
    ("fill", "corner"), [("edge", [1, 1, 2, 1, 1, 2, 4, 4, 5]), ("mean", [0, 0, 0, 0, 1, 2, 0, 4, 5])]
)
@on_devices
def test_a_shift_down_and_right(fill, corner, device):
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
    assert device.get(translate(device.put(x), 1, 1, fill=fill)).ravel().tolist() == corner


@on_devices
def test_a_quarter_turn_is_counterclockwise(rng, device):
    x = rng.normal(size=(2, 5, 5, 3)).astype(np.float32)
    got = device.get(rotate(device.put(x), 90))
    np.testing.assert_allclose(got, np.rot90(x, axes=(1, 2)), atol=1e-6)


@pytest.mark.parametrize("shape", [(32, 32), (7, 10), (1, 5)])
def test_rotation_is_scipys(rng, shape):
    """scipy.ndimage.affine_transform with the matrix of the docstring; "nearest" is our "edge"."""
    x, t = rng.normal(size=(1, *shape, 1)), np.deg2rad(15)
    matrix = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
    centre = (np.array(shape) - 1) / 2
    expected = ndimage.affine_transform(x[0, ..., 0], matrix, centre - matrix @ centre, order=1, mode="nearest")
    np.testing.assert_allclose(rotate(x, 15)[0, ..., 0], expected, atol=1e-7)
    assert rotate(x.astype(np.float32), 15).dtype == np.float32


def test_zeros_come_in_where_asked_and_nowhere_else():
    x = np.ones((1, 32, 32, 1))
    turned = rotate(x, 15, fill="mean")[0, ..., 0]
    assert turned[0, 0] == 0
    np.testing.assert_allclose(turned[8:24, 8:24], 1)
    np.testing.assert_allclose(rotate(x, 15), 1)
    np.testing.assert_allclose(rotate(rotate(x, 0), 0, fill="mean"), 1)


def test_cifar_has_six_transformations(rng):
    x = rng.normal(size=(2, 32, 32, 3)).astype(np.float32)
    stimuli = cifar_stimuli()
    assert stimuli.original(x) is x
    assert list(stimuli.transforms) == ["flip", "rotation", "up", "down", "left", "right"]
    np.testing.assert_array_equal(stimuli.transforms["left"](x)[:, :, :-3], x[:, :, 3:])
    np.testing.assert_array_equal(stimuli.transforms["up"](x)[:, :-3], x[:, 3:])
    np.testing.assert_array_equal(stimuli.transforms["right"](x)[:, :, 3:], x[:, :, :-3])
    np.testing.assert_array_equal(stimuli.transforms["down"](x)[:, 3:], x[:, :-3])
    np.testing.assert_array_equal(stimuli.transforms["flip"](x), x[:, :, ::-1])
    for fill in ("edge", "mean"):
        np.testing.assert_array_equal(cifar_stimuli(fill=fill).transforms["rotation"](x), rotate(x, 15, fill=fill))
    assert not np.array_equal(rotate(x, 15), rotate(x, 15, fill="mean"))


def test_imagenet_takes_crops(rng):
    x = rng.normal(size=(1, 9, 8, 3)).astype(np.float32)
    stimuli = imagenet_stimuli(crop=4)
    np.testing.assert_array_equal(stimuli.original(x), x[:, 2:6, 2:6])
    assert len(stimuli.transforms) == 6
    corners = {"top left": x[:, :4, :4], "top right": x[:, :4, 4:]}
    corners |= {"bottom left": x[:, 5:, :4], "bottom right": x[:, 5:, 4:]}
    for name, corner in corners.items():
        np.testing.assert_array_equal(stimuli.transforms[name](x), corner)
    centre = x[:, 2:6, 2:6]
    for fill in ("edge", "mean"):
        turned = imagenet_stimuli(crop=4, fill=fill).transforms["rotation"](x)
        np.testing.assert_array_equal(turned, rotate(centre, 15, fill=fill))
    np.testing.assert_array_equal(stimuli.transforms["flip"](x), x[:, 2:6, 2:6][:, :, ::-1])
    assert {t(x).shape for t in stimuli.transforms.values()} == {(1, 4, 4, 3)}
    with pytest.raises(ValueError, match="no crop of 10x10"):
        imagenet_stimuli(crop=10).original(x)
    assert set(STIMULI) == {"cifar", "imagenet"}


@pytest.mark.parametrize("work", [lambda x: rotate(x, 5, fill="sky"), lambda x: translate(x, 1, 0, fill="sky")])
def test_unknown_fills_are_refused(work):
    with pytest.raises(ValueError, match="edge, mean"):
        work(np.zeros((1, 2, 2, 1)))
