"""Colours: moments, principal components, and noise along them."""

import numpy as np
import pytest

from minicnn.data.colour import Colours
from minicnn.data.dataset import DataError


def some_colours():
    """Of random pixels whose channels have different ranges; and the pixels, in 0 .. 1."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3)) * np.array([1.0, 0.5, 0.2])
    pixels = pixels.astype(np.uint8)
    return Colours.of(pixels), pixels.reshape(-1, 3) / 255


def test_they_are_the_moments_and_principal_components():
    colours, flat = some_colours()
    assert colours.images == 4
    np.testing.assert_allclose(colours.mean, flat.mean(axis=0))
    np.testing.assert_allclose(colours.std, flat.std(axis=0))
    p, values = np.array(colours.components), np.array(colours.eigenvalues)
    np.testing.assert_allclose(p.T @ np.diag(values) @ p, np.cov(flat.T, bias=True), atol=1e-12)
    np.testing.assert_allclose(p @ p.T, np.eye(3), atol=1e-12)
    assert (np.diff(values) < 0).all()
    assert (p[np.arange(3), np.abs(p).argmax(axis=1)] > 0).all()  # the sign is fixed


def test_noise_is_along_the_components():
    """sum_i alpha_i lambda_i p_i."""
    colours, _ = some_colours()
    p, values = np.array(colours.components), np.array(colours.eigenvalues)
    np.testing.assert_allclose(colours.noise(np.array([[0, 1, 0]])), [values[1] * p[1]])
    both = values[0] * p[0] - 2 * values[2] * p[2]
    np.testing.assert_allclose(colours.noise(np.array([[1, 0, -2], [0, 0, 0]])), [both, np.zeros(3)], atol=1e-15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": [1, 2]},
        {"mean": [1, 1, 2]},
        {"std": [0.0, 1.0, 1.0]},
        {"eigenvalues": [1, 2, float("nan")]},
        {"components": 3},
    ],
)
def test_what_is_stored_comes_back_and_nonsense_is_refused(wrong):
    colours, _ = some_colours()
    assert Colours.from_json(colours.as_json()) == colours
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Colours.from_json(colours.as_json() | wrong)


def test_colours_of_nothing():
    with pytest.raises(DataError, match="the same in all pixels"):
        Colours.of(np.full((1, 2, 2, 3), 7, np.uint8))
    with pytest.raises(DataError, match="no picture"):
        Colours.of([])
