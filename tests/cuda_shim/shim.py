"""CUDA kernels without a GPU: the same source, compiled by g++ behind shim.h, and called as CuPy calls it.

It is strict where CUDA would be silent: the number of arguments, the dtype behind every pointer and the width of every
number must be those of the kernel's signature; arrays must be in C order and on the device.

MINICNN_SANITISE=1 compiles with AddressSanitizer and UndefinedBehaviorSanitizer (the process then needs libasan
preloaded) and hands every kernel copies of its arrays that end where the array ends.
"""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from minicnn.fast.cuda import kernels
from tests.standin_array import StandInArray, launched

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".pytest_cache" / "cuda_shim"
COMPILER = shutil.which("g++")
SANITISE = os.environ.get("MINICNN_SANITISE") == "1"
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-w"]
SANITISERS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++: kernels cannot run on this machine")

DTYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "i64": np.int64}
DTYPES |= {"u8": np.uint8, "u16": np.uint16, "u64": np.uint64}


def expanded(text, options):
    """What the preprocessor makes of kernels: macros, such as KERNEL, are gone."""
    found = subprocess.run(
        [COMPILER, "-E", "-P", *options, "-x", "c++", "-"], input=text, capture_output=True, text=True, check=True
    )
    return found.stdout


def signatures(text, options):
    """{kernel: [(type, is a pointer)]} of a source."""
    plain = expanded(text, options).replace("long long", "i64")
    found = {}
    for name, parameters in re.findall(r'extern "C" __global__ void (\w+)\s*\((.*?)\)\s*\{', plain, re.S):
        types = [p.replace("const", " ").split() for p in " ".join(parameters.split()).replace("*", " * ").split(",")]
        found[name] = [(words[0], "*" in words) for words in types]
    return found


@functools.cache
def library(text, options):
    """The source, compiled, and its signatures; what earlier tests compiled is used again."""
    names = signatures(text, options)
    whole = '#include "shim.h"\n' + text + "\n" + "\n".join(f"LAUNCHER({name})" for name in names)
    flags = FLAGS + SANITISERS * SANITISE
    key = hashlib.sha256(repr((whole, (HERE / "shim.h").read_text(), options, flags)).encode()).hexdigest()[:24]
    path = CACHE / f"{key}.so"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        command = [COMPILER, *flags, *options, "-I", str(HERE), "-x", "c++", "-", "-o", str(temporary)]
        done = subprocess.run(command, input=whole, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        temporary.rename(path)
    return ctypes.CDLL(str(path)), names


def all_sources():
    """Every file of kernels as one source, so that there is one library for each precision."""
    files = sorted(kernels.FOLDER.glob("*.cu"))
    return (kernels.FOLDER / "common.cuh").read_text() + "".join(file.read_text() for file in files)


class ShimModule:
    """In the place of cupy.RawModule."""

    def __init__(self, text, options):
        shared = all_sources()
        ours = text.removeprefix((kernels.FOLDER / "common.cuh").read_text())
        self.library, self.signatures = library(shared if ours in shared else text, options)

    def get_function(self, name):
        return functools.partial(self._call, name)

    def _call(self, name, grid, block, arguments):
        (blocks,), (threads,) = grid, block
        assert 0 < blocks < 2**31, f"{name}: {blocks} blocks"
        assert 0 < threads <= 1024, f"{name}: {threads} threads"
        signature = self.signatures[name]
        assert len(arguments) == len(signature), f"{name}: {len(arguments)} arguments, it takes {len(signature)}"
        values, copies = [], []
        for position, (value, (kind, pointer)) in enumerate(zip(arguments, signature, strict=True)):
            where = f"{name}, argument {position}"
            if isinstance(value, StandInArray):
                values.append(ctypes.c_void_p(self._address(where, value, kind, pointer, copies)))
            else:
                values.append(self._number(where, value, kind, pointer))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        seed = int.from_bytes(hashlib.sha256(repr((name, blocks)).encode()).digest()[:7], "little")
        function = getattr(self.library, f"launch_{name}")
        function(pointers, ctypes.c_uint64(blocks), ctypes.c_uint64(threads), ctypes.c_uint64(seed))
        for copy, host in copies:
            host[...] = copy
        launched(f"kernel {name}")

    def _address(self, where, value, kind, pointer, copies):
        host = value._host
        assert pointer, f"{where}: an array for a {kind}"
        assert host.dtype == DTYPES[kind], f"{where}: {host.dtype} for {kind}*"
        assert host.flags.c_contiguous, f"{where}: not in C order"
        if not SANITISE:
            return host.ctypes.data
        copies.append((host.copy(), host))
        return copies[-1][0].ctypes.data

    def _number(self, where, value, kind, pointer):
        assert isinstance(value, np.generic), f"{where}: {type(value)} for {kind}"
        if pointer:
            assert (value.dtype, value) == (np.uint64, 0), f"{where}: {value!r} for a pointer"
            return ctypes.c_void_p(0)
        assert value.dtype == DTYPES[kind], f"{where}: {value.dtype} for {kind}"
        return np.ctypeslib.as_ctypes_type(value.dtype)(value.item())
