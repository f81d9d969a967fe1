"""Every kernel compiles to machine code for every generation of GPUs, by the compiler that CuPy uses, without spills.

NVRTC needs no GPU.  One precision and width of indices for every architecture, every precision and width for one; all
combinations with HYPOTHESIS_PROFILE=intense.
"""

import io
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from minicnn.fast.cuda import kernels

ARCHITECTURES = (70, 80, 90, 100, 120)  # Volta, Ampere, Hopper, Blackwell (data centre, workstation); Turing as Volta
FILES = sorted(path.stem for path in kernels.FOLDER.glob("*.cu"))
VARIANTS = [(real, index) for real in ("f4", "f8") for index in ("i4", "i8")]


def _problem():
    try:
        from cupy.cuda import nvrtc

        supported = nvrtc.getSupportedArchs()
    except Exception as error:
        return f"NVRTC does not load ({error}): pip install nvidia-cuda-nvrtc-cu12"
    return None if set(ARCHITECTURES) <= set(supported) else f"this NVRTC knows {supported} only"


pytestmark = pytest.mark.skipif(_problem() is not None, reason=str(_problem()))


def assembled(source, options, architecture):
    """What the assembler says of every kernel."""
    from cupy.cuda.compiler import _NVRTCProgram

    log = io.StringIO()
    arguments = (*options, "-std=c++17", f"-arch=sm_{architecture}", "--ptxas-options=-v")
    cubin, _ = _NVRTCProgram(source, "kernels.cu", method="cubin").compile(arguments, log)
    assert cubin[:4] == b"\x7fELF"
    return log.getvalue()


def compiled(source, options, architecture):
    """{kernel: bytes of local memory it uses}: the assembler speaks of spills and stack frames."""
    text = assembled(source, options, architecture)
    names = re.findall(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", text)
    memory = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text)
    assert len(names) == len(memory)
    assert {found for _, found in names} <= {str(architecture)}
    return {name: sum(map(int, bytes)) for (name, _), bytes in zip(names, memory, strict=True)}


def wanted():
    for architecture in ARCHITECTURES:
        for variant in VARIANTS:
            if variant == VARIANTS[0] or architecture == 80 or os.environ.get("HYPOTHESIS_PROFILE") == "intense":
                yield architecture, variant


@pytest.mark.parametrize("file", FILES)
def test_compiles_without_spills(file):
    text = kernels.source(file)
    names = set(re.findall(r"^KERNEL (\w+)\(", text, re.M))

    def one(what):
        architecture, variant = what
        return architecture, compiled(text, kernels.options(*variant), architecture)

    with ThreadPoolExecutor(2) as pool:
        for architecture, found in pool.map(one, wanted()):
            assert names <= set(found), f"missing for sm_{architecture}"
            assert not any(found.values()), f"local memory on sm_{architecture}: {found}"


def test_every_kernel_is_counted():
    """The number in docs/gpu.md."""
    counts = [len(compiled(kernels.source(file), kernels.options("f4", "i4"), 90)) for file in FILES]
    page = (kernels.FOLDER.parents[2] / "docs" / "gpu.md").read_text()
    assert f"{sum(counts)} kernels" in page


def test_the_check_can_fail():
    """A kernel that needs more registers than it may have spills."""
    spilling = """
    extern "C" __global__ void __launch_bounds__(1024, 2) greedy(double* y, const double* x, int n) {
        double a[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) a[i] = x[threadIdx.x + i * n];
        #pragma unroll
        for (int k = 0; k < 3; k++) {
            #pragma unroll
            for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 7) % 64] + a[(i + 31) % 64];
        }
        #pragma unroll
        for (int i = 0; i < 64; i++) y[threadIdx.x + i * n] = a[i];
    }"""
    assert compiled(spilling, (), 80)["greedy"] > 0


def test_a_mistake_does_not_compile():
    from cupy.cuda.compiler import CompileException

    with pytest.raises(CompileException, match="undefined"):
        compiled(kernels.source("norm").replace("sqrt(", "squareroot("), kernels.options("f4", "i4"), 80)
