"""Sheets of pictures: where each one is, how large, and in which colours."""

import numpy as np
from PIL import Image

from experiments.figures.sheets import Cell, draw_pairs, draw_sheet
from minicnn.analysis.pairing import Pairing

RED, BLUE = (255, 0, 0), (0, 0, 255)


def box(sheet, colour):
    """(height, width) of the part of a sheet in one colour; the part must be a full rectangle."""
    rows, columns = np.nonzero((sheet == colour).all(axis=-1))
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    assert len(rows) == height * width
    return height, width


def test_pictures_of_different_shapes_keep_them(tmp_path):
    """A landscape picture first, a portrait one below it: both are enlarged by the same factor, 8 / 4."""
    lying, standing = np.full((2, 4, 3), RED, np.uint8), np.full((4, 3, 3), BLUE, np.uint8)
    draw_sheet(tmp_path / "sheet.png", [[Cell((lying,), "one")], [Cell((standing,), "two")]], title="both", side=8)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert box(sheet, RED) == (4, 8)
    assert box(sheet, BLUE) == (8, 6)


def test_pairs_are_sorted_and_a_filter_without_a_partner_is_left_out(tmp_path):
    """Three filters, one of zeros: the sheet has two pairs, and the pictures of a pair are negatives."""
    w = np.zeros((1, 1, 3, 3))
    w[0, 0, :, 0], w[0, 0, :, 1] = (1, -1, -1), (-1, 1, 1)
    pairs = Pairing(np.array([1, 0, -1]), np.array([-1.0, -1.0, np.nan]))
    draw_pairs(tmp_path / "pairs.png", w, pairs, title="pairs")
    colours, counts = np.unique(
        np.asarray(Image.open(tmp_path / "pairs.png")).reshape(-1, 3), axis=0, return_counts=True
    )
    found = {tuple(map(int, colour)): int(count) for colour, count in zip(colours, counts, strict=True)}
    assert found[255, 0, 0] == found[0, 255, 255] == 2 * 48 * 48
    assert found.get((128, 128, 128), 0) < 48 * 48  # grey: a few pixels of the letters, no filter


def test_labels_stand_left_of_their_rows(tmp_path):
    """The pictures move to the right by what the longest label takes; each row has ink beside it, and nothing else."""
    picture = np.full((4, 4, 3), RED, np.uint8)
    rows = [[Cell((picture,), "")], [Cell((), "")], [Cell((picture,), "")]]
    left = []
    for name, labels in (("plain", ()), ("labelled", ("first", "a longer label", "third"))):
        draw_sheet(tmp_path / f"{name}.png", rows, title="", side=40, labels=labels)
        sheet = np.asarray(Image.open(tmp_path / f"{name}.png")).astype(int)
        where = (sheet == RED).all(axis=-1)
        left.append(int(np.nonzero(where.any(axis=0))[0][0]))
        dark = (sheet.sum(axis=-1) < 300)[:, : left[-1]].any(axis=1)
        assert np.diff(np.r_[0, dark, 0]).clip(0).sum() == len(labels)
    assert left[1] > left[0] + 50
