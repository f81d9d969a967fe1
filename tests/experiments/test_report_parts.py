"""What the report is made of: HTML, charts, pictures and colours."""

import re
from pathlib import Path

import pytest

from experiments.report import page
from experiments.report.charts import Bar, Line, interval_chart, line_chart, ticks
from experiments.report.context import NOT_RUN, picture
from experiments.report.csv_tables import as_numbers, write_tables
from experiments.tables.html import Html, escape, join, table, tag
from tests.experiments.made_runs import BAD


def test_what_is_put_in_is_escaped_and_html_is_not():
    assert tag("p", "a < b & ", tag("b", "c"), class_="n") == '<p class="n">a &lt; b &amp; <b>c</b></p>'
    assert tag("a", BAD, href='"><script>') == f'<a href="&quot;&gt;&lt;script&gt;">{escape(BAD)}</a>'
    assert "<script" not in join([BAD, [BAD, None], 3])
    assert escape(Html("<b>")) == "<b>"
    assert tag("img", alt=BAD).count("<") == 1


def test_tables_have_captions_and_headings():
    made = table("Errors <1", ["network", "error"], [["a", 1.0]])
    assert "<caption>Errors &lt;1</caption>" in made
    assert 'scope="col"' in made
    assert '<th scope="row" class="text">a</th><td>1.0</td>' in made


def test_tables_are_written_as_csv_files_with_numbers_in_columns_of_their_own(tmp_path):
    rows = [["a, b", "25.05 ± 0.40", tag("b", 0.1)], ["c", NOT_RUN, "-"]]
    one = table('Errors <1, "a"', ["network", "error %", "p"], rows)
    two = table("Second", ["layer"], [["conv1"]])
    write_tables(join([tag("h1", "x"), one, two]), tmp_path / "tables")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["errors-1-a.csv", "second.csv"]
    assert (tmp_path / "tables" / "errors-1-a.csv").read_text() == (
        'network,error %,error % ±,p\n"a, b",25.05,0.40,0.1\nc,,,\n'
    )
    assert (tmp_path / "tables" / "second.csv").read_text() == "layer\nconv1\n"
    write_tables(two, tmp_path / "tables")
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["second.csv"]  # those of this page


def test_a_column_with_words_stays_as_it_is():
    rows = [["n", "x", "y"], ["a", "10.00 ± 2.48; vote 7.25", "1,234"], ["b", "-3.5 (1)", "+0.5 (1)"]]
    assert as_numbers(rows) == [["n", "x", "y"], ["a", "10.00 ± 2.48; vote 7.25", "1234"], ["b", "-3.5 (1)", "+0.5"]]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (-1.3, 0.4, [-1, -0.5, 0]), (0, 1e-9, [0, 2e-10, 4e-10, 6e-10, 8e-10, 1e-9])],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == expected


def test_charts_put_points_where_they_belong():
    """Error 100 at epoch 1, 50 at epoch 3: the second is to the right, and lower by half of the height (less 5 %)."""
    made = line_chart("curve <1>", {"a & b": Line([(1, 100), (3, 50)], (3, 50))}, x="epoch", y="error")
    (x1, y1), (x2, y2) = (map(float, p.split(",")) for p in re.search(r'points="(.*?)"', made)[1].split())
    assert x2 > x1
    bottom = 300 - 52
    assert (bottom - y2) / (bottom - y1) == pytest.approx(0.5, abs=0.01)
    assert "a &amp; b" in made
    bars = interval_chart("t", [Bar("x", -1, -2, 0), Bar("one", 1, None, None)], x="points")
    assert bars.count('class="interval"') == 1
    assert bars.count('class="hollow"') == 1


def test_without_matplotlib_a_word_stands_for_the_picture(tmp_path):
    assert "matplotlib is installed" in picture(tmp_path / "histograms.png", "words")


def luminance(colour):
    """WCAG's, of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read():
    """Contrast of at least 4.5 for all colours of text and lines, light and dark."""
    css = Path(page.__file__).with_name("style.css").read_text()
    for block in re.findall(r":root \{(.*?)\}", css, re.S)[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for background in ("page", "card"):
            for name in set(colours) - {"page", "card", "line"}:
                light, dark = sorted(map(luminance, (colours[name], colours[background])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, background)
