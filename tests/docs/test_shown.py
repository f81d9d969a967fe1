"""What the documents show is true: code runs, files exist, commands are those of the Makefile."""

import importlib
import re
import shlex
import textwrap

import numpy as np
import pytest

import minicnn
from experiments.statements import STATEMENTS
from minicnn.autodiff import Pair, op
from minicnn.backend import Array
from minicnn.gradcheck import check_gradient
from tests.docs.documents import DOCUMENTS, ROOT, code, prose


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


def test_the_networks_of_the_results_can_be_analysed(tmp_path, monkeypatch):
    """The commands that need nothing but what is in the repository run."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "figures.md").read_text()
    lines = re.findall(r"^python -m (experiments\.\w+) (--run docs/results/cifar.*)$", text, re.M)
    assert len(lines) == 3
    for module, options in lines:
        out = tmp_path / module
        assert importlib.import_module(module).main([*shlex.split(options), "--out", str(out), "--device", "cpu"]) == 0
        assert list(out.rglob("*.png"))


def test_the_readme_counts_the_statements():
    ours = sum(one.where.startswith("ours") for one in STATEMENTS)
    said = f"{len(STATEMENTS) - ours} statements of the paper, and {ours} of ours"
    assert said in (ROOT / "README.md").read_text()


def test_the_op_in_contributing_is_right():
    (shown,) = re.findall(r"^   ```python\n(.*?)^   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    scope = {"Array": Array, "Pair": Pair, "op": op}
    exec(textwrap.dedent(shown), scope)
    check_gradient(scope["square"], np.array([1.0, -2.0]))


def commands():
    """Every `python -m ...` of ours in the documents and in the docstrings of the experiments and of the exercises."""
    sources = [*DOCUMENTS, *(ROOT / "experiments").glob("*.py"), ROOT / "exercises" / "check.py"]
    found = set()
    for source in sources:
        for line in re.findall(r"python -m ((?:experiments|exercises)\.(?:[^`\n\"']|'[^'\n]*')*)", source.read_text()):
            found.add(re.split(r"\s{2,}|\s\|", line.strip())[0])
        for block in code(source, ""):
            found |= {f"experiments.{line}" for line in re.findall(r"^minicnn (\w.*)$", block, re.M)}
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_commands_are_understood(line, monkeypatch, capsys):
    """Each is parsed, with --dry-run, which builds the network; on the CPU, since a GPU may not be there."""
    module, *arguments = shlex.split(line)
    monkeypatch.setattr("experiments.train.estimate.estimate", lambda *_: "")
    monkeypatch.setattr("experiments.reproduction.plan.Estimator.network", lambda *_: (0.001, 1_000_000))
    monkeypatch.setattr("experiments.reproduce.check_paths", lambda args: None)  # of files that are the reader's
    monkeypatch.setattr("minicnn.fast.native.library.bf16_problem", lambda: None)  # there may be no compiler here
    monkeypatch.setattr("minicnn.fast.native.library.bf16_is_fast", lambda: True)
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


def test_the_map_is_complete():
    """Every section with content, table, figure, algorithm and statement of the paper is named in a first column."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    first = "\n".join(row.split("|")[1] for row in re.findall(r"^\|.*\|$", text, re.M))
    for kind, prefix, start, end in re.findall(r"(Table|Figure)s (S?)(\d+) to S?(\d+)", first):
        first += "".join(f"\n{kind} {prefix}{n}" for n in range(int(start), int(end) + 1))
    for kind, one, other in re.findall(r"(Table|section|Definition)s (\S+?)(?:,| and) (\S+)", first):
        first += f"\n{kind} {one}\n{kind} {other}"
    sections = ["2.1", "2.2", "3.1", "3.2", "4.1", "4.2", "4.3", *(f"S{n}" for n in (*range(2, 8), "1.1", "1.2"))]
    needed = [f"section {n}" for n in sections]
    needed += [f"Table {n}" for n in (*range(1, 7), *(f"S{n}" for n in range(1, 14)))]
    needed += [f"Figure {n}" for n in (1, 2, 3, 4, 5, "S1")] + ["Algorithm 1", "Algorithm 2", "equation (S1)"]
    needed += [f"Definition {n}" for n in ("2.1", "S1.1", "S1.2", "S2.1")]
    needed += ["Proposition 2.1 = S1.1", "Proposition S1.2", "Theorem S1.3", "Lemma S1.4", "Theorem S1.5"]
    needed += ["Lemma S2.1", "Proposition S2.2", "Corollary S2.3", "Theorem 4.1 = S2.4", "Theorem S3.1"]
    missing = [name for name in needed if not re.search(rf"{re.escape(name)}(?![\d.])", first)]
    assert not missing


def test_the_citation_is_of_this_version_and_this_paper():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {minicnn.__version__}\n" in text
    readme = prose("README.md")
    title = re.search(r"type: conference-paper\n    title: \"(.*)\"", text)[1]
    assert f"*{title}*" in readme
    assert re.findall(r"family-names: (\w+)", text) == ["Shang", "Sohn", "Almeida", "Lee"]


def variables(pattern, *paths):
    return {name for path in paths for name in re.findall(pattern, path.read_text())}


def test_environment_variables_are_described():
    """Those of the product in docs/conventions.md, those of the tests in CONTRIBUTING.md."""
    sources = [path for top in ("minicnn", "experiments", "exercises") for path in (ROOT / top).rglob("*.py")]
    product = variables(r"`(MINICNN_\w+)", ROOT / "docs" / "conventions.md")
    for_tests = variables(r"`(MINICNN_\w+)", ROOT / "CONTRIBUTING.md")
    assert variables(r'"(MINICNN_\w+)"', *sources) == product
    assert variables(r'"(MINICNN_\w+)"', *(ROOT / "tests").rglob("*.py")) - product == for_tests


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:minicnn|reference|experiments|exercises|tests|docs|\.ci)/[\w./]*)`", text):
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
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"`make ([a-z-]+)", document.read_text()) + [
        line.removeprefix("make ").split()[0]
        for block in code(document, "")
        for line in block.splitlines()
        if line.startswith("make ")
    ]:
        assert target in targets
