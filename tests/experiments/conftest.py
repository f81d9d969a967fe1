"""Fixtures that the tests of the commands share."""

import sys

import pytest

from experiments.cli.app import run_main


@pytest.fixture
def ends(monkeypatch, capsys):
    """ends(main, "experiments.x", *arguments): run a command line; (its exit code, what it wrote to stderr)."""

    def run(main, module, *arguments):
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        with pytest.raises(SystemExit) as caught:
            run_main(main, module)
        return caught.value.code, capsys.readouterr().err

    return run
