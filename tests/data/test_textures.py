"""The procedural data set: deterministic, balanced, of any size, learnable by eye."""

import numpy as np
import pytest

from minicnn.data.textures import PATTERNS, textures


def test_shapes_and_balance():
    data = textures(1000, 500)
    assert data.train_images.shape == (1000, 32, 32, 3)
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert data.classes == tuple(PATTERNS)
    np.testing.assert_array_equal(np.bincount(data.train_labels), 100)
    np.testing.assert_array_equal(np.bincount(data.test_labels), 50)


def test_an_image_depends_on_seed_split_and_index_alone():
    small, large, other = textures(30, 20), textures(700, 600), textures(30, 20, seed=1)
    np.testing.assert_array_equal(small.train_images, large.train_images[:30])
    np.testing.assert_array_equal(small.test_labels, large.test_labels[:20])
    assert (small.train_images != other.train_images).any()
    assert (small.train_images[:20] != small.test_images).any()


def test_no_image_is_flat():
    images = textures(500, 1).train_images.astype(float)
    assert images.std((1, 2, 3)).min() > 5


def test_stripes_go_the_way_they_are_called():
    data = textures(500, 1)
    x = data.train_images.astype(float).mean(3)
    for name, along, across in (("horizontal stripes", 2, 1), ("vertical stripes", 1, 2)):
        of_class = x[data.train_labels == data.classes.index(name)]
        assert of_class.std(along).mean() < of_class.std(across).mean()


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_nonsense_is_refused(sizes):
    with pytest.raises(ValueError, match="at least one image in each split"):
        textures(*sizes)
