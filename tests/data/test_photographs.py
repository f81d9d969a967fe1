"""The pipeline: order and bits whatever the number of processes, damaged files, colours that are kept."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from minicnn.data.colour import Colours
from minicnn.data.dataset import DataError
from minicnn.data.decode import View, decode
from minicnn.data.folders import picture_set
from minicnn.data.photographs import BadImages, PhotoBatches, colours_of, normalise, squares
from minicnn.data.workers import CHUNK, Decoders
from tests.data.photos import CLASSES, write_bad_files, write_odd_files, write_set
from tests.ranks import Thread

SIDE, CROP = 40, 36


@pytest.fixture(scope="module")
def one():
    with Decoders(1, SIDE) as decoders:
        yield decoders


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Good and odd files."""
    root = write_set(tmp_path_factory.mktemp("photos") / "data", each=14)
    write_odd_files(root / "train" / CLASSES[1])
    return root


@pytest.fixture(scope="module")
def data(root):
    return picture_set(root)


@pytest.fixture(scope="module")
def colours(data):
    return Colours.of(decode(View(data.train.path(i), SIDE), SIDE) for i in range(14))


def make(data, colours, decoders, **options):
    given = {"batch": 20, "crop": CROP, "bad": BadImages(), "seed": 3} | options
    return PhotoBatches(data.train, colours=colours, decoders=decoders, **given)


def test_batches_do_not_depend_on_the_number_of_processes_nor_on_the_start(data, colours, one):
    batches = make(data, colours, one)
    assert len(batches) == 3
    first = list(batches.epoch(1))
    assert [len(labels) for _, labels in first] == [20, 20, 14]
    assert first[0][0].shape == (20, CROP, CROP, 3)
    assert first[0][0].dtype == np.float32
    with Decoders(3, SIDE) as three:
        second = list(make(data, colours, three).epoch(1))
    for (x, y), (u, v) in zip([*first, *first[2:]], [*second, *batches.epoch(1, start=2)], strict=True):
        np.testing.assert_array_equal(x, u)
        np.testing.assert_array_equal(y, v)
    every = np.concatenate([labels for _, labels in first])
    np.testing.assert_array_equal(np.sort(every), np.sort(data.train.labels))
    other = next(iter(batches.epoch(2)))
    assert (other[0] != first[0][0]).any()


def test_ranks_have_equal_parts_of_the_same_batches(data, colours, one):
    whole = list(make(data, colours, one).epoch(1))
    ranks = [list(make(data, colours, one, cluster=Thread(rank, 3, None, None)).epoch(1)) for rank in range(3)]
    assert [[len(labels) for _, labels in rank] for rank in ranks] == [[6, 6, 4], [7, 7, 5], [7, 7, 5]]
    for parts, batch in zip(zip(*ranks, strict=True), whole, strict=True):
        for together, one_array in zip(zip(*parts, strict=True), batch, strict=True):
            np.testing.assert_array_equal(np.concatenate(together), one_array)


def test_what_a_batch_consists_of(data, colours, one):
    """Without noise and room for crops: the squares themselves, or mirrored, normalised."""
    batches = make(data, colours, one, crop=SIDE, colour=0.0, batch=len(data.train))
    ((x, labels),) = batches.epoch(0)
    assert (labels != data.train.labels).any()  # shuffled
    plain = {}
    for i in range(14):
        square = decode(View(data.train.path(i), SIDE), SIDE)
        plain[i] = colours.normaliser(square[None])[0]
    either = [*plain.values(), *(p[:, ::-1] for p in plain.values())]
    assert sum(any(np.allclose(image, p, atol=1e-5) for p in either) for image in x[labels == 0]) == 14


def test_normalisation_with_noise():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3)).astype(np.uint8)
    colours = Colours.of(pixels)
    noise = np.random.default_rng(1).normal(size=(3, 3))
    out = np.empty(pixels.shape, np.float32)
    normalise(pixels, colours.normaliser, noise, out=out)
    expected = (pixels / 255 + noise[:, None, None] - np.array(colours.mean)) / np.array(colours.std)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_colours_are_kept(data, one, tmp_path, capsys):
    colours = colours_of(data.train, one, BadImages(), tmp_path)
    assert colours.images == len(data.train)
    (path,) = (tmp_path / "colours").iterdir()
    path.write_text(path.read_text().replace(f'"images": {colours.images}', '"images": 7'))
    assert colours_of(data.train, one, BadImages(), tmp_path).images == 7
    path.write_text("{")
    assert colours_of(data.train, one, BadImages(), tmp_path) == colours
    (tmp_path / "file").touch()
    assert colours_of(data.train, one, BadImages(), tmp_path / "file") == colours
    assert "cannot be kept for the next time" in capsys.readouterr().err


def test_squares_come_in_order(data, one):
    parts = list(squares(data.validation, one, BadImages(), batch=4))
    images, labels = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    np.testing.assert_array_equal(labels, data.validation.labels)
    for i, image in enumerate(images):
        np.testing.assert_array_equal(image, decode(View(data.validation.path(i), SIDE), SIDE))


def test_damaged_files(tmp_path, colours, one, capsys):
    root = write_set(tmp_path / "data", each=8)
    reasons = write_bad_files(root / "train" / CLASSES[2])
    data = picture_set(root)
    with pytest.raises(DataError, match="or have such files skipped"):
        list(make(data, colours, one).epoch(0))
    bad = BadImages("skip")
    for _ in range(2):
        labels = np.concatenate([y for _, y in make(data, colours, one, bad=bad).epoch(0)])
        assert len(labels) == 24
    err = capsys.readouterr().err
    for name, reason in reasons.items():
        (line,) = [line for line in err.splitlines() if f"/{name}: " in line]
        assert reason in line
    assert len(bad.seen) == len(reasons)
    ((images, _),) = squares(data.train, one, bad, batch=100)
    assert len(images) == 24
    sizes = [len(labels) for _, labels in make(data, colours, one, bad=bad, batch=1).epoch(0)]
    assert sorted(sizes) == [0] * len(reasons) + [1] * 24
    for path in root.glob("train/*/n*.JPEG"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="none of the 20 pictures of batch 1 can be decoded"):
        list(make(data, colours, one, bad=bad).epoch(0))


def test_batches_end_at_the_same_pictures_whether_some_are_bad_or_not(tmp_path, one):
    """So ranks that begin with a later batch have the same ones as a single process."""
    root = write_set(tmp_path / "data", each=40)
    data = picture_set(root).train
    whole = [len(labels) for _, labels in squares(data, one, BadImages(), batch=2 * CHUNK)]
    Path(data.path(3)).write_bytes(b"")
    with_bad = [len(labels) for _, labels in squares(data, one, BadImages("skip"), batch=2 * CHUNK)]
    assert with_bad == [whole[0] - 1, *whole[1:]]
    assert len(whole) > 2


def test_stopping_early_leaves_the_processes_ready(data, colours, one):
    batches = make(data, colours, one, batch=2)
    for _ in range(3):
        with closing(batches.epoch(0)) as epoch:
            x, _ = next(epoch)
    assert (x == next(iter(batches.epoch(0)))[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"crop": 41}, "no crop of 41"), ({"batch": 0}, "batches of 0")],
)
def test_nonsense_is_refused(data, colours, one, options, message):
    with pytest.raises(ValueError, match=message):
        make(data, colours, one, **options)
