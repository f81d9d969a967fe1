"""Tables: one set of data, four renderings."""

import csv
import io

from experiments.tables.table import Bold, Column, Links, Table, file_name, write_csv
from minicnn.analysis.statistics import Interval

EXACT = Interval(25.0512, 24.6489, 25.4535, 5)
ONE = Interval(3.125, None, None, 1)


def errors(**more):
    columns = ["network", Column("error %", ".2f"), Column("change", "+.1f"), Column("95 %", "+.2f", ends=True)]
    rows = [
        ["a, b", EXACT, Bold(-0.26), Interval(1, -0.125, 2.0, 3)],
        [Links([("c", "runs/c/"), ("d", None)], " (1 missing)"), ONE, float("nan"), None],
    ]
    return Table(columns, rows, 'Errors <1, "a"', **more)


def test_text_has_its_first_column_to_the_left():
    assert Table(["name", "%"], [["a", "12.5"], ["long name", None]]).text().splitlines() == [
        "name          %",
        "---------  ----",
        "a          12.5",
        "long name     -",
    ]
    assert errors().text().splitlines()[2:] == [
        "a, b              25.05 ± 0.40    -0.3  -0.12 to +2.00",
        "c, d (1 missing)      3.12 (1)       -               -",
    ]


def test_csv_has_the_numbers_themselves_and_intervals_in_columns_of_their_own():
    head, first, second = csv.reader(io.StringIO(write_csv([errors()])))
    assert head == ["network", "error %", "error % ±", "change", "95 %, low", "95 %, high"]
    assert first == ["a, b", "25.0512", str(EXACT.half), "-0.26", "-0.125", "2.0"]
    assert second == ["c, d (1 missing)", "3.125", "", "", "", ""]
    assert write_csv([Table(["layer"], [])]) == "layer\n"


def test_tables_of_a_series_share_a_file():
    other = Table(["network", Column("more", ".1f")], [["e", 1.25]], "Second", "Errors")
    rows = list(csv.DictReader(io.StringIO(write_csv([errors(series="Errors"), other]))))
    assert [row["table"] for row in rows] == ['Errors <1, "a"'] * 2 + ["Second"]
    assert [row["more"] for row in rows] == ["", "", "1.25"]
    assert [row["change"] for row in rows] == ["-0.26", "", ""]
    assert file_name('Errors <1, "a"') == "errors-1-a"


def test_html_is_escaped_and_says_what_is_a_heading():
    made = errors().html()
    assert "<caption>Errors &lt;1, &quot;a&quot;</caption>" in made
    assert 'scope="col"' in made
    assert '<th scope="row" class="text">a, b</th><td>25.05 ± 0.40</td><td><strong>-0.3</strong></td>' in made
    assert '<a href="runs/c/">c</a>, d (1 missing)</th>' in made
    assert '3.12 <abbr title="one network: no interval">(1)</abbr>' in made
    assert made.count("<td>–</td>") == 2  # noqa: RUF001


def test_markdown_is_what_documents_show():
    assert errors().markdown().splitlines() == [
        "| network | error % | change | 95 % |",
        "| --- | --- | --- | --- |",
        "| a, b | 25.05 ± 0.40 | **-0.3** | -0.12 to +2.00 |",
        "| c, d (1 missing) | 3.12 (1) |  |  |",
    ]
    assert Table(["|x|"], [["a|b"]]).markdown() == "| \\|x\\| |\n| --- |\n| a\\|b |\n"
