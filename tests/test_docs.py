"""What the documents show is true: code runs, files exist, commands are those of the Makefile."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def code(document, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)


def test_the_example_of_the_tour_runs_and_learns(capsys):
    (example,) = code(ROOT / "docs" / "tour.md")
    assert len([line for line in example.splitlines() if line.strip()]) <= 32
    exec(compile(example, "docs/tour.md", "exec"), {})
    *_, result, crelu_error, model_error = capsys.readouterr().out.splitlines()
    assert float(re.search(r"loss ([\d.]+)", result)[1]) < 0.2
    assert float(crelu_error) < 1e-6
    assert float(model_error) < 1e-6


def test_the_op_in_the_readme_is_the_op_in_the_code():
    (shown,) = code(ROOT / "README.md")
    assert shown in (ROOT / "minicnn" / "ops" / "activation.py").read_text()


def test_the_op_in_contributing_is_right(capsys):
    import numpy as np

    from minicnn.autodiff import OPS
    from minicnn.gradcheck import check_gradient

    (shown,) = re.findall(r"^   ```python\n(.*?)^   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    scope: dict = {}
    exec("from minicnn.autodiff import Pair, op\nfrom minicnn.backend import Array\n" + textwrap.dedent(shown), scope)
    del OPS["square"]
    check_gradient(scope["square"], np.array([1.0, -2.0]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:minicnn|reference|tests|docs|\.ci)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"`make ([a-z]+)", document.read_text()) + [
        line.removeprefix("make ").split()[0]
        for block in code(document, "")
        for line in block.splitlines()
        if line.startswith("make ")
    ]:
        assert target in targets
