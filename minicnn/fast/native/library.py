"""The C files beside this one as a library: built when it is first needed, and kept for the next process.

    kernels(np.float32).winograd_input(x, ...)        arrays, None and integers, as the C function takes them

There is a library for float32, one for float64, and one for float32 whose products are in bf16.  While a C function
runs, other Python threads run too: it does not hold Python's lock.  It believes what it is told, so whoever calls it
must pass arrays in C order of the right precision and size.

The compiler is the one that CC names, with options if it has some, else cc, gcc or clang.  Where there is none, or
where it fails, the versions in NumPy (minicnn/fast/cpu) do the work, and `problem` says why.  With MINICNN_NATIVE=0 in
the environment they do it too; this is looked up at every use, so that a program may change its mind.

A library is kept in ~/.cache/minicnn/native (in XDG_CACHE_HOME, if that is set), under a name that ends with two
numbers.  The first follows from the C code, the compiler, the options and the processor: another machine that sees the
same folder, and another version of minicnn, build their own.  The second follows from the library itself: a file that
is damaged is not loaded, but built anew.  Libraries that nobody has used for a season are removed when one is built.
The folder may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from minicnn.precision import precision

FOLDER = Path(__file__).parent
SWITCH = "MINICNN_NATIVE"
PROCESSOR = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"  # this one
OPTIONS = ["-O3", PROCESSOR, "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-fno-trapping-math"]
COMPILERS = ("cc", "gcc", "clang")
PATIENCE = 300  # seconds for the compiler
SEASON = 90 * 86400  # seconds
BF16 = "bf16"
# NumPy's character of a dtype, or BF16: a name, and what makes the C code one for it
BUILDS = {
    "f": ("float", ["-DREAL=float", "-DINTEGER=int32_t"]),
    "d": ("double", ["-DREAL=double", "-DINTEGER=int64_t"]),
    BF16: ("bf16", ["-DREAL=float", "-DINTEGER=int32_t", "-DBF16"]),
}

# function: its arguments, p for an array (or None), n for an integer
SIGNATURES = {
    "lanes": "",
    "instructions": "",
    "fingerprint": "pnp",
    "columns_gather": "ppnnpn",
    "columns_add": "pnpnnp",
    "columns_panels": "pnnnp",
    "columns_forward": "ppnnnpnnppnnnnpp",
    "columns_product": "nnnpnppn",
    "columns_before": "ppnnnpn",
    "columns_filters": "nnnpnpnnp",
    "pool_max": "ppnnnpp",
    "pool_max_adjoint": "pppnnp",
    "winograd_input": "ppnnpnn",
    "winograd_input_adjoint": "pnnpnnp",
    "winograd_output": "pnnpppnnnnp",
    "winograd_output_adjoint": "pppnnnnpnn",
    "winograd_forward": "pppppnnnpnp",
    "winograd_backward": "pppppnnppp",
    "winograd_filters": "pnnnnnnp",
    "winograd_products": "nnnnnpnnpnpnn",
    "winograd_filter_products": "nnnnnpnnpnnnp",
}

_lock = threading.Lock()
_libraries: dict[str, Any] = {}  # by the key in BUILDS; None where there is none
_problem = ""  # why there is none


class _Address:
    """How an array is passed: by its address."""

    @classmethod
    def from_param(cls, array: np.ndarray | ctypes.Structure | None) -> Any:
        if not isinstance(array, np.ndarray):
            return None if array is None else ctypes.byref(array)
        try:
            return ctypes.byref(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # it is empty, read-only or not contiguous; this is three times as slow
            return ctypes.c_void_p(array.ctypes.data)


def kernels(dtype: Any) -> Any:
    """The library for numbers of this kind, or None if there is none; built now, if this is the first use."""
    return _library(np.dtype(dtype).char)


def kernels_with_products(dtype: Any) -> Any:
    """The same, with products that are as exact as `precision` says, or more so where that cannot be built."""
    character = np.dtype(dtype).char
    return (character == "f" and precision() == BF16 and _library(BF16)) or _library(character)


def _library(build: str) -> Any:
    try:
        return _libraries[build]
    except KeyError:
        with _lock:
            if build not in _libraries:
                _libraries[build] = _load(build)
            return _libraries[build]


def switched_on() -> bool:
    """Whether MINICNN_NATIVE allows the libraries."""
    return os.environ.get(SWITCH) != "0"


def available(x: object) -> bool:
    """Whether x is an array that there is a library for, and may be used."""
    return type(x) is np.ndarray and x.dtype.char in BUILDS and switched_on() and kernels(x.dtype) is not None


def problem() -> str | None:
    """Why the library for float32 is not used, in a sentence or two; None if it is."""
    if not switched_on():
        return f"switched off by {SWITCH}=0."
    return None if kernels(np.float32) is not None else _problem


def bf16_problem() -> str | None:
    """Why products cannot be in bf16, in a sentence or two; None if they can."""
    return problem() or (None if _library(BF16) is not None else _problem)


def bf16_is_fast() -> bool:
    """Whether, where there is no problem, the processor has instructions for bf16; without them float32 is faster."""
    return bool(_library(BF16).instructions())


def lanes(dtype: Any) -> int:
    """How many numbers a register of this processor holds, as the library was compiled."""
    return int(kernels(dtype).lanes())


def compiler() -> list[str]:
    """The command that compiles, with its options: what CC says, else the first of COMPILERS that is here."""
    asked = os.environ.get("CC", "")
    try:
        words = shlex.split(asked)
    except ValueError:  # a quotation mark without its partner
        words = [asked]
    return words or [next(filter(shutil.which, COMPILERS), COMPILERS[0])]


def _load(build: str) -> Any:
    """A library: kept from before, or built now; None if it cannot be."""
    global _problem
    try:
        name = f"{BUILDS[build][0]}-{_fingerprint(build)}"
        library = _kept(name) or _built(name, build)
    except (OSError, subprocess.SubprocessError) as error:
        if not _problem:  # else it has been said
            _problem = _explanation(error)
            if shutil.which(compiler()[0]):
                print(f"minicnn: {_problem} NumPy does the work, more slowly.", file=sys.stderr)
        return None
    for function, arguments in SIGNATURES.items():
        kinds = {"p": _Address, "n": ctypes.c_long}
        getattr(library, function).argtypes = [kinds[argument] for argument in arguments]
        getattr(library, function).restype = ctypes.c_long  # or nothing, then it is never looked at
    return library


def _kept(name: str) -> ctypes.CDLL | None:
    """The library that was kept under this name, if it is there and whole, and can be loaded from there."""
    with contextlib.suppress(OSError):
        for path in _cache().glob(f"{name}-*.so"):
            if path.stem == f"{name}-{_number(path.read_bytes())}":
                library = ctypes.CDLL(str(path))
                with contextlib.suppress(OSError):  # of a folder that we may only read
                    os.utime(path)
                return library
    return None


def _built(name: str, build: str) -> ctypes.CDLL:
    """Compile the library; keep it if there is a place for it."""
    with tempfile.TemporaryDirectory(prefix="minicnn-") as folder:
        built = Path(folder) / f"{name}.so"
        line = [*compiler(), *OPTIONS, *BUILDS[build][1], *sources(), "-o", str(built)]
        subprocess.run(line, check=True, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        try:
            return ctypes.CDLL(str(_keep(built, name)))
        except OSError:
            return ctypes.CDLL(str(built))  # once loaded it needs no file


def sources() -> list[str]:
    return sorted(map(str, FOLDER.glob("*.c")))


def _keep(built: Path, name: str) -> Path:
    """Copy a library to where the next process looks for it, in place of those that are damaged or long unused."""
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.so"):
        if path.match(f"{name}-*.so") or path.stat().st_mtime < time.time() - SEASON:
            path.unlink(missing_ok=True)
    unfinished, kept = folder / f".{name}-{os.getpid()}", folder / f"{name}-{_number(built.read_bytes())}.so"
    shutil.copy(built, unfinished)
    os.replace(unfinished, kept)  # never half a file, also if several processes do this at once
    return kept


def _cache() -> Path:
    """The folder for libraries, which may not exist yet."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minicnn" / "native"
    except RuntimeError as error:  # nobody knows where home is
        raise FileNotFoundError(str(error)) from error


def _fingerprint(build: str) -> str:
    """What the library depends on: the C code, the compiler, the options, and what the processor can do."""
    code = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.[ch]"))]
    text = "\n".join([*code, *compiler(), *OPTIONS, *BUILDS[build][1], _processor()])
    return _number(text.encode())


def _processor() -> str:
    """What this processor can do."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            can = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        can = platform.processor()
    return f"{platform.machine()} {can}"


def _number(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _explanation(error: Exception) -> str:
    command = compiler()[0]
    if shutil.which(command) is None:
        return f"there is no C compiler ({command}). Install one (gcc or clang), or name it in CC."
    if isinstance(error, subprocess.TimeoutExpired):
        said = f"{command} took longer than {PATIENCE} seconds"
    elif isinstance(error, subprocess.CalledProcessError):
        lines = [*error.stderr.strip().splitlines(), f"{command} ended with exit code {error.returncode}"]
        said = next((line.strip() for line in lines if "error" in line.lower()), lines[0])
    else:
        said = str(error)
    return f"the kernels in C could not be built ({said})."


def _after_fork() -> None:
    """In a forked child the lock may be held by a thread that is gone."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
