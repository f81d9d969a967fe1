"""CUDA source to a library of the CPU: g++ behind kernel.h, in the place of NVRTC.

kernel.h, with the headers of CuPy that its kernels include, is compiled beforehand; a kernel then takes a fifth of a
second.  What was compiled once is found again by its text, its options and the text of the headers.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

from tests.cuda_cpu.build import CACHE, HERE, module_file, written

COMPILER = shutil.which("g++")
FUSED = os.environ.get("MINICNN_CUDA_CPU_FMA") == "1"
ROUNDING = ["-ffp-contract=fast", "-mfma", "-fexpensive-optimizations"] if FUSED else ["-ffp-contract=off"]
FLAGS = ["-std=c++17", "-w", "-O1", "-fPIC", "-fno-strict-aliasing", "-fwrapv", *ROUNDING]
BARRIERS = re.compile(r"__syncthreads|__syncwarp|__shfl")
KERNELS = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?(\w+)\s*\(')
HEADERS = ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h")  # that CuPy's kernels include
COMPLEX = "#pragma once\ntemplate <typename T> struct complex { T re, im; };\n"  # CuPy's needs all of Thrust
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_char_p)
)


class CompilationError(Exception):
    """What g++ said."""


def gpp(arguments, text):
    done = subprocess.run([COMPILER, *arguments], input=text, capture_output=True, text=True)
    if done.returncode:
        raise CompilationError(done.stderr)
    return done.stdout


@cache
def headers():
    """The folder with kernel.h, compiled."""
    include = module_file("cupy").parent / "_core" / "include"
    text = (HERE / "kernel.h").read_text()
    text += "".join(f"#include <cupy/{name}>\n" for name in HEADERS)
    about = repr((text, Path(__file__).read_text(), FLAGS, str(include), gpp(["--version"], None)))
    folder = CACHE / hashlib.sha256(about.encode()).hexdigest()[:16]
    compiled = folder / "kernel.h.gch"
    if not compiled.exists():
        written(f"{folder.name}/kernel.h", text)
        written(f"{folder.name}/cupy/complex.cuh", COMPLEX)
        temporary = folder / f"kernel.{os.getpid()}"
        flags = [*FLAGS, f"-I{folder}", f"-I{include}"]
        gpp([*flags, "-x", "c++-header", str(folder / "kernel.h"), "-o", str(temporary)], None)
        temporary.rename(compiled)
    return folder, include


def library(source, options):
    """The path of a library with the kernels of a source."""
    folder, include = headers()
    definitions = [option for option in options if option.startswith("-D")]
    path = folder / f"{hashlib.sha256(repr((source, definitions)).encode()).hexdigest()[:24]}.so"
    if not path.exists():
        plain = source if "#include" in source else gpp(["-E", "-P", *definitions, "-x", "c++", "-"], source)
        barriers = f'\nextern "C" {{ extern const int gpu_barriers = {int(bool(BARRIERS.search(plain)))}; }}\n'
        calls = "".join(f"GPU_KERNEL({name})\n" for name in KERNELS.findall(plain))
        whole = '#include "kernel.h"\n' + source + barriers + calls
        temporary = path.with_suffix(f".{os.getpid()}")
        flags = [*FLAGS, "-shared", "-nostdlib", *definitions, f"-I{folder}", f"-I{include}"]
        gpp([*flags, "-x", "c++", "-", "-x", "none", "-lgcc", "-o", str(temporary)], whole)
        temporary.rename(path)
    return path


_kept = []  # C holds pointers to these
_one_at_a_time = threading.Lock()


@SIGNATURE
def compile_for_nvrtc(source, count, options, text):
    """What nvrtc.c calls."""
    try:
        with _one_at_a_time:
            result, failed = str(library(source.decode(), [options[i].decode() for i in range(count)])), 0
    except CompilationError as error:
        result, failed = str(error), 1
    _kept.append(ctypes.c_char_p(result.encode()))
    text[0] = _kept[-1]
    return failed
