"""Starting CUDA kernels.

    launch("pool.max_pool", (y, switches), x, h, w, ...)        the kernel max_pool of pool.cu, a thread for each y

A kernel gets its outputs, its inputs and the number of its threads.  Outputs must be in C order; inputs are brought
into it.  Integers arrive as INDEX and numbers as REAL (common.cuh); None arrives as a null pointer; NumPy scalars as
they are.

Files are compiled when they are first needed, for each device, precision and width of indices; CuPy keeps the result on
disk for the next process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, device_of, is_array
from minicnn.ops.windows import Windows

FOLDER = Path(__file__).parent
THREADS = 256  # in a block
MOST_BLOCKS = 65_535  # of a launch, far from CUDA's limits; if there are more outputs, each thread computes several
WIDE = 1 << 30  # from this many elements on (of arrays, or in an argument), 32-bit indices could overflow

_modules: dict[tuple[Any, ...], Any] = {}


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
    where = device_of(outputs[0])
    assert where.cuda is not None, f"{where} has no CUDA"
    count = outputs[0].size if count is None else count
    if count == 0:
        return
    for output in outputs:
        if not output.flags.c_contiguous:
            raise ValueError(f"{kernel}: an output of shape {output.shape} is not in C order")
    arrays = [a for a in (*outputs, *inputs) if is_array(a) and not isinstance(a, np.generic)]
    if real is None:
        real = "float64" if any(a.dtype == np.float64 for a in arrays) else "float32"
    real = np.dtype(real)
    largest = max(count, *(a.size for a in arrays), *(i for i in inputs if isinstance(i, int)))
    index = np.dtype(np.int64 if largest >= WIDE else np.int32)
    file, _, name = kernel.partition(".")
    function = _module(where, file, real, index).get_function(name)
    arguments = tuple(_argument(where.xp, a, real, index) for a in (*outputs, *inputs, count))
    function((blocks(count),), (THREADS,), arguments)


def geometry(windows: Windows, channels: int) -> tuple[int, ...]:
    """H, W, C, kh, kw, sh, sw, top, left, OH, OW: what every kernel about windows is told (`pixel` in common.cuh)."""
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


def _module(where: Device, file: str, real: Any, index: Any) -> Any:
    """A file, compiled."""
    assert where.cuda is not None
    key = (where.name, where.cuda, file, real, index)
    if key not in _modules:
        _modules[key] = where.cuda.module(source(file), options(real, index))
    return _modules[key]


def _argument(xp: Any, value: Any, real: np.dtype[Any], index: np.dtype[Any]) -> Any:
    """A value as a kernel takes it."""
    if value is None:
        return np.uint64(0)
    if isinstance(value, np.generic) and not isinstance(value, np.floating):
        return value
    if isinstance(value, int):  # or a bool
        return index.type(value)
    return real.type(value) if isinstance(value, float | np.floating) else xp.ascontiguousarray(value)
