"""What the documents show is true: code runs, files exist, commands are those of the Makefile."""

import importlib
import re
import shlex
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


def commands():
    """Every `python -m ...` in the documents and in the docstrings of the experiments."""
    sources = [*DOCUMENTS, *(ROOT / "experiments").glob("*.py")]
    found = set()
    for source in sources:
        for line in re.findall(r"python -m ((?:experiments|minicnn)[^`\n\"']*)", source.read_text()):
            found.add(re.split(r"\s{2,}|\s\|", line.strip())[0])
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_commands_are_understood(line, monkeypatch, capsys):
    """Each is parsed, with --dry-run, which builds the network; on the CPU, since a GPU may not be there."""
    from experiments import cifar, imagenet

    module, *arguments = shlex.split(line)
    if module == "minicnn":
        return
    for experiment in (cifar, imagenet):
        monkeypatch.setattr(experiment, "estimate", lambda *_: "")
    main = importlib.import_module(module).main
    arguments = [a if a.startswith("--") else a.replace("gpu", "cpu") for a in arguments]
    if "--help" in arguments:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
    else:
        assert main([*arguments, "--dry-run"]) == 0


def test_what_the_map_names_exists():
    """Each `file.py` `name` `name` ... in docs/paper_map.md."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    cells = re.findall(r"`([\w/]+)\.py`((?: `\w+`)+)", text)
    assert len(cells) > 10
    for path, names in cells:
        module = importlib.import_module(path.replace("/", "."))
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(module, name), f"{path}.py has no {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:minicnn|reference|experiments|tests|docs|\.ci)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_tests_exist(document):
    """Each tests/...py::name."""
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text())
    assert named or document.name != "errata.md"
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), f"{path} has no {name}"


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
