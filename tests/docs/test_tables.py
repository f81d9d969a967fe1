"""Tables of the documents: their numbers are those of files below docs/."""

import itertools
import re

from tests.docs.documents import DOCUMENTS, HOURS, RESULTS, ROOT, shown, tables


def test_tables_that_name_their_source_have_its_numbers():
    """<!-- from a b --> above a table: each number of a row, and a verdict, is in the row of that name in one of them.

    If there is one source, one of its rows has all of them: several rows may have the name.
    """
    checked, known = 0, tables()
    for document in DOCUMENTS:
        for names, table in re.findall(r"<!-- from (.+?) -->\n\n((?:\|.*\n)+)", document.read_text()):
            sources = [row for name in names.split() for row in known[name]]
            assert all(known[name] for name in names.split()), (document.name, names)
            _, *heads = (cell.strip() for cell in table.splitlines()[0].strip("|").split("|"))
            for line in table.splitlines()[2:]:
                key, *cells = (cell.strip(" *%") for cell in line.strip("|").split("|"))
                own = [row for row in sources if next(iter(row.values())) == key]
                claims = [
                    cell for head, cell in zip(heads, cells, strict=True) if head == "verdict" or re.search(r"\d", cell)
                ]
                for cell in claims:
                    assert any(shown(cell, row) for row in own), (names, key, cell)
                if " " not in names:
                    assert any(all(shown(cell, row) for cell in claims) for row in own), (names, key, cells)
                checked += len(claims)
    assert checked > 100


def test_numbers_in_documents_are_checked_with_all_their_digits():
    row = {"error %": "22.3041", "error % ±": "0.7961", "95 %, low": "-0.125", "95 %, high": "2.0", "words": "12"}
    row["rounding"] = "3.66e-07"
    assert shown("22.30 ± 0.80", row)
    assert shown("-0.12 to +2.0", row)
    assert shown("22.3", row)
    assert not shown("22.31 ± 0.80", row)
    assert not shown("22.30 ± 0.81", row)
    assert not shown("-0.12 to +2.1", row)
    assert not shown("22.4", row)
    assert shown("4e-07", row)
    assert shown("3.7e-07", row)
    assert not shown("3e-07", row)
    assert not shown("4e-06", row)


def test_results_do_not_drown_the_tree():
    """Few files, no long lines, and no paths of the machine that made them."""
    files = {folder: [path for path in folder.rglob("*") if path.is_file()] for folder in (RESULTS, HOURS)}
    assert max(map(len, files.values())) <= 60
    for path in itertools.chain(*files.values()):
        if path.suffix in (".json", ".csv", ".html", ".md"):
            text = path.read_text()
            assert max(map(len, text.splitlines())) <= 2000, path
            assert not re.search(r"(?<![\w.])/(root|home|tmp|work|mnt|Users)/", text), path


def test_what_is_bold_is_bold_in_the_report():
    """There it means: shown not to be 0, allowing for the number of layers."""
    strong = re.findall(r"<strong>([^<]* ± [^<]*)</strong>", (ROOT / "docs" / "results" / "report.html").read_text())
    bold = re.findall(r"\*\*([^*|]* ± [^*|]*)\*\* \|", (ROOT / "docs" / "figures.md").read_text())
    assert bold
    assert set(bold) <= set(strong)


def test_what_documents_say_about_errors_is_in_the_results():
    rows = [row for table in tables().values() for row in table]
    for document in (ROOT / "docs" / "findings.md", RESULTS / "README.md"):
        said = set(re.findall(r"[\d.]+ ± [\d.]+", document.read_text()))
        assert said
        assert all(any(shown(cell, row) for row in rows) for cell in said)
