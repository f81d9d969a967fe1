"""Every name of CuPy that the sources mention exists in the installed CuPy, and takes the keywords that are used.

The stand-in sees to what runs on it; this sees to the rest, such as streams, memory pools and the compiler.
"""

import ast
import sys
from pathlib import Path

import cupy
import pytest

from tests.standin import cupy_signature

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "minicnn").rglob("*.py"))
UFUNC = {"out", "dtype", "casting"}


def chain(node):
    """["cuda", "Stream"] of xp.cuda.Stream, cupy.cuda.Stream, self.cupy.cuda.Stream or device.xp.cuda.Stream."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
        root = getattr(node, "attr", None) or getattr(node, "id", None)
        of_function = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "array_module"
        if root in ("xp", "cupy") or of_function:
            return names[::-1]
    return None


def uses(tree):
    """(names, keywords) of every mention of CuPy; the keywords are None where it is not called."""
    called = {
        id(node.func): [k.arg for k in node.keywords if k.arg] for node in ast.walk(tree) if isinstance(node, ast.Call)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cupy":
            yield from (([*node.module.split(".")[1:], alias.name], None) for alias in node.names)
        if isinstance(node, ast.Attribute) and chain(node):
            yield chain(node), called.get(id(node))


def lookup(names):
    """What they name; up to a method of an array or an instance, which is not looked into."""
    value = cupy
    for name in names:
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_and_keywords_exist(path):
    for names, keywords in uses(ast.parse(path.read_text())):
        if "cublas" in names:
            continue  # does not load without libcublas: below
        function = lookup(names)
        if keywords:
            known = UFUNC if isinstance(function, cupy.ufunc) else set(cupy_signature(function).parameters)
            assert set(keywords) <= known, f"{'.'.join(names)} takes {known}"


def test_the_scan_sees_names():
    text = """
from cupy.cuda import runtime
xp.where(x); array_module(y).empty(shape=3); self.cupy.cuda.Stream(non_blocking=True); a.device.xp.no_such; z.sum()
"""
    found = [(".".join(names), keywords) for names, keywords in uses(ast.parse(text))]
    assert ("cuda.runtime", None) in found
    assert ("where", []) in found
    assert ("empty", ["shape"]) in found
    assert ("cuda.Stream", ["non_blocking"]) in found
    assert ("no_such", None) in found
    assert not any("sum" in names for names, _ in found)
    with pytest.raises(AttributeError):
        lookup(["no_such"])


def test_what_is_used_of_cublas():
    """Its extension does not load here, but its names and signatures stand in the file."""
    (library,) = (Path(cupy.__file__).parents[1] / "cupy_backends" / "cuda" / "libs").glob("cublas.*")
    content = library.read_bytes()
    for name in (
        "CUBLASError",
        "cublasSetStream_v2",
        "cublasGemmStridedBatchedEx",
    ):  # two are cuBLAS's, found through it
        assert name.encode() in content, name
    assert (
        b"gemmStridedBatchedEx(intptr_t handle, int transa, int transb, int m, int n, int k, size_t alpha, size_t A, "
        b"int Atype, int lda, long long strideA, size_t B, int Btype, int ldb, long long strideB, size_t beta, "
        b"size_t C, int Ctype, int ldc, long long strideC, int batchCount, int computeType, int algo)"
    ) in content


def test_what_is_used_of_objects():
    """Methods and attributes that backend.py, cuda.py and fast/batches.py call on CuPy's objects."""
    for kind, names in {
        cupy.RawModule: ["get_function"],
        cupy.cuda.Stream: ["record", "wait_event", "begin_capture", "end_capture"],
        cupy.cuda.Graph: ["launch"],
        cupy.cuda.Event: ["synchronize"],
        cupy.cuda.Device: ["synchronize", "use", "cublas_handle", "mem_info", "__enter__"],
        cupy.cuda.MemoryPool: ["free_all_blocks", "free_bytes", "malloc"],
        cupy.ndarray: ["set", "data", "flags", "fill"],
    }.items():
        for name in names:
            assert hasattr(kind, name), f"{kind} has no {name}"
    assert "stream" in cupy_signature(cupy.ndarray.set).parameters
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert hasattr(cupy.cuda.MemoryPointer, "ptr")
    assert sys.modules["cupy"] is cupy
