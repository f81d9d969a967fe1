"""Folders of pictures as data sets: layouts, labels, names, and what does not fit."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from minicnn.data.dataset import DataError
from minicnn.data.folders import picture_set, pictures_in, small_images
from tests.data.photos import CLASSES, write_bad_files, write_odd_files, write_set


@pytest.fixture
def root(tmp_path):
    return write_set(tmp_path / "data", each=3, validation=2)


def flatten(root):
    """val/<class>/<file> to val/<file>; the labels by file."""
    labels = {}
    for path in sorted((root / "val").glob("*/*")):
        labels[path.name] = path.parent.name
        path.rename(root / "val" / path.name)
    for name in CLASSES:
        (root / "val" / name).rmdir()
    return labels


def test_the_standard_layout(root):
    data = picture_set(root)
    assert data.classes == data.readable == CLASSES
    assert (len(data.train), len(data.validation)) == (9, 6)
    np.testing.assert_array_equal(data.train.labels, np.repeat([0, 1, 2], 3))
    np.testing.assert_array_equal(data.validation.labels, np.repeat([0, 1, 2], 2))
    assert data.train.names[0] == f"{CLASSES[0]}/{CLASSES[0]}_0.JPEG"
    assert os.path.isfile(data.train.path(8))


def test_without_train_and_val_every_tenth_is_kept(tmp_path):
    for name, count in (("cat", 25), ("dog", 3), ("newt", 1)):
        (tmp_path / name).mkdir()
        for i in range(count):
            (tmp_path / name / f"{i:02}.jpg").touch()
    data = picture_set(tmp_path)
    assert data.classes == ("cat", "dog", "newt")
    assert data.validation.names == ("cat/09.jpg", "cat/19.jpg", "dog/02.jpg")
    assert len(data.train) == 26


def test_a_flat_validation_folder(root):
    labels = flatten(root)
    with pytest.raises(DataError, match="no file with their labels.*name that file"):
        picture_set(root)
    expected = [CLASSES.index(labels[name]) for name in sorted(labels)]
    by_name = "".join(f"{name} {wnid}\n" for name, wnid in reversed(labels.items()))
    by_number = "".join(f"{name} {CLASSES.index(wnid)}\n" for name, wnid in labels.items())
    kaggle = "ImageId,PredictionString\n" + "".join(
        f"{name.removesuffix('.JPEG')},{wnid} 1 2 3 4 {wnid} 5 6 7 8 \n" for name, wnid in labels.items()
    )
    for name, text in (("val.txt", by_name), ("val.txt", by_number), ("LOC_val_solution.csv", kaggle)):
        (root / name).write_text(text)
        np.testing.assert_array_equal(picture_set(root).validation.labels, expected)
        (root / name).unlink()
    elsewhere = root.parent / "labels.txt"
    elsewhere.write_text(by_name)
    np.testing.assert_array_equal(picture_set(root, elsewhere).validation.labels, expected)
    elsewhere.write_text(by_name.partition("\n")[2])
    with pytest.raises(DataError, match="no label for 1 files"):
        picture_set(root, elsewhere)
    elsewhere.write_text(by_name.replace(f" {CLASSES[0]}", " n00000000"))
    with pytest.raises(DataError, match="'n00000000'.* is not a class of train"):
        picture_set(root, elsewhere)


def test_tiny_imagenet(root):
    labels = flatten(root)
    (root / "val" / "images").mkdir()
    for name in labels:
        (root / "val" / name).rename(root / "val" / "images" / name)
    (root / "val" / "val_annotations.txt").write_text("".join(f"{n}\t{w}\t0\t0\t62\t62\n" for n, w in labels.items()))
    data = picture_set(root)
    np.testing.assert_array_equal(data.validation.labels, [CLASSES.index(labels[name]) for name in sorted(labels)])
    assert data.validation.names[0].startswith("images/")


def test_the_development_kit(root):
    """Its numbers are not in the order of the names; meta.mat says which is which, and what they are called."""
    from scipy.io import savemat

    labels = flatten(root)
    number = {CLASSES[0]: 3, CLASSES[1]: 1, CLASSES[2]: 2}
    kit = root / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    truth = kit / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("".join(f"{number[labels[name]]}\n" for name in sorted(labels)))
    with pytest.raises(DataError, match="meta.mat"):
        picture_set(root)
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    rows = [(n, wnid, f"words of {wnid}", "a gloss", 0) for wnid, n in number.items()] + [(4, "n9", "animal", "", 3)]
    savemat(kit / "meta.mat", {"synsets": np.array(rows, dtype=fields).reshape(-1, 1)})
    data = picture_set(root)
    np.testing.assert_array_equal(data.validation.labels, [CLASSES.index(labels[name]) for name in sorted(labels)])
    assert data.readable == tuple(f"words of {wnid}" for wnid in CLASSES)
    truth.write_text("1\n2\n")
    with pytest.raises(DataError, match="2 labels for 6 files"):
        picture_set(root)
    (kit / "meta.mat").write_bytes(b"nonsense")
    truth.write_text("1\n" * 6)
    with pytest.raises(DataError, match="is not the meta.mat"):
        picture_set(root)


def test_names_of_classes(root):
    (root / "synset_words.txt").write_text(f"{CLASSES[0]} tench, Tinca tinca\n{CLASSES[2]} golden retriever\n")
    assert picture_set(root).readable == ("tench, Tinca tinca", CLASSES[1], "golden retriever")


def test_odd_files_links_and_others(root):
    folder = root / "train" / CLASSES[1]
    odd, bad = write_odd_files(folder), write_bad_files(folder)
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.jpg").touch()
    (folder / "deeper").mkdir()
    (folder / "deeper" / "back").symlink_to(folder)  # in a circle
    (folder / "deeper" / "one.jpg").symlink_to(folder / "grey.JPEG")
    (folder / os.fsdecode(b"\xff\xfe.jpg")).touch()
    data = picture_set(root)
    assert [os.path.basename(path) for path in data.ignored] == ["notes.txt"]
    assert (data.train.labels == 1).sum() == 3 + odd + len(bad) + 2
    assert data.train.fingerprint()["count"] == len(data.train)
    assert len(pictures_in(root)) == len(data.train) + len(data.validation)


def test_the_fingerprint_sees_names_and_labels_not_the_place(root):
    before = picture_set(root).train.fingerprint()
    moved = root.rename(root.parent / "moved")
    assert picture_set(moved).train.fingerprint() == before
    (moved / "train" / CLASSES[0] / f"{CLASSES[0]}_0.JPEG").rename(moved / "train" / CLASSES[1] / "other.JPEG")
    assert picture_set(moved).train.fingerprint() != before


def test_what_does_not_fit_is_said(root, tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        picture_set(tmp_path / "nothing")
    with pytest.raises(DataError, match="there is no folder"):
        pictures_in(tmp_path / "nothing")
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "n01440764.tar").touch()
    with pytest.raises(DataError, match="no folders of classes in it; unpack the archives"):
        picture_set(tmp_path / "archives")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty has no folders of classes in it; make one for each"):
        picture_set(tmp_path / "empty")
    (root / "val" / "n99999999").mkdir()
    with pytest.raises(DataError, match="classes that train lacks: n99999999"):
        picture_set(root)
    (root / "train" / "n99999999").mkdir()
    with pytest.raises(DataError, match="no pictures in n99999999"):
        picture_set(root)


def test_pictures_of_your_own_get_a_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("flat/a.jpg", "one/cat/a.jpg", "one/dog/a.jpg", "empty/cat/a.jpg", "empty/cat/b.jpg", "two/cat/a.jpg"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("empty/val/cat").mkdir(parents=True)
    for folder, message in {
        "flat": "flat has pictures but no folders: put those of each class into a folder of their own, flat/cat/, "
        "flat/dog/",
        "one": "one has no pictures for validation; give at least one class two pictures or more, or make one/val/ "
        "with folders of the same classes",
        "empty": "empty/val has no pictures for validation; fill it, or remove it: every tenth picture of a class is "
        "then kept for validation",
    }.items():
        with pytest.raises(DataError) as caught:
            picture_set(folder)
        assert str(caught.value) == message
    Path("two/cat/b.jpg").touch()
    assert picture_set("two").validation.names == ("cat/b.jpg",)  # the last of 2 to 9


@pytest.mark.parametrize("text", ["n01440764_0.JPEG\nn01443537_0.JPEG n01443537\n", "\u00b2\n" * 6, "\n", "9" * 5000])
def test_labels_that_are_none(root, tmp_path, text):
    """A word too few, digits that are no numbers, nothing."""
    flatten(root)
    labels = tmp_path / "labels.txt"
    labels.write_text(text)
    with pytest.raises(DataError, match="labels.txt"):
        picture_set(root, labels)


def test_labels_that_nothing_needs_are_refused(root, tmp_path):
    (tmp_path / "labels.txt").touch()
    with pytest.raises(DataError, match=r"labels.txt is for a flat val/, but .* has none: leave it out"):
        picture_set(root, tmp_path / "labels.txt")


def test_a_folder_as_arrays(tmp_path):
    """Ten pictures per class, one of each for the test; colours are kept, and the central square is what is seen."""
    for label, name in enumerate(("blue", "red")):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(10):
            pixels = np.zeros((6, 16, 3), np.uint8)
            pixels[:, 3:13] = (
                (200, 10 * i, 0) if label else (0, 10 * i, 200)
            )  # the square and a little more; else black
            Image.fromarray(pixels).save(tmp_path / "set" / name / f"{i}.png")
    data = small_images(tmp_path / "set", side=3)
    assert (data.name, data.classes) == ("set", ("blue", "red"))
    assert data.train_images.shape == (18, 3, 3, 3)
    assert data.train_images.dtype == np.uint8
    np.testing.assert_array_equal(data.train_labels, [0] * 9 + [1] * 9)
    np.testing.assert_array_equal(data.train_images[9 + 4], np.broadcast_to([200, 40, 0], (3, 3, 3)))
    np.testing.assert_array_equal(data.test_images[:, 1, 1], [[0, 90, 200], [200, 90, 0]])
    (tmp_path / "set" / "red" / "9.png").write_bytes(b"")
    with pytest.raises(DataError, match="9.png: the file is empty"):
        small_images(tmp_path / "set")
    with pytest.raises(ValueError, match="side must be positive"):
        small_images(tmp_path / "set", side=0)
