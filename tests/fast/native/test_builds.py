"""The kernels in C once more as other compilers and processors would have them, and under sanitisers."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minicnn.fast.native import im2col, library, winograd
from tests.fast.cuda.test_sanitised import sanitised
from tests.fast.native.ways import COMPILER, needs_compiler

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".pytest_cache"  # what earlier tests compiled is used again
X86 = any("avx" in word for word in library._processor().split())
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
SANITISERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"

gcc = pytest.param("gcc", marks=pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here"))
clang = pytest.param("clang", marks=pytest.mark.skipif(shutil.which("clang") is None, reason="no clang here"))
needs_avx = pytest.mark.skipif(not X86, reason="not a processor with AVX")


@pytest.mark.parametrize("compiler", [gcc, clang])
@pytest.mark.parametrize("build", library.BUILDS)
@pytest.mark.parametrize("vectors", [None, *(pytest.param(v, marks=needs_avx) for v in ("cooperlake", "x86-64"))])
def test_no_warnings_for_any_width_of_vectors(compiler, build, vectors, tmp_path):
    """For this processor, one with registers of 64 bytes (and bf16) and one of 16: compiled for them, not run."""
    for source in library.sources():
        options = [option for option in library.OPTIONS if option not in ("-O3", "-shared", library.PROCESSOR)]
        target = library.PROCESSOR if vectors is None else f"-march={vectors}"
        line = [compiler, *STRICT, *options, target, *library.BUILDS[build][1], "-c", source, "-o", "a.o"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def with_options(compiler, options):
    """For CC: a script that appends options, so that they count, and is not itself run with sanitisers."""
    script = f'#!/bin/sh\nunset LD_PRELOAD\nexec {compiler} "$@" {options}\n'
    path = CACHE / f"cc-{hashlib.sha256(script.encode()).hexdigest()[:8]}"
    CACHE.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return {"CC": str(path), "XDG_CACHE_HOME": str(CACHE)}


@needs_avx
@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "lanes", "options"),
    [
        ("float32", "4", "-mno-avx -Wall -Wextra -Werror"),  # and with all optimisations warnings are errors
        ("float64", "8", "-O1 -DREGISTER=64 -Wno-psabi"),
        ("bf16", "4", "-mno-avx"),  # without instructions for it
    ],
)
def test_processors_with_narrower_and_with_wider_registers(precision, lanes, options):
    """The code for 16 and for 64 bytes, in instructions that this one has."""
    line = [sys.executable, "-m", "tests.fast.native.cases", precision, lanes]
    environment = {**os.environ, **with_options(COMPILER, options)}
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def sanitising_gcc():
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    return with_options("gcc", SANITISERS)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_kernels_touch_nothing_but_their_arrays(sanitising_gcc, precision):
    code, output = sanitised("-m", "tests.fast.native.cases", precision, **sanitising_gcc)
    assert code == 0, output[-5000:]


BROKEN = """
import numpy as np
from minicnn.fast.native import library
x, u = np.ones(3 * 5 - 1, np.float32), np.empty(3 * 64, np.float32)
library.kernels(np.float32).columns_panels(x, 3, 5, False, u)
"""


@pytest.mark.slow
def test_the_sanitisers_see_mistakes(sanitising_gcc):
    """A matrix that is a number too short."""
    code, output = sanitised("-c", BROKEN, **sanitising_gcc)
    assert code != 0
    assert "heap-buffer-overflow" in output


def c_code():
    return "\n".join(path.read_text() for path in sorted(library.FOLDER.glob("*.[ch]")))


def test_functions_take_what_they_are_given():
    """The signatures in Python are those in C; numbers are long throughout, which is how they are passed."""
    found = {}
    for name, parameters in re.findall(r"^(?:void|long) (\w+)\(([^)]*)\) \{", c_code(), re.M):
        kinds = [p.strip() for p in parameters.split(",") if p != "void"]
        if name not in ("multiply", "share_out"):  # C's own
            assert all("*" in p or re.fullmatch(r"long \w+", p) for p in kinds), name
            found[name] = "".join("p" if "*" in p else "n" for p in kinds)
    assert found == library.SIGNATURES


@pytest.mark.parametrize(
    ("structure", "name"), [(im2col.Shape, "windows"), (winograd.Grid, "grid"), (winograd.Layer, "layer")]
)
def test_structures_are_laid_out_alike(structure, name):
    (body,) = re.findall(rf"typedef struct \{{([^}}]*)\}} {name};", c_code())
    found = re.findall(r"^ *(long|grid) ([\w, ]+);", body, re.M)
    fields = [(field, kind) for kind, fields in found for field in fields.split(", ")]
    kinds = {"long": ctypes.c_long, "grid": winograd.Grid}
    assert list(structure._fields_) == [(field, kinds[kind]) for field, kind in fields]
