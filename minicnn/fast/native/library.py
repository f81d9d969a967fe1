"""The C files beside this one as a library: built when it is first needed, and kept for the next process.

    kernels(np.float32).winograd_input(x, ...)        arrays, None and integers, as the C function takes them

There is a library for each precision.  While a C function runs, other Python threads run too: it does not hold Python's
lock.  It believes what it is told, so whoever calls it must pass arrays in C order of the right precision and size.

The compiler is $CC or cc, as everywhere.  Without one, or with MINICNN_NATIVE=0, there is no library, and the versions
in NumPy (minicnn/fast/cpu) do the work.  A built library is kept in ~/.cache/minicnn, under a name that follows from
the C code, the options and the processor: another machine that sees the same folder builds its own.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
SWITCH = "MINICNN_NATIVE"
OPTIONS = ["-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"]
# NumPy's character of a dtype: C's name for it, and for an integer of the same size
PRECISIONS = {"f": ("float", "int32_t"), "d": ("double", "int64_t")}

# function: its arguments, p for an array (or None), n for an integer
SIGNATURES = {
    "lanes": "",
    "same_bytes": "ppn",
    "columns_gather": "ppnnpn",
    "columns_add": "pnpnnp",
    "columns_panels": "pnnnp",
    "columns_forward": "nnnpnppnpn",
    "columns_product": "nnnpnppn",
    "columns_before": "ppnnnpn",
    "columns_filters": "nnnpnpnnp",
    "pool_max": "ppnnpp",
    "pool_max_adjoint": "pppnnp",
    "winograd_input": "ppnnpnn",
    "winograd_input_adjoint": "pnnpnnp",
    "winograd_output": "pnnppnnnnp",
    "winograd_output_adjoint": "pppnnnnpnn",
    "winograd_forward": "ppppnnpp",
    "winograd_backward": "pppppnnppp",
    "winograd_filters": "pnnnnnp",
    "winograd_products": "nnnnnpnnppnn",
    "winograd_filter_products": "nnnnnpnnpnnnp",
}

_lock = threading.Lock()
_libraries: dict[str, Any] = {}  # by precision; None where there is none
_problem = ""  # why there is none


class _Address:
    """How an array is passed: by its address."""

    @classmethod
    def from_param(cls, array: np.ndarray | ctypes.Structure | None) -> Any:
        if not isinstance(array, np.ndarray):
            return None if array is None else ctypes.byref(array)
        try:
            return ctypes.byref(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
        except (
            TypeError,
            ValueError,
        ):  # of arrays that are empty, read-only or not contiguous; it is three times as slow
            return ctypes.c_void_p(array.ctypes.data)


def kernels(dtype: Any) -> Any:
    """The library for this precision, or None."""
    character = np.dtype(dtype).char
    try:
        return _libraries[character]
    except KeyError:
        with _lock:
            if character not in _libraries:
                _libraries[character] = _load(character)
            return _libraries[character]


def available(x: object) -> bool:
    """Whether x is an array that there is a library for."""
    return type(x) is np.ndarray and x.dtype.char in PRECISIONS and kernels(x.dtype) is not None


def problem() -> str | None:
    """Why there is no library for float32, in a sentence; None if there is one."""
    return None if kernels(np.float32) is not None else _problem


def lanes(dtype: Any) -> int:
    """How many numbers a register of this processor holds, as the library was compiled."""
    return int(kernels(dtype).lanes())


def _load(character: str) -> Any:
    """The library for a precision: kept from before, or built now; None if it cannot be."""
    global _problem
    if os.environ.get(SWITCH) == "0":
        _problem = f"switched off by {SWITCH}=0."
        return None
    name = f"{PRECISIONS[character][0]}-{_fingerprint(character)}.so"
    try:
        library = _opened(name) or _built(name, character)
    except (OSError, subprocess.SubprocessError) as error:
        _problem = _explanation(error)
        if shutil.which(_compiler()[0]):
            print(f"minicnn: {_problem} NumPy does the work, more slowly", file=sys.stderr)
        return None
    for function, arguments in SIGNATURES.items():
        kinds = {"p": _Address, "n": ctypes.c_long}
        getattr(library, function).argtypes = [kinds[argument] for argument in arguments]
        getattr(library, function).restype = ctypes.c_long  # or nothing, then it is never looked at
    return library


def _opened(name: str) -> ctypes.CDLL | None:
    """The library that was kept under this name."""
    path = _cache() / name
    return ctypes.CDLL(str(path)) if path.exists() else None


def _built(name: str, character: str) -> ctypes.CDLL:
    """Compile the library; keep it if there is a place for it."""
    with tempfile.TemporaryDirectory(prefix="minicnn-") as folder:
        built = Path(folder) / name
        files = sorted(map(str, FOLDER.glob("*.c")))
        real, integer = PRECISIONS[character]
        line = [*_compiler(), *OPTIONS, f"-DREAL={real}", f"-DINTEGER={integer}", *files, "-o", str(built)]
        subprocess.run(line, check=True, capture_output=True, text=True, timeout=300)
        try:
            kept = _cache() / name
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_name(f".{name}-{os.getpid()}")
            shutil.copy(built, unfinished)
            os.replace(unfinished, kept)  # never half a file, also if several processes do this at once
        except OSError:
            return ctypes.CDLL(str(built))  # once loaded it needs no file
        return ctypes.CDLL(str(kept))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minicnn"


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def _fingerprint(character: str) -> str:
    """What the library depends on: the C code, the options, and what the processor can do."""
    code = [path.read_text() for path in sorted(FOLDER.glob("*.[ch]"))]
    features = platform.machine()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        lines = cpuinfo.read_text().splitlines()
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    text = "\n".join([*code, *_compiler(), *OPTIONS, character, features])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _explanation(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no C compiler ({_compiler()[0]}). Install one (gcc or clang), or name it in CC."
    said = getattr(error, "stderr", None) or str(error)
    return f"the C compiler failed ({said.strip().splitlines()[0] if said.strip() else type(error).__name__})."
