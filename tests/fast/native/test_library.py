"""How the kernels in C are built and kept, and what happens where they cannot be.

Most compilers here are scripts: one that fails, one that copies a library with the right names that does nothing.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from minicnn import ops
from minicnn.fast.native import library
from tests.fast.native.ways import COMPILER, needs_compiler

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def empty_library(tmp_path_factory):
    """A library with all functions; none does anything."""
    if COMPILER is None:
        pytest.skip("no C compiler: kernels cannot be built on this machine")
    folder = tmp_path_factory.mktemp("library")
    text = "".join(f"long {name}(void) {{ return 1; }}\n" for name in library.SIGNATURES)
    (folder / "empty.c").write_text(text)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", "empty.so", "empty.c"], cwd=folder, check=True)
    return folder / "empty.so"


@pytest.fixture
def as_new(monkeypatch, tmp_path):
    """As in a process that has not used the kernels, on a machine without a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("MINICNN_NATIVE", raising=False)

    def forget():
        monkeypatch.setattr(library, "_libraries", {})
        monkeypatch.setattr(library, "_problem", "")

    forget()
    return forget


class Script:
    """A compiler that notes its arguments, one line per call, and then does something."""

    def __init__(self, folder, lines):
        self.path, self.log = folder / "compiler", folder / "log"
        self.path.write_text(f'#!/bin/sh\necho "$@" >> {self.log}\nfor out; do :; done  # the last argument\n{lines}\n')
        self.path.chmod(0o755)

    @property
    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def copying(monkeypatch, tmp_path, as_new, empty_library):
    """A compiler that takes a little while, so that others can come in between."""
    script = Script(tmp_path, f'sleep 0.1\ncp {empty_library} "$out"')
    monkeypatch.setenv("CC", str(script.path))
    return script


def kept(tmp_path):
    return sorted((tmp_path / "cache" / "minicnn" / "native").iterdir())


def numpy_does_the_work():
    """A convolution that could be one in C is right."""
    x, w = np.ones((2, 8, 8, 8), np.float32), np.ones((3, 3, 8, 8), np.float32)
    assert not library.available(x)
    return ops.conv2d(x, w, pad=1)[0, 4, 4, 0] == 72


@pytest.mark.usefixtures("as_new")
@pytest.mark.parametrize("asked", [None, "", "nonexistent-cc", "nonexistent-cc -O2", "'half a quotation"])
def test_without_a_compiler_numpy_does_the_work(monkeypatch, tmp_path, capfd, asked):
    monkeypatch.setenv("PATH", str(tmp_path))
    if asked is not None:
        monkeypatch.setenv("CC", asked)
    assert numpy_does_the_work()
    name = {None: "cc", "": "cc", "'half a quotation": asked}.get(asked, "nonexistent-cc")
    assert library.problem() == f"there is no C compiler ({name}). Install one (gcc or clang), or name it in CC."
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("as_new")
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo in file x.c >&2; echo 'x.c:1: error: nonsense' >&2; echo more >&2; exit 1", "x.c:1: error: nonsense"),
        ("printf 'bad \\377 byte' >&2; exit 2", "bad � byte"),
        ("exit 3", "compiler ended with exit code 3"),
        ("exit 0", "cannot open shared object file"),  # but wrote nothing
        ('echo nonsense > "$out"', "file too short|invalid ELF header"),
    ],
)
def test_a_compiler_that_fails_is_reported_in_one_line(monkeypatch, tmp_path, capfd, lines, said):
    script = Script(tmp_path, lines)
    monkeypatch.setenv("CC", str(script.path))
    assert numpy_does_the_work()
    assert not library.available(np.ones(3))
    assert numpy_does_the_work()
    assert len(script.calls) == 2  # once for each precision
    (line,) = capfd.readouterr().err.splitlines()
    assert line == f"minicnn: {library.problem()} NumPy does the work, more slowly."
    assert line.startswith("minicnn: the kernels in C could not be built (")
    assert any(words in line for words in said.split("|"))


@pytest.mark.usefixtures("as_new")
def test_a_compiler_that_does_not_end_is_ended(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("CC", str(Script(tmp_path, "exec sleep 60").path))
    monkeypatch.setattr(library, "PATIENCE", 0.2)
    assert numpy_does_the_work()
    assert "took longer than 0.2 seconds" in library.problem()


def test_a_compiler_with_options(monkeypatch, copying):
    monkeypatch.setenv("CC", f"{copying.path} -O2 '-DWORDS=two words'")
    assert library.problem() is None
    (call,) = copying.calls
    assert call.startswith("-O2 -DWORDS=two words -O3 ")


@pytest.mark.usefixtures("as_new")
@pytest.mark.parametrize("name", library.COMPILERS)
def test_the_first_compiler_that_is_there_is_taken(monkeypatch, tmp_path, name):
    Script(tmp_path, "exit 1").path.rename(tmp_path / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert library.compiler() == [name]


def test_it_is_built_once(copying, as_new, tmp_path):
    for _ in range(3):
        as_new()
        assert library.available(np.ones(3, np.float32))
        assert library.problem() is None
        assert library.available(np.ones(3))
    assert len(copying.calls) == 2
    assert [path.name.partition("-")[0] for path in kept(tmp_path)] == ["double", "float"]


def test_another_compiler_or_another_precision_builds_its_own(monkeypatch, copying, as_new, tmp_path):
    library.kernels(np.float32)
    as_new()
    monkeypatch.setenv("CC", f"{copying.path} -O2")
    library.kernels(np.float32)
    assert len(copying.calls) == len(kept(tmp_path)) == 2


def test_threads_at_once_build_it_once(copying):
    threads = [threading.Thread(target=library.kernels, args=(np.float32,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(copying.calls) == 1


def test_processes_at_once(copying, tmp_path):
    """Each may build; one library is left, and nothing else."""
    code = "from minicnn.fast.native import library; import sys; sys.exit(library.problem())"
    processes = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage", [lambda whole: b"", lambda whole: whole[: len(whole) // 2], lambda whole: b"x" + whole]
)
def test_a_damaged_library_is_built_anew(copying, as_new, tmp_path, damage):
    assert library.problem() is None
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    path.unlink()  # its memory is in use
    path.write_bytes(damage(whole))
    for _ in range(2):
        as_new()
        assert library.problem() is None
        assert kept(tmp_path) == [path]
        assert path.read_bytes() == whole
    assert len(copying.calls) == 2


def test_where_nothing_can_be_kept_it_is_built_every_time(monkeypatch, copying, as_new, tmp_path, capfd):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library.problem() is None
    as_new()
    assert library.problem() is None
    assert len(copying.calls) == 2
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", mock.Mock(side_effect=RuntimeError("Could not determine home directory.")))
    as_new()
    assert library.problem() is None
    assert capfd.readouterr().err == ""


def test_libraries_that_nobody_uses_are_removed(copying, as_new, tmp_path):
    library.kernels(np.float32)
    (path,) = kept(tmp_path)
    old, recent = path.with_name("float-0-1.so"), path.with_name("float-0-2.so")
    for other, days in ((old, 91), (recent, 89), (path, 91)):
        other.touch()
        os.utime(other, times=(time.time() - days * 86400,) * 2)
    as_new()
    library.kernels(np.float32)  # is there, and is used again
    assert old.exists()
    library.kernels(np.float64)  # is built
    assert set(kept(tmp_path)) >= {recent, path}
    assert not old.exists()


def test_the_switch_is_looked_up_at_every_use(monkeypatch, copying):
    monkeypatch.setenv("MINICNN_NATIVE", "0")
    assert numpy_does_the_work()
    assert library.problem() == "switched off by MINICNN_NATIVE=0."
    assert not copying.calls
    monkeypatch.setenv("MINICNN_NATIVE", "1")
    assert library.available(np.ones(3, np.float32))
    assert library.problem() is None
    monkeypatch.setenv("MINICNN_NATIVE", "0")
    assert not library.available(np.ones(3, np.float32))


def test_what_there_is_no_library_for(copying):
    class Derived(np.ndarray):
        pass

    for x in (np.ones(3, np.float16), np.ones(3, int), np.ones(3).view(Derived), [1.0], None):
        assert not library.available(x)
    assert not copying.calls


def test_importing_builds_nothing_and_reads_no_c(copying):
    """Nor does making a network; using it does."""
    code = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event in ("open", "subprocess.Popen") else None)
import minicnn
from minicnn.models import convpool
model = convpool("crelu", scale=0.1)
assert not [name for name in seen if name.endswith((".c", ".h", "compiler"))], seen
from minicnn.fast.native import library
library.kernels("f")
assert [name for name in seen if name.endswith(".c")]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert len(copying.calls) == 1


@needs_compiler
def test_on_this_machine_they_can_be_built():
    assert library.kernels(np.float32) is not None
    assert library.lanes(np.float32) == 2 * library.lanes(np.float64) >= 4
