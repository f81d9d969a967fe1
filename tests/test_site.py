"""The site: source beside its explanation, and no link that leads nowhere."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("pygments", reason="pip install sphinx")
sys.path.insert(0, str(ROOT / "site"))
import annotated  # noqa: E402
import build  # noqa: E402
import notebook  # noqa: E402

SOURCE = '''"""What it is about."""

import math

# Why there is a number.
N = 3


@cached
def f(x):
    """What f does."""
    return x + 1


class C:
    """What C is."""

    x: int

    def g(self):
        """What g does."""
        return 2  # a comment within
'''


def test_explanations_stand_beside_their_code():
    assert list(annotated.rows(SOURCE)) == [
        ("", "What it is about.", ""),
        ("", "Why there is a number.", "import math\n\nN = 3"),
        ("f", "What f does.", "@cached\ndef f(x):\n    return x + 1"),
        ("C", "What C is.", "class C:\n\n    x: int"),
        ("C.g", "What g does.", "def g(self):\n    return 2  # a comment within"),
    ]


@pytest.mark.parametrize("path", build.in_tour_order(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_line_of_a_source_file_is_lost(path):
    """Apart from blank lines, and whatever stands for indentation or begins a comment."""
    shown = [line for row in annotated.rows(path.read_text()) for line in f"{row.words}\n{row.code}".splitlines()]

    def letters(lines):
        return sorted("".join(line.split()).replace('"""', "").lstrip("#") for line in lines if line.strip(' \n"#'))

    assert letters(shown) == letters(path.read_text().splitlines())


def test_links_to_what_is_no_page_become_words():
    text = "[a](tour.md#x) ![b](figures/b.svg) [c](results/runs.json) [d](results/report.html) [e](https://e.org)"
    assert build.mended("[d](report.html)", Path("docs/hours")) == '<a href="../../hours/report.html">d</a>'
    assert build.mended(text, Path("docs")) == (
        '[a](tour.md#x) ![b](figures/b.svg) c <a href="../report.html">d</a> [e](https://e.org)'
    )


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<img src="data:image/png;base64,AAAA">\n'
        '<a href="b.html#here"></a><a href="b.html#there"></a><a href="c.html"></a><img src="https://x.org/y.png">'
    )
    (tmp_path / "b.html").write_text('<h1 id="here"></h1><a href="#here"></a><a href="https://x.org"></a>')
    assert build.broken_links(tmp_path) == [
        "a.html -> b.html#there",
        "a.html -> c.html",
        "a.html -> https://x.org/y.png",
    ]


def test_what_a_cell_prints_is_one_block_that_nothing_within_it_ends(tmp_path):
    """A kernel sends what is printed in as many messages as it likes; some of it is Markdown with code of its own."""
    messages = ["one\n", "two\n```\nthree\n```\n"]
    printed = [{"output_type": "stream", "name": "stdout", "text": text} for text in messages]
    warning = {"output_type": "stream", "name": "stderr", "text": "a warning"}
    figures = [{"output_type": "display_data", "data": {"image/png": data}} for data in ("AAAA", "BBBB")]
    found = list(notebook.shown([printed[0], warning, printed[1], *figures], tmp_path, "n"))
    assert found[0] == "````text\none\ntwo\n```\nthree\n```\n````"
    assert found[1:] == [f"![A figure of this notebook](n-{i}.png)" for i in (1, 2)]
    assert (tmp_path / "n-1.png").read_bytes() != (tmp_path / "n-2.png").read_bytes()


@pytest.mark.slow
def test_all_pages_are_made_and_no_link_is_broken(tmp_path, monkeypatch):
    """Without what takes long: notebooks have tests of their own, and so has the explorer."""
    pytest.importorskip("furo", reason="pip install sphinx myst-parser furo")
    monkeypatch.setattr(build, "write_notebooks", lambda source: [])
    monkeypatch.setattr(build, "write_extra", report_alone)
    monkeypatch.setattr(build, "in_tour_order", lambda: [ROOT / "minicnn" / "ops" / "activation.py"])
    assert build.main([str(tmp_path / "site")]) == 0
    text = (tmp_path / "site" / "source" / "minicnn" / "ops" / "activation.html").read_text()
    assert "keeps both (the paper&#x27;s Definition 2.1)" in text


def report_alone(source):
    for name in build.REPORTS.values():
        (source / "_extra" / name).parent.mkdir(parents=True, exist_ok=True)
        (source / "_extra" / name).write_text("<p>A report.</p>")
    return dict.fromkeys(build.REPORTS.values(), "a report")
