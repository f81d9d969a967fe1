"""The command that looks for a class above the conjectures: tables, resuming, and what it would say."""

import json

import pytest

from experiments import search
from experiments.cli.app import UsageError

FEW = ["--points", "2", "--functions", "1,2", "--kinds", "climb,integers"]


def test_a_search_goes_on_where_it_was_stopped(tmp_path, capsys):
    """Three tries and then two more are the same as five at once."""
    parts, whole = (["--out", str(tmp_path / name), *FEW] for name in ("parts", "whole"))
    assert search.main([*parts, "--starts", "3"]) == 0
    assert search.main([*parts, "--starts", "5"]) == 0
    assert search.main([*whole, "--starts", "5"]) == 0
    first, second = (json.loads((tmp_path / name / "search.json").read_text()) for name in ("parts", "whole"))
    assert first["searches"] == second["searches"]
    assert {one["tries"] for one in first["searches"].values()} == {5}
    assert max(one["largest"] for name, one in first["searches"].items() if "k1" in name) == pytest.approx(1)
    assert "no class above its conjecture" in capsys.readouterr().out


def test_a_class_above_the_conjecture_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(search.GOALS, "theorem", 1.2)
    assert search.main(["--out", str(tmp_path), *FEW, "--goals", "theorem", "--starts", "2"]) == 1
    captured = capsys.readouterr()
    assert "ABOVE THE CONJECTURE: climb theorem 2" in captured.err
    assert "a counterexample" in captured.out


def test_options_that_make_no_sense(tmp_path):
    for arguments, message in (
        (["--points", "9"], "--points must be in 1 .. 8"),
        (["--kinds", "luck"], "--kinds: no luck; there are climb"),
        (["--starts", "0"], "must be positive"),
    ):
        with pytest.raises(UsageError, match=message):
            search.main([*arguments, "--out", str(tmp_path / "none")])
    (tmp_path / "search.json").write_text('{"seed": 1, "searches": {}}')
    with pytest.raises(UsageError, match="another seed"):
        search.main(["--out", str(tmp_path)])
    assert not (tmp_path / "none").exists()


def test_a_dry_run_lists_the_searches(tmp_path, capsys):
    assert search.main(["--dry-run", "--out", str(tmp_path / "none")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3 * 2 * 3 * 3
    assert not (tmp_path / "none").exists()
