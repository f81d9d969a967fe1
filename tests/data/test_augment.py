"""Normalisation, flips, shifts and crops, worked out by hand."""

import math

import numpy as np
import pytest

from minicnn.data.augment import MIRRORED, SIX, TEN, Augmentation, Normaliser, cut, flip_and_shift
from minicnn.random import Stream

RNG = np.random.default_rng(0)


def test_the_training_set_has_mean_0_and_deviation_1():
    images = RNG.integers(0, 256, (50, 8, 8, 3), dtype=np.uint8)
    x = Normaliser.of(images)(images)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std((0, 1, 2)), 1, atol=1e-5)


def test_moments_by_hand():
    """Half black, half white: mean 1/2, deviation 1/2."""
    images = np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)
    normalise = Normaliser.of(images)
    assert normalise == Normaliser((0.5,), (0.5,))
    np.testing.assert_allclose(normalise(images).ravel(), [-1, 1])


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ((0.5, 0.5), (0.25,), "one mean and one deviation for each channel, got 2 and 1"),
        ((), (), "one mean and one deviation for each channel, got 0 and 0"),
        ((125.3,), (63.0,), r"mean must be that of values 0 \.\. 1, got \(125\.3,\); divide that of bytes by 255"),
        ((math.nan,), (0.25,), r"mean must be that of values 0 \.\. 1, got \(nan,\)"),
        ((0.5, 0.5), (0.25, 0.0), r"std must be finite and positive, got \(0\.25, 0\.0\)"),
        ((0.5,), (-0.25,), "std must be finite and positive"),
        ((0.5,), (math.inf,), "std must be finite and positive"),
        ((0.5,), (math.nan,), "std must be finite and positive"),
    ],
)
def test_numbers_that_do_not_normalise_are_refused(mean, std, words):
    with pytest.raises(ValueError, match=f"Normaliser: .*{words}"):
        Normaliser(mean, std)


@pytest.mark.parametrize("shift", [-1, 1.5, None])
def test_a_shift_is_a_number_of_pixels(shift):
    with pytest.raises(ValueError, match=f"Augmentation: shift must be a number of pixels, 0 or more, got {shift}"):
        Augmentation(shift=shift)


def test_a_constant_channel_is_refused():
    with pytest.raises(ValueError, match="a channel of the training set is constant"):
        Normaliser.of(np.zeros((3, 2, 2, 1), np.uint8))
    with pytest.raises(ValueError, match=r"there are no images in an array of shape \(0, 2, 2, 1\)"):
        Normaliser.of(np.zeros((0, 2, 2, 1), np.uint8))


BYTES = RNG.integers(0, 256, (4, 8, 6, 3), dtype=np.uint8)


@pytest.mark.parametrize("images", [BYTES / 255, (BYTES / 255).astype(np.float32), BYTES.astype(int), BYTES.tolist()])
def test_images_that_are_not_bytes_are_refused(images):
    """Divided by 255 once more, they would all look alike to a network."""
    for give in (Normaliser.of, Normaliser((0.5,) * 3, (0.25,) * 3)):
        with pytest.raises(TypeError, match=r"Normaliser.*: images must be .*uint8, \(N, H, W, C\), got "):
            give(images)


def test_the_remedy_for_images_from_0_to_1_gives_the_bytes():
    with pytest.raises(TypeError, match=r"\(255 \* images\).round\(\).astype\('uint8'\)"):
        Normaliser.of(BYTES / 255)
    np.testing.assert_array_equal((255 * (BYTES / 255)).round().astype("uint8"), BYTES)


def test_channels_before_pixels_are_recognised():
    normalise = Normaliser((0.5,) * 3, (0.25,) * 3)
    turned = np.ascontiguousarray(BYTES.transpose(0, 3, 1, 2))  # 4x3x8x6
    for give in (Normaliser.of, normalise):
        with pytest.raises(ValueError, match=r"\(4, 3, 8, 6\) looks like \(N, C, H, W\); .*transpose\(0, 2, 3, 1\)"):
            give(turned)
    np.testing.assert_array_equal(turned.transpose(0, 2, 3, 1), BYTES)
    normalise(BYTES[:, :3])  # three rows of pixels are not channels
    normalise(BYTES[:, :3, :, :])
    with pytest.raises(ValueError, match=r"have 1 channels, the mean and the deviation 3"):
        normalise(BYTES[..., :1])
    with pytest.raises(ValueError, match=r"four axes.*add the axis of the channels: images\[..., None\]"):
        Normaliser.of(BYTES[..., 0])


@pytest.mark.parametrize(
    ("flip", "shift", "expected"),
    [
        (False, (0, 0), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (True, (0, 0), [[3, 2, 1], [6, 5, 4], [9, 8, 7]]),
        (False, (1, -1), [[0, 0, 0], [2, 3, 0], [5, 6, 0]]),  # down, and to the left: zeros move in
        (True, (1, -1), [[0, 0, 0], [2, 1, 0], [5, 4, 0]]),  # the flip comes first
        (False, (-3, 1), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),  # out of sight
    ],
)
def test_flip_and_shift_by_hand(flip, shift, expected):
    x = np.arange(1.0, 10).reshape(1, 3, 3, 1)
    y = flip_and_shift(x, np.array([flip]), np.array([shift]))
    np.testing.assert_array_equal(y[0, :, :, 0], expected)
    np.testing.assert_array_equal(x.ravel(), np.arange(1.0, 10))  # the argument is left alone


@pytest.mark.parametrize(
    ("flip", "shift", "expected"),
    [
        (False, (1, -1), [[5, 6, 5], [2, 3, 2], [5, 6, 5]]),  # 4 5 6 lies inside of the upper edge, 2 5 8 of the right
        (True, (0, 2), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (False, (0, 0), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
    ],
)
def test_mirrored_pixels_move_in(flip, shift, expected):
    x = np.arange(1.0, 10).reshape(1, 3, 3, 1)
    y = flip_and_shift(x, np.array([flip]), np.array([shift]), reflect=True)
    np.testing.assert_array_equal(y[0, :, :, 0], expected)


def test_six_views():
    """The image and its mirror image, each as it is and moved by a pixel down and right, up and left."""
    x = np.arange(1, 10, dtype=np.uint8).reshape(1, 3, 3, 1)
    seen = [view.of(x)[0, :, :, 0].tolist() for view in SIX]
    plain = [[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[5, 4, 5], [2, 1, 2], [5, 4, 5]], [[5, 6, 5], [8, 9, 8], [5, 6, 5]]]
    assert seen[:3] == plain
    assert seen[3] == [[3, 2, 1], [6, 5, 4], [9, 8, 7]]
    assert seen[4] == [[5, 6, 5], [2, 3, 2], [5, 6, 5]]
    assert seen[5] == [[5, 4, 5], [8, 7, 8], [5, 4, 5]]
    assert (SIX[0], SIX[3]) == MIRRORED


def test_each_image_goes_its_own_way():
    x = np.stack([np.eye(3), np.eye(3)])[..., None]
    y = flip_and_shift(x, np.array([True, False]), np.array([[0, 0], [2, 0]]))
    np.testing.assert_array_equal(y[0, :, :, 0], np.eye(3)[:, ::-1])
    np.testing.assert_array_equal(y[1, :, :, 0], [[0, 0, 0], [0, 0, 0], [1, 0, 0]])


def test_draws():
    flips, shifts = Augmentation(flip=True, shift=4).draw(10_000, Stream(0))
    assert 0.47 < flips.mean() < 0.53
    assert set(shifts.ravel()) == set(range(-4, 5))
    flips, shifts = Augmentation(flip=False).draw(100, Stream(0))
    assert not flips.any()
    assert not shifts.any()


def test_the_ten_crops_in_order():
    """The four corners and the centre, then the same mirrored; of pictures that are wider than high."""
    images = np.arange(2 * 6 * 8 * 3).reshape(2, 6, 8, 3)
    five = [images[:, :4, :4], images[:, :4, 4:], images[:, 2:, :4], images[:, 2:, 4:], images[:, 1:5, 2:6]]
    for crop, expected in zip(TEN, [*five, *(part[:, :, ::-1] for part in five)], strict=True):
        np.testing.assert_array_equal(cut(images, crop, 4), expected)


@pytest.mark.parametrize("size", [0, 5])
def test_a_crop_that_does_not_fit_is_refused(size):
    with pytest.raises(ValueError, match="does not fit in images of 4x6"):
        cut(np.zeros((1, 4, 6, 3)), TEN[4], size)
