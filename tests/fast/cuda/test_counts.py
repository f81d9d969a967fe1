"""What kernels cost, by counts: in the code that NVRTC makes of them, which needs no GPU.

The table of docs/gpu.md holds the limits.  Counts are of the text of a kernel, once through each loop: loads and
instructions in PTX, for sm_80 and float32, registers in machine code.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from minicnn.fast.cuda import kernels
from tests.fast.cuda.test_nvrtc import assembled, pytestmark  # noqa: F401  (skips where there is no NVRTC)

PAGE = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text()
ROW = re.compile(r"^\| `(\w+)\.(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.M)
LIMITS = [(file, name, *map(int, numbers)) for file, name, *numbers in ROW.findall(PAGE)]
FILES = ("pool", "im2col", "winograd")  # whose threads find their places in images


@cache
def instructions(file, real="f4"):
    """{kernel: its instructions}: "ld.global.nc.v4.f32", ..."""
    from cupy.cuda.compiler import _NVRTCProgram

    options = (*kernels.options(real, "i4"), "-std=c++17", "-arch=compute_80")
    ptx, _ = _NVRTCProgram(kernels.source(file), "kernels.cu", method="ptx").compile(options)
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    bodies = re.findall(r"\.entry (\w+)\(.*?\)\s*\{(.*?)\n\}", text, re.S)
    return {name: re.findall(r"^\t(?:@!?%p\d+ )?([a-z][\w.]+)", body, re.M) for name, body in bodies}


@cache
def registers(file):
    """{kernel: registers of a thread}."""
    log = assembled(kernels.source(file), kernels.options("f4", "i4"), 80)
    names = re.findall(r"Compiling entry function '(\w+)'", log)
    return dict(zip(names, map(int, re.findall(r"Used (\d+) registers", log)), strict=True))


def test_the_page_has_limits():
    assert {file for file, *_ in LIMITS} == set(FILES)


@pytest.mark.parametrize(("file", "name", "outputs", "loads", "most_instructions", "most_registers"), LIMITS)
def test_within_the_limits(file, name, outputs, loads, most_instructions, most_registers):
    """And not far below them: then the table is out of date."""
    found = instructions(file)[name]
    of = {kind: [one for one in found if one.startswith(kind)] for kind in ("ld.global", "st.global")}
    assert len(of["ld.global"]) <= loads
    written = sum(4 if ".v4" in one else 1 for one in of["st.global"] if not one.endswith(("u8", "b8")))
    assert written % outputs == 0
    assert 0.9 * most_instructions <= len(found) <= most_instructions
    assert 0.7 * most_registers <= registers(file)[name] <= most_registers


@pytest.mark.parametrize("file", FILES)
def test_no_divisions_of_integers(file):
    for real in ("f4", "f8"):
        for name, found in instructions(file, real).items():
            assert not [one for one in found if re.match(r"(div|rem)\.[su]\d+", one)], name


@pytest.mark.parametrize(("real", "vector"), [("f4", ".v4"), ("f8", ".v2")])
@pytest.mark.parametrize("file", ["pool", "im2col"])
def test_vectors_are_read_and_written_at_once(file, real, vector):
    found = {name: kinds for name, kinds in instructions(file, real).items() if name.endswith("_vector")}
    assert len(found) == {"pool": 5, "im2col": 2}[file]
    for name, kinds in found.items():
        accesses = [kind for kind in kinds if kind.startswith(("ld.global", "st.global"))]
        assert accesses, name
        assert all(vector in kind for kind in accesses), name


def test_the_count_can_fail(monkeypatch):
    """A division by a number that only the GPU knows."""
    text = kernels.source("norm") + "KERNEL slow(INDEX* y, INDEX d, INDEX count) { EACH(i, count) y[i] = i / d; }"
    monkeypatch.setattr(kernels, "source", lambda file: text)
    assert [one for one in instructions.__wrapped__("norm")["slow"] if one.startswith("div.s32")]
