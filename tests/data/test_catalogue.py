"""Data sets by name."""

import pytest

from minicnn.data.catalogue import CATALOGUE, load


def test_the_catalogue_says_what_a_data_set_has():
    made, entry = load("textures"), CATALOGUE["textures"]
    assert len(made.classes) == entry.classes
    assert (len(made.train_labels), len(made.test_labels)) == (entry.train, entry.test)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there is no 'mnist'; choose from cifar10, cifar100, textures"):
        load("mnist")
