"""Builds the libraries of the device, and lets CuPy's own modules find them.

CuPy's wheel loads the driver, NVRTC, cuBLAS and cuSOLVER when it needs them: ours, once loaded under their names, are
what it finds.  Only the CUDA runtime is inside of its module `runtime`.  Its symbol table says where each function is,
and a jump to ours is written over the first bytes of each, in memory: the files of the wheel stay as they are.
"""

import ctypes
import hashlib
import importlib
import importlib.util
import mmap
import os
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".pytest_cache" / "cuda_cpu"
RUNTIME, CUBLAS, CUSOLVER = (f"cupy_backends.cuda.{name}" for name in ("api.runtime", "libs.cublas", "libs.cusolver"))
THRUST, SORT = "cupy.cuda.thrust", "_Z11thrust_sortiPvPmRKSt6vectorIlSaIlEElS_"  # thrust_sort(int, void*, ...)
PAGE = mmap.PAGESIZE


def symbols(path, section):
    """{name: (address, whether it is defined)} of a table of symbols, ".symtab" or ".dynsym", of a library."""
    data = path.read_bytes()
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]

    def text(start):
        return data[start : data.index(b"\0", start)].decode()

    found = {}
    for name, _, _, _, begin, length, link, *_ in headers:
        if text(headers[names][4] + name) == section:
            strings = headers[link][4]
            for at in range(begin, begin + length, 24):
                name_at, _, _, index, address, _ = struct.unpack_from("<IBBHQQ", data, at)
                found[text(strings + name_at)] = (address, index != 0)
    return found


def module_file(name):
    """Where a compiled module of CuPy is."""
    return Path(importlib.util.find_spec(name).origin)


def compile_once(sources, name, flags, key=b""):
    """A library in the cache, compiled unless it is there; `sources` are files."""
    texts = [Path(s).read_bytes() for s in (*sources, HERE / "device.h")]
    digest = hashlib.sha256(repr((texts, name, flags, key)).encode()).hexdigest()[:24]
    path = CACHE / digest / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        subprocess.run([shutil.which("gcc"), *flags, *map(str, sources), "-o", str(temporary)], check=True)
        temporary.rename(path)
    return path


def missing(wanted):
    """A C file with every function that CuPy may call, weak: it says that it is not there, unless we have it."""
    lines = [f'__attribute__((weak)) int {s}(void) {{ return gpu_missing("{s}"); }}' for s in sorted(wanted)]
    text = "int gpu_missing(const char*);\n" + "\n".join(lines) + "\n"
    return written(f"missing-{hashlib.sha256(text.encode()).hexdigest()[:16]}.c", text)


def written(name, text):
    """A file in the cache; other processes see all of it or nothing."""
    path = CACHE / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(text)
        temporary.rename(path)
    return path


@cache
def runtime_functions():
    """{name: address} of the functions of the CUDA runtime in CuPy's module."""
    table = symbols(module_file(RUNTIME), ".symtab")
    found = {s: address for s, (address, here) in table.items() if here and s[:4] == "cuda" and s[4:5].isupper()}
    assert "cudaMalloc" in found, f"no CUDA runtime, or no table of its symbols, in {module_file(RUNTIME)}"
    return found


def imported(module, prefix):
    """What a module of CuPy wants from a library."""
    return {s for s, (_, here) in symbols(module_file(module), ".dynsym").items() if not here and s.startswith(prefix)}


def libraries():
    """{name: library}, built, loaded and visible to whatever is loaded later."""
    device = ("memory.c", "queue.c", "graph.c", "launch.c", "sort.c", "properties.c")
    cuda = _library("libcuda.so.1", device, runtime_functions())
    for name in ("libcublasLt.so.12", "libcusparse.so.12", "libnvJitLink.so.12"):  # looked for, but never called
        _library(name, (), {"gpu_empty"})
    blas, solver = imported(CUBLAS, "cublas"), imported(CUSOLVER, "cusolver") | imported("cupyx._cusolver", "cusolver")
    return {
        "cuda": cuda,
        "nvrtc": _library("libnvrtc.so.12", ("nvrtc.c",)),
        "cublas": _library("libcublas.so.12", ("cublas.c",), blas),
        "cusolver": _library("libcusolver.so.11", ("cusolver.c",), solver),
    }


def _library(name, sources, wanted=()):
    files = [*(HERE / s for s in sources), *([missing(wanted)] if wanted else [])]
    flags = ["-O1", "-w", "-fPIC", "-shared", f"-Wl,-soname,{name}", f"-I{HERE}"]
    if "cuda" not in name:  # CuPy asks for symbols of a version, which is called as the library
        flags.append(f"-Wl,--version-script={written(f'{name}.map', f'{name} {{ global: *; }};')}")
    return ctypes.CDLL(str(compile_once(files, name, flags)), mode=ctypes.RTLD_GLOBAL)


def redirect(library):
    """CuPy's module `runtime` calls our runtime, and its module `thrust` our sort."""
    importlib.import_module(RUNTIME)
    with open("/proc/self/maps") as maps:
        base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(str(module_file(RUNTIME))))
    for name, offset in runtime_functions().items():
        jump(base + offset, _address(library, name))
    importlib.import_module(THRUST)
    jump(_address(ctypes.CDLL(str(module_file(THRUST))), SORT), _address(library, "gpu_sort"))


def jump(address, target):
    """Let the function at an address jump to another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    start = address // PAGE * PAGE
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(2 * PAGE), 7):  # to be read, written and run
        raise OSError(ctypes.get_errno(), "cannot write to the code of CuPy in memory")
    code = b"\xff\x25\0\0\0\0" + struct.pack("<Q", target)  # jmp *(the next eight bytes)
    ctypes.memmove(address, code, len(code))


def _address(library, symbol):
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
