"""Starting CUDA kernels.

    launch("pool.max_pool", (y, switches), x, h, w, ...)        the kernel max_pool of pool.cu, a thread for each y

A kernel gets its outputs, its inputs and the number of its threads.  Outputs must be in C order; inputs are brought
into it.  Integers arrive as INDEX and numbers as REAL (common.cuh); None arrives as a null pointer; NumPy scalars as
they are.

Files are compiled when they are first needed, for each device, precision and width of indices; CuPy keeps the result on
disk for the next process.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, DeviceError, device_of
from minicnn.ops.windows import Windows

FOLDER = Path(__file__).parent
THREADS = 256  # in a block
MOST_BLOCKS = 65_535  # of a launch, far from CUDA's limits; if there are more outputs, each thread computes several
WIDE = 1 << 30  # from this many elements on (of arrays, or in an argument), 32-bit indices could overflow

NULL = np.uint64(0)
_TYPES = {  # (REAL is double, INDEX is wide) -> their types
    (double, wide): (np.float64 if double else np.float32, np.int64 if wide else np.int32)
    for double in (False, True)
    for wide in (False, True)
}

DEBUG_SYNC = os.environ.get("MINICNN_DEBUG_SYNC") == "1"  # wait after every kernel, and say which one failed

# While a graph is captured (minicnn/fast/graph.py): where it will find the number of steps since then, a uint64.
steps_ahead: ContextVar[Array | None] = ContextVar("the steps since a graph was captured", default=None)

_modules: dict[tuple[Any, ...], Any] = {}
_functions: dict[tuple[Any, ...], Any] = {}


def available(x: Array) -> bool:
    """Whether x lives where kernels run."""
    return device_of(x).cuda is not None


def blocks(count: int) -> int:
    """The number of blocks for `count` outputs."""
    return min(-(-count // THREADS), MOST_BLOCKS)


def launch(kernel: str, outputs: tuple[Array, ...], *inputs: Any, count: int | None = None, real: Any = None) -> None:
    """Start a kernel, "file.name", with a thread for each element of the first output, or `count` of them.

    REAL is double if an array is, unless `real` says what it is.  If there is nothing to compute, nothing is launched.
    """
    first = outputs[0]
    where, kind = device_of(first), type(first)
    assert where.cuda is not None, f"{where} has no CUDA"
    count = first.size if count is None else count
    if count == 0:
        return
    in_order = where.xp.ascontiguousarray  # of an array in C order it is that array; `flags` would make an object
    for output in outputs:
        if in_order(output) is not output:
            raise ValueError(f"{kernel}: an output of shape {output.shape} is not in C order")
    largest, double = count, False
    for value in (*outputs, *inputs):
        if type(value) is kind:
            largest, double = max(largest, value.size), double or value.dtype == np.float64
        elif isinstance(value, int):
            largest = max(largest, value)
    key = (double if real is None else real == np.float64, largest >= WIDE)
    function, types = _function(where, kernel, *key), _TYPES[key]
    values = [in_order(value) if type(value) is kind else _argument(value, *types) for value in inputs]
    arguments = (*outputs, *values, _number(types[1], count))
    function((blocks(count),), (THREADS,), arguments)
    if DEBUG_SYNC:
        _wait_for(where, kernel)


def _wait_for(where: Device, kernel: str) -> None:
    """Whatever goes wrong on a GPU shows when the program next waits for it; here that is after every kernel."""
    try:
        where.synchronize()
    except Exception as error:  # CuPy has several
        raise DeviceError(f"the kernel {kernel} failed on {where}: {error}") from error


def geometry(windows: Windows, channels: int) -> tuple[int, ...]:
    """H, W, C, kh, kw, sh, sw, top, left, OH, OW: what every kernel about windows is told (WINDOWS in common.cuh)."""
    (top, _), (left, _) = windows.pad
    return (*windows.size, channels, *windows.k, *windows.stride, top, left, *windows.out)


def source(file: str) -> str:
    """The text of a file of kernels, with what all start with."""
    return (FOLDER / "common.cuh").read_text() + (FOLDER / f"{file}.cu").read_text()


def options(real: Any, index: Any) -> tuple[str, ...]:
    """The definitions that a file is compiled with."""
    real_name = {4: "float", 8: "double"}[np.dtype(real).itemsize]
    index_name = {4: "int", 8: "long long"}[np.dtype(index).itemsize]
    return (f"-DREAL={real_name}", f"-DINDEX={index_name}")


def _function(where: Device, kernel: str, double: bool, wide: bool) -> Any:
    """A kernel, ready to be started; found by its name only once, as CuPy asks the driver each time."""
    key = (where.name, where.cuda, kernel, double, wide)
    function = _functions.get(key)
    if function is None:
        file, _, name = kernel.partition(".")
        function = _functions[key] = _module(where, file, *_TYPES[double, wide]).get_function(name)
    return function


def _module(where: Device, file: str, real: Any, index: Any) -> Any:
    """A file, compiled."""
    assert where.cuda is not None
    key = (where.name, where.cuda, file, real, index)
    if key not in _modules:
        _modules[key] = where.cuda.module(source(file), options(real, index))
    return _modules[key]


def _argument(value: Any, real: Any, index: Any) -> Any:
    """A value that is not an array, as a kernel takes it."""
    if value is None:
        return NULL
    if isinstance(value, int):  # or a bool
        return _number(index, value)
    if isinstance(value, np.generic) and not isinstance(value, np.floating):
        return value
    return real(value)


@lru_cache(4096)  # shapes come again and again
def _number(index: Any, value: int) -> Any:
    return index(value)
