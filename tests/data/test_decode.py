"""One file at a time: geometry, odd formats, damaged files."""

import errno
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from minicnn.data import decode as module
from minicnn.data.dataset import DataError
from minicnn.data.decode import ImageError, View, decode, oddities, read_square, read_whole
from tests.data.photos import photo, write_bad_files, write_odd_files

pytestmark = pytest.mark.filterwarnings("ignore")  # Pillow's, which the worker processes ignore too


def save(tmp_path, pixels, name="x.png"):
    Image.fromarray(pixels).save(tmp_path / name)
    return str(tmp_path / name)


def test_the_square_is_the_centre(tmp_path):
    pixels = photo(np.random.default_rng(0), 64, 40)
    path = save(tmp_path, pixels)
    np.testing.assert_array_equal(decode(View(path, 40), 40), pixels[:, 12:52])
    np.testing.assert_array_equal(decode(View(path, 7, top=3, left=5, flip=True), 40), pixels[3:10, 17:24][:, ::-1])


@pytest.mark.parametrize(("width", "height"), [(64, 48), (48, 64), (30, 90), (16, 16)])
def test_a_part_is_that_part_of_the_resized_picture(tmp_path, width, height):
    """Only the part is computed, and it is the same; to a rounding, and where the sides are multiples."""
    path = save(tmp_path, photo(np.random.default_rng(1), 3 * width, 3 * height))
    square = decode(View(path, 24), 24)
    part = decode(View(path, 20, top=1, left=3), 24)
    assert np.abs(square[1:21, 3:23].astype(int) - part).max() <= 1
    with Image.open(path) as picture:
        f = min(picture.size) / 24
        whole = np.asarray(picture.resize((round(picture.width / f), round(picture.height / f)), 2), int)
    top, left = (whole.shape[0] - 24) // 2, (whole.shape[1] - 24) // 2
    if whole.shape[0] % 2 == whole.shape[1] % 2 == 0:
        assert np.abs(whole[top : top + 24, left : left + 24] - square).max() <= 1


def test_draft_mode_keeps_enough_pixels(tmp_path):
    smooth = np.asarray(Image.fromarray(photo(np.random.default_rng(2), 8, 6)).resize((800, 600), 3))
    Image.fromarray(smooth).save(tmp_path / "large.jpg", quality=95)
    png = save(tmp_path, smooth)
    difference = decode(View(str(tmp_path / "large.jpg"), 60), 60).astype(int) - decode(View(png, 60), 60)
    assert np.abs(difference).mean() < 3


def test_odd_files_are_read(tmp_path):
    count = write_odd_files(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == count
    for path in files:
        pixels = decode(View(str(path), 32), 32)
        assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8), path
        assert pixels.std() > 5, path


def test_bad_files_are_named_with_the_reason(tmp_path):
    for name, reason in write_bad_files(tmp_path).items():
        with pytest.raises(ImageError, match=reason) as caught:
            decode(View(str(tmp_path / name), 32), 32)
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("error", "damaged"),
    [
        (OSError(errno.EIO, "Input/output error"), False),
        (OSError(errno.EMFILE, "Too many open files"), False),
        (MemoryError("8 bytes"), False),
        (OSError(errno.EINVAL, "Invalid argument"), True),  # a seek to where a damaged file says
        (OSError("broken data stream"), True),
        (PermissionError(errno.EACCES, "Permission denied"), True),
    ],
)
def test_what_the_machine_does_is_no_fault_of_the_file(tmp_path, monkeypatch, error, damaged):
    """A picture that cannot be read just now must not be left out: another time it would be there."""
    path = save(tmp_path, photo(np.random.default_rng(0)))
    monkeypatch.setattr(Image, "open", mock.Mock(side_effect=error))
    with pytest.raises(DataError, match="decode") as caught:
        decode(View(path, 32), 32)
    assert isinstance(caught.value, ImageError) == damaged


def test_large_pictures_are_not_decoded(tmp_path, monkeypatch):
    path = save(tmp_path, photo(np.random.default_rng(0)))
    monkeypatch.setattr(module, "MAX_PIXELS", 60 * 48 - 1)
    with pytest.raises(ImageError, match="60x48 pixels are too many"):
        decode(View(path, 32), 32)


def test_names_that_are_not_text(tmp_path):
    with pytest.raises(ImageError) as caught:
        decode(View(str(tmp_path / "\udcff\n.jpg"), 32), 32)
    assert str(caught.value).endswith("\\udcff\\n.jpg: there is no such file")
    str(caught.value).encode()


def save_turned(tmp_path, pixels):
    """As by a camera that was turned: to be rotated by 90 degrees clockwise."""
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
    return str(tmp_path / "x.png")


def test_own_photographs_are_turned_upright(tmp_path):
    pixels = photo(np.random.default_rng(0), 40, 40)
    path = save_turned(tmp_path, pixels)
    np.testing.assert_array_equal(read_square(path, 40), np.rot90(pixels, -1))
    np.testing.assert_array_equal(decode(View(path, 40), 40), pixels)


def test_a_whole_photograph_is_upright_and_not_too_large(tmp_path):
    pixels = photo(np.random.default_rng(0), 40, 30)
    path = save_turned(tmp_path, pixels)
    np.testing.assert_array_equal(read_whole(path, 40), np.rot90(pixels, -1))
    assert read_whole(path, 20).shape == (20, 15, 3)
    for name, reason in write_bad_files(tmp_path).items():
        with pytest.raises(ImageError, match=reason):
            read_whole(tmp_path / name, 20)


def test_transparent_parts_of_own_photographs_are_white(tmp_path):
    """Below them there may be any colour; here it is red, seen in full at the left, by half, and not at all."""
    pixels = np.zeros((4, 6, 4), np.uint8)
    pixels[..., 0], pixels[:, :2, 3], pixels[:, 2:4, 3] = 255, 255, 51
    path = save(tmp_path, pixels)
    seen = read_whole(path, 6)[0]
    np.testing.assert_array_equal(seen[::2], [[255, 0, 0], [255, 204, 204], [255, 255, 255]])
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.save(tmp_path / "p.png", transparency=1)
    assert (read_square(tmp_path / "p.png", 4) == 255).all()


def test_what_to_know_about_a_picture(tmp_path):
    plain = Image.fromarray(photo(np.random.default_rng(0)))
    plain.save(tmp_path / "plain.jpg")
    plain.convert("RGBA").resize((1, 1)).save(tmp_path / "dot.png")
    plain.save(tmp_path / "film.gif", save_all=True, append_images=[plain.rotate(90), plain.rotate(180)])
    assert oddities(tmp_path / "plain.jpg", 48) == []
    assert oddities(tmp_path / "dot.png", 32) == ["transparent parts on white", "1x1 pixels, enlarged"]
    assert oddities(tmp_path / "film.gif", 32) == ["the first of 3 frames"]
