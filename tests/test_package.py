"""What is built of the repository: a wheel that works in an empty folder, a source distribution with all of it."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import minicnn

ROOT = Path(__file__).parents[1]
ADVICE = r"pip install (?:--\S+ )*'?(\.|[\w-]+)"
LEFT_OUT = {".egg-info", ".venv", "build", "dist", "runs", "__pycache__"}
BUILD = "import sys; from setuptools import build_meta as b; to = sys.argv[1]; b.build_wheel(to); b.build_sdist(to)"


def files():
    """Those of the repository: as git knows them, or, in an unpacked source distribution, all that are there."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        return {name for name in listed if (ROOT / name).exists()}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    hidden = {".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
    return {
        str(path)
        for path in found
        if not (LEFT_OUT | hidden) & set(path.parts) and not any(part.endswith(".egg-info") for part in path.parts)
    } - {"PKG-INFO", "setup.cfg"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, source distribution), built of a copy, so that nothing is left in the repository."""
    place = tmp_path_factory.mktemp("package")
    for name in files():
        (place / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / "copy" / name)
    (place / "dist").mkdir()
    line = [sys.executable, "-W", "ignore", "-c", BUILD, str(place / "dist")]
    out = subprocess.run(line, cwd=place / "copy", capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr
    (wheel,), (sdist,) = (place / "dist").glob("*.whl"), (place / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(folder)
    return folder


def test_the_source_distribution_is_the_repository(built):
    with tarfile.open(built[1]) as archive:
        inside = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert files() <= inside
    made = {name for name in inside - files() if ".egg-info/" not in name}
    assert made == {"PKG-INFO", "setup.cfg"}


def test_the_wheel_says_what_it_is(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    told = dict(re.findall(r"^([\w-]+): (.*)$", metadata.read_text().partition("\n\n")[0], re.M))
    assert told["Name"] == "minicnn-crelu"
    assert told["Version"] == minicnn.__version__
    assert told["License-Expression"] == "MIT"
    assert (metadata.parent / "entry_points.txt").read_text().split("\n")[1] == "minicnn = experiments.__main__:main"
    assert (metadata.parent / "licenses" / "LICENSE").exists()
    assert (installed / "minicnn" / "py.typed").exists()
    assert not (installed / "tests").exists()


def minicnn_in(folder, installed, *arguments):
    """The console command as pip makes it, with the wheel alone on its path."""
    start = "import sys; sys.argv[0] = 'minicnn'; from experiments.__main__ import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(installed), "MINICNN_DATA": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-P", "-c", start, *arguments]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_command_works_where_another_folder_is_called_experiments(installed, tmp_path):
    """And processes that a command starts find ours, too."""
    for name in ("experiments", "minicnn", "reference"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('this is somebody else')")
    out = minicnn_in(tmp_path, installed, "reproduce", "theory", "--device", "cpu", "--dry-run")
    assert out.returncode == 0, out.stderr
    tiny = "--dataset textures --scale 0.02 --subset 64 --epochs 1 --batch 32 --device cpu --processes 2 --out run"
    out = minicnn_in(tmp_path, installed, "cifar", *tiny.split())
    assert out.returncode == 0, out.stderr
    assert (tmp_path / "run" / "result.json").exists()
    assert str(ROOT) not in (tmp_path / "run" / "config.json").read_text()
    from experiments.cli.environment import own_program

    line, place = own_program("experiments.reproduction.child")
    child = subprocess.run(
        [*line, "experiments.illustration", "--dry-run"],
        cwd=tmp_path, env={**os.environ, **place}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "somebody else" not in child.stderr


def test_messages_advise_packages_that_exist_and_are_meant():
    """`pip install minicnn` would install another project."""
    named = set()
    for top in ("minicnn", "experiments", "exercises", "docs", "tests"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".py", ".md") and path != Path(__file__):
                named |= set(re.findall(ADVICE, path.read_text()))
    named |= set(re.findall(ADVICE, (ROOT / "README.md").read_text()))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ours = {re.match(r"[\w-]+", package)[0] for group in extras.values() for package in group}
    assert named
    assert named <= ours | {".", "torch", "safetensors", "mpich"}
    assert "minicnn" not in named


def test_hooks_and_workflows_run_what_the_gate_runs():
    """In one place, .ci/run: so they cannot disagree."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    minimum = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert minimum in job["strategy"]["matrix"]["python"]
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert hooks["repo"] == "local"  # nothing is fetched from elsewhere
    assert {stage: hook["entry"] for hook in hooks["hooks"] for stage in hook["stages"]} == {
        "pre-commit": "make lint",
        "pre-push": ".ci/run",
    }
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    targets = re.findall(r"^make (\w+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert "lint" in targets
    assert set(targets) <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))


def test_the_change_log_knows_this_version():
    assert re.search(rf"^## {re.escape(minicnn.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
