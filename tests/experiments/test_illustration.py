"""The picture shows what loops compute, and the file in docs/ is what the command draws."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments import illustration
from experiments.cli.app import UsageError

COMMITTED = Path(__file__).parents[2] / "docs" / "figures" / "illustration.svg"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def tree():
    return ElementTree.parse(COMMITTED)


@pytest.fixture(scope="module")
def drawn(tree):
    """The texts in the picture, by their names."""
    named = {e.get("id"): e.text for e in tree.iter(f"{SVG}text") if e.get("id")}
    return {name: text.replace("\N{MINUS SIGN}", "-") for name, text in named.items()}


def test_the_file_in_docs_is_what_the_command_draws(tmp_path, capsys):
    path = tmp_path / "new" / "picture.svg"
    assert illustration.main(["--out", str(path)]) == 0
    assert path.read_bytes() == COMMITTED.read_bytes()


def test_every_number_is_that_of_loops(drawn):
    x = [2, 3, 1, -2, -1, 0, 2, 1]
    assert [int(drawn[f"x-{k + 1}"]) for k in range(8)] == x
    for i, w in enumerate([(1, 0, -1), (-1, 2, -1)], 1):
        z = [sum(a * b for a, b in zip(w, x[j:], strict=False)) for j in range(6)]
        assert [int(drawn[f"z-{i}-{j + 1}"]) for j in range(6)] == z
        for phase, sign in (("p", 1), ("q", -1)):
            halves = [max(sign * value, 0) for value in z]
            assert [int(drawn[f"{phase}-{i}-{j + 1}"]) for j in range(6)] == halves
            for r in (0, 1):
                region = halves[3 * r : 3 * r + 3]
                assert int(drawn[f"pooled-{phase}-{i}-{r + 1}"]) == max(region)
                switch = f"shift {3 * r + region.index(max(region)) + 1}" if max(region) else "no switch"
                assert drawn[f"switch-{phase}-{i}-{r + 1}"] == switch


def test_some_by_hand(drawn):
    """Filter 2 on (3, 1, -2) is -3 + 2 + 2 = 1; on (1, -2, -1) it is -1 - 4 + 1 = -4, the largest negative one."""
    assert (drawn["z-2-2"], drawn["z-2-3"], drawn["q-2-3"]) == ("1", "-4", "4")
    assert (drawn["pooled-q-2-1"], drawn["switch-q-2-1"]) == ("4", "shift 3")


def test_it_can_be_read_aloud_and_stands_alone(tree):
    root = tree.getroot()
    assert root.get("role") == "img"
    labels = {e.get("id"): e.text for e in root if e.tag in (f"{SVG}title", f"{SVG}desc")}
    assert list(labels) == root.get("aria-labelledby").split()
    assert all(len(text) > 20 for text in labels.values())
    assert not re.search(r"href|url\(|<script|<image", COMMITTED.read_text())


def test_nothing_is_drawn_outside(tree):
    _, _, width, height = map(float, tree.getroot().get("viewBox").split())
    for rect in tree.iter(f"{SVG}rect"):
        left, top, w, h = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        assert 0 <= left <= left + w <= width
        assert 0 <= top <= top + h <= height


def test_another_kind_of_file_is_refused():
    with pytest.raises(UsageError, match=r"--out must be an \.svg file, got picture\.png"):
        illustration.main(["--out", "picture.png"])
