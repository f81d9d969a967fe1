"""What the library says: to whoever calls it, who may have no command line."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OTHER_PROGRAMS = {  # functions that hold the options of a program that they start, or are
    ("download.py", "npm_package"),
    ("__main__.py", "main"),
}


def literals(tree):
    """All pieces of text in some code, docstrings included."""
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("path", sorted((ROOT / "minicnn").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_library_does_not_speak_of_options(path):
    """An option belongs to a command, and the command adds it to the message."""
    tree = ast.parse(path.read_text())
    started = [
        text
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (path.name, node.name) in OTHER_PROGRAMS
        for text in literals(node)
    ]
    options = [text for text in literals(tree) if re.search(r"--[a-z]", text) and text not in started]
    assert not options
