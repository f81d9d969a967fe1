"""The rules of docs/architecture.md that a machine can check."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "minicnn").rglob("*.py"))

# Imports point from later lines to earlier ones.  A package may import from itself.
ORDER = [
    {"precision"},
    {"blas", "console", "cuda"},
    {"backend", "schedule", "checkpoint"},
    {"parallel", "random"},
    {"cluster"},
    {"tensor", "data", "mpi", "processes"},
    {"autodiff"},
    {"gradcheck", "ops", "optim"},
    {"fast", "theory"},
    {"nn"},
    {"exchange", "training"},
    {"models"},
    {"analysis"},
    {"__main__", ""},  # "" is minicnn/__init__.py
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def imports(path):
    """The modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(path):
    """ "ops" for minicnn/ops/conv.py, "" for minicnn/__init__.py."""
    first = path.relative_to(ROOT / "minicnn").parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = part(path)
    for name in imports(path):
        if name.startswith("minicnn"):
            other = [*name.split("."), ""][1]
            other = other if other in RANK else ""
            assert other == own or RANK[other] < RANK[own] or own == "__main__", f"{own or 'minicnn'} imports {name}"
        assert own == "backend" or name.split(".")[0] != "cupy", "only backend.py imports cupy"
        assert own == "mpi" or name.split(".")[0] != "mpi4py", "only mpi.py imports mpi4py, which starts MPI"


# The same for the folders of experiments/; the files at its top are commands, which import anything but each other.
FOLDERS = [
    {"cli", "statements", "tables"},
    {"figures"},
    {"train"},
    {"analyses", "benchmarks", "explorer"},
    {"reproduction"},
    {"report"},
]
FOLDER_RANK = {name: rank for rank, names in enumerate(FOLDERS) for name in names}
COMMANDS = sorted((ROOT / "experiments").glob("[!_]*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("[!_]*.py"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_of_the_experiments_point_one_way(path):
    own = path.relative_to(ROOT / "experiments").parts[0]
    for name in imports(path):
        if name.startswith("experiments."):
            other = name.split(".")[1]
            assert other in FOLDER_RANK, f"{own} imports the command {other}"
            below = path in COMMANDS or other == own or FOLDER_RANK[other] < FOLDER_RANK[own]
            assert below, f"{path.relative_to(ROOT)} imports {name}"


def test_every_folder_of_the_experiments_has_its_place():
    folders = {path.name for path in (ROOT / "experiments").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(FOLDER_RANK)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_files_at_the_top_of_the_experiments_are_commands(path):
    """Each says what it does, and runs."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert re.search(r'^if __name__ == "__main__":\n    run_\w+\(main, MODULE\)$', text, re.M)


def written(last):
    """The order of imports in docs/architecture.md that ends with this word."""
    blocks = re.findall(r"```\n([^`]* <- [^`]*)```", (ROOT / "docs" / "architecture.md").read_text())
    orders = [[set(re.findall(r"\w+", names)) for names in block.split("<-")] for block in blocks]
    (order,) = (order for order in orders if order[-1] == {last})
    return order


def test_the_orders_are_those_that_are_written():
    assert written("experiments") == [*ORDER[:-1], {"experiments"}]
    assert written("commands") == [*FOLDERS, {"commands"}]


def test_the_walks_lead_through_functions_that_exist():
    """`file.py` `name` `name` ... in the numbered lists of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    for title in ("One training step", "From a CIFAR file to a line of a table"):
        (section,) = re.findall(rf"^## {title}\n(.*?)^## ", text, re.M | re.S)
        steps = re.findall(r"`((?:minicnn|experiments)/[\w/]+\.py)`((?:\s+`[\w.]+`)+)", section)
        assert len(steps) >= 10
        for path, names in steps:
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            for name in re.findall(r"`([\w.]+)`", names):
                found = module
                for attribute in name.split("."):
                    found = getattr(found, attribute)  # AttributeError: the walk has to be written anew
        assert len({path for path, _ in steps}) <= 24


def test_every_part_has_its_place():
    assert {part(path) for path in SOURCES} == set(RANK)


@pytest.mark.parametrize(
    ("folder", "above"),
    [
        ("minicnn", {"reference", "experiments", "examples", "exercises", "tests"}),
        ("reference", {"minicnn", "experiments", "examples", "exercises", "tests"}),
        ("experiments", {"examples", "exercises", "tests"}),
        ("exercises", {"examples", "tests"}),
        ("examples", {"reference", "experiments", "exercises", "tests"}),
    ],
)
def test_nothing_is_imported_from_above(folder, above):
    """The reference stands alone, and what is installed needs no tests."""
    for path in (ROOT / folder).rglob("*.py"):
        assert not above & {name.split(".")[0] for name in imports(path)}, path


def test_importing_minicnn_loads_nothing_heavy():
    heavy = ["scipy", "PIL", "tqdm", "matplotlib", "cupy", "threadpoolctl", "mpi4py", "torch", "onnx", "safetensors"]
    code = f"import sys, minicnn; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_packages_and_their_files_are_all_listed():
    """In pyproject.toml; otherwise they are there in the repository, and missing where it is installed."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages, other = set(), set()
    for top in ("minicnn", "reference", "experiments", "exercises"):
        for path in (ROOT / top).rglob("[!.]*.*"):
            package = ".".join(path.parent.relative_to(ROOT).parts)
            if path.name == "__init__.py":
                packages.add(package)
            elif path.suffix not in (".py", ".pyc"):
                other.add((package, f"*{path.suffix}"))
    assert set(listed["packages"]) == packages
    kinds = {
        (".".join((package, *Path(name).parent.parts)), f"*{Path(name).suffix}")
        for package, names in listed["package-data"].items()
        for name in names
    }
    assert kinds == other
