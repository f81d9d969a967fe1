"""The list of mutants is sound, and each was noticed; running them is not part of these tests (CONTRIBUTING.md)."""

import json
from pathlib import Path

import pytest

from tests.theory import mutants
from tests.theory.mutant_list import EQUIVALENT, MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


def test_there_are_enough_and_each_changes_one_place():
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 40
    for mutant in [*MUTANTS, *(mutant for mutant, _ in EQUIVALENT)]:
        source = (ROOT / mutant.path).read_text()
        changed = mutants.mutated(mutant, source)
        assert changed != source
        compile(changed, mutant.path, "exec")


def test_every_module_of_the_theory_has_mutants():
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "minicnn" / "theory").glob("[!_]*.py")}
    assert {mutant.path for mutant in MUTANTS} == modules


def test_the_record_has_each_of_them_killed():
    record = json.loads(mutants.RECORD.read_text())
    assert {name: record[name]["verdict"] for name in (m.name for m in MUTANTS)} == {m.name: "killed" for m in MUTANTS}
    for mutant in MUTANTS:
        by, tests = record[mutant.name]["by"], (ROOT / mutant.tests[0]).read_text()
        assert f"def {by}(" in tests or by.startswith("more than"), (mutant.name, by)


def test_a_mutant_that_nothing_notices_survives(tmp_path):
    """A change of a word in a docstring, with the quickest tests; and a text that is not there."""
    mutants.copy_repository(tmp_path)
    (of_file,) = (m for m in MUTANTS if m.name == "monte_carlo: width not scaled")
    harmless = Mutant(
        "harmless", of_file.path, '"""Means that are computed', '"""Means which are computed', of_file.tests
    )
    source = (tmp_path / of_file.path).read_text()
    assert mutants.run(harmless, tmp_path).verdict == "survived"
    assert mutants.run(of_file, tmp_path).by == "test_an_interval_by_hand"
    assert (tmp_path / of_file.path).read_text() == source
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutants.mutated(harmless, "nothing")
