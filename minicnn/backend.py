"""Devices: where arrays live, and which array module computes with them.

The rest of the code never asks "NumPy or CuPy?".  It says

    xp = array_module(x)

and writes one body for both.  This file is the only one that imports CuPy, and it does so only when a GPU
is asked for or a CuPy array turns up, so that everything works where CuPy is not installed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from minicnn.blas import one_blas_thread
from minicnn.cuda import DEBUG_SYNC, Cuda, CupyCuda, WaitingCuda, out_of_memory

Array = Any  # numpy.ndarray or cupy.ndarray: one body of code for both
P = ParamSpec("P")
R = TypeVar("R")

# CuPy and the CUDA libraries that it calls; it works however minicnn itself was installed.
INSTALL_CUPY = "pip install 'cupy-cuda12x[ctk]>=14' (CUDA 12) or 'cupy-cuda13x[ctk]>=14' (CUDA 13)"


LARGE = 8 << 20  # bytes: smaller arrays go through page-locked memory that CuPy keeps, larger ones in chunks


class DeviceError(RuntimeError):
    """A device that was asked for cannot be used; the message says what is missing and what to do."""


class NoRoomError(DeviceError):
    """There is no memory for an array; whoever wanted it can say what for (`memory_for` in minicnn/parallel.py)."""


@dataclass(frozen=True, eq=False)  # each is equal to itself alone, and quickly found in a dict
class Device:
    """One place where arrays live.

    name           "cpu", "gpu:0", ...
    xp             the array module that computes there (numpy or cupy)
    put(x)         a host array, copied there (the CPU returns the array itself)
    get(x)         an array of this device as a numpy.ndarray
    synchronize    waits until all work queued there is done
    active()       a context for work there: new arrays are made on this GPU; on the CPU, BLAS uses one thread
    cuda           kernels, streams and pinned memory; None where there is no CUDA
    out_of_memory  whether an error says that its memory is used up
    free_memory    returns memory that is kept for later arrays to the device
    """

    name: str
    xp: Any
    put: Callable[[np.ndarray], Array]
    get: Callable[[Array], np.ndarray]
    synchronize: Callable[[], None] = lambda: None
    active: Callable[[], AbstractContextManager[Any]] = nullcontext
    cuda: Cuda | None = None
    out_of_memory: Callable[[BaseException], bool] = lambda error: False
    free_memory: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        return self.name


def no_memory_left(where: Device, what: str) -> str:
    """The message for the user."""
    left = "" if where.cuda is None else f" ({where.cuda.free_bytes() / 2**20:,.0f} MiB left)"
    return (
        f"{where} has too little memory{left} for {what}: use a smaller batch or a narrower network, "
        "or end other programs that use it."
    )


def fast_versions() -> bool:
    """Whether minicnn/fast may be used; MINICNN_FAST=0 in the environment leaves only the textbook."""
    return os.environ.get("MINICNN_FAST") != "0"


def version_of(textbook: Callable[..., R], faster: Sequence[tuple[Any, Any]], *arrays: Array) -> Callable[..., R]:
    """For what is not an op: the first of `faster`, [(fits, version)], that fits these arrays, else the textbook."""
    return next((version for fits, version in faster if fits(*arrays)), textbook) if fast_versions() else textbook


CPU = Device("cpu", np, put=np.asarray, get=np.asarray, active=one_blas_thread)

# array type -> the device of an array of that type.  CuPy joins when its first array turns up (device_of); a test can
# register a device of its own.
_device_of_type: dict[type, Callable[[Array], Device]] = {np.ndarray: lambda x: CPU, np.memmap: lambda x: CPU}


def register_array_type(kind: type, device_of_array: Callable[[Array], Device]) -> None:
    """Make arrays of type `kind` known; `device_of_array(x)` tells the Device that holds x."""
    _device_of_type[kind] = device_of_array


def is_known_array(x: object) -> bool:
    """Whether x is an array of a type that has turned up before."""
    return type(x) in _device_of_type


def is_array(x: object) -> bool:
    """Whether x is an array of a known kind; NumPy's scalars, which its arithmetic makes of 0-d arrays, count."""
    return type(x) in _device_of_type or isinstance(x, np.generic) or _is_cupy_array(x)


def device_of(x: Array) -> Device:
    """The device that holds x."""
    find = _device_of_type.get(type(x))
    if find is not None:
        return find(x)
    if isinstance(x, np.generic):
        return CPU
    if not _is_cupy_array(x):
        raise TypeError(f"expected an array, got {type(x).__name__}; convert it with numpy.asarray(..., dtype)")
    _device_of_type[type(x)] = _device_of_cupy_array
    return _device_of_cupy_array(x)


def _device_of_cupy_array(x: Array) -> Device:
    try:
        return _gpus[x.data.device_id]  # .device would make an object
    except KeyError:
        return _gpu(x.data.device_id)


def array_module(x: Array) -> Any:
    """numpy or cupy: the module whose functions work on x."""
    return device_of(x).xp


def where_its_arrays_are(work: Callable[P, R]) -> Callable[P, R]:
    """A function that computes on the GPU of its arrays, whichever is the current one.

    CuPy computes on the current GPU.  Ops make that of their arguments the current one; this is for what is computed
    around them.  The first of the arguments that is somewhere says where: an array, a tuple or list with one, a Device,
    or an object that has a `device`.
    """

    @wraps(work)
    def there(*args: P.args, **kwargs: P.kwargs) -> R:
        where = _place((*args, *kwargs.values()))
        if where is None or where is CPU:
            return work(*args, **kwargs)
        with where.active():
            return work(*args, **kwargs)

    return there


def _place(x: object) -> Device | None:
    """Where x is; None if that cannot be said."""
    if is_array(x):
        return device_of(x)
    if isinstance(x, (tuple, list)):
        return next((place for place in map(_place, x) if place is not None), None)
    where = x if isinstance(x, Device) else getattr(x, "device", None)
    return where if isinstance(where, Device) else None


def to_device(x: Array, target: str | Device) -> Array:
    """x itself if it is there already, else a copy on `target`."""
    source, target = device_of(x), device(target)
    return x if source.name == target.name else target.put(source.get(x))


def to_host(x: Array) -> np.ndarray:
    """x as a numpy.ndarray (a copy if it was on a GPU)."""
    return device_of(x).get(x)


def device(name: str | Device = "auto") -> Device:
    """The device called "auto" (a GPU where one works, else the CPU), "cpu", "gpu" (= "gpu:0") or "gpu:N".

    A GPU becomes the current one of this thread: CuPy then computes there what a user computes with arrays themselves.
    """
    if isinstance(name, Device):
        return name
    if name == "cpu" or (name == "auto" and gpu_problem() is not None):
        return CPU
    match = re.fullmatch(r"gpu(?::(\d+))?", "gpu" if name == "auto" else name)
    if match is None:
        raise ValueError(f"device: {name!r} is not a device; use 'auto', 'cpu', 'gpu' or 'gpu:N'")
    index = int(match[1] or 0)
    problem = gpu_problem(index)
    if problem is not None:
        raise DeviceError(f"device {name!r} cannot be used: {problem} Or run on the CPU: use device 'cpu'.")
    import cupy

    cupy.cuda.Device(index).use()
    return _gpu(index)


def gpu_problem(index: int = 0) -> str | None:
    """None if GPU number `index` can be used, else one sentence on what is missing and one on what to do.

    Three things are needed, in this order: the CuPy package, the CUDA libraries that it calls, a device.
    """
    try:
        import cupy
    except Exception as error:  # ImportError, mostly; CuPy also makes a folder in the home, which may be read-only
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return f"CuPy is not installed. Install it: {INSTALL_CUPY}."
        return f"CuPy is installed but does not import ({_first_line(error)}). Install it again: {INSTALL_CUPY}."
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy has its own error type, and older versions raise others
        if "NoDevice" in str(error):
            return "CuPy is installed but finds no CUDA device. Check the card and `nvidia-smi`."
        if "InsufficientDriver" in str(error):
            return "CuPy is installed but the NVIDIA driver is missing or too old. Install one and check `nvidia-smi`."
        return f"CuPy is installed but CUDA does not answer ({_first_line(error)}). Check the driver with `nvidia-smi`."
    if index >= count:
        there = "none" if count == 0 else ", ".join(f"gpu:{i}" for i in range(count))
        return f"there is no CUDA device number {index}; CuPy sees: {there}."
    try:
        with cupy.cuda.Device(index):
            cupy.ones((2, 2)) @ cupy.ones((2, 2))  # needs NVRTC and cuBLAS, which a product of vectors would not
    except Exception as error:
        if out_of_memory(error):
            return f"its memory is used up ({_first_line(error)}). `nvidia-smi` shows which programs have it: end one."
        problem = f"CuPy sees the device but a CUDA library does not load ({_first_line(error)})."
        return f"{problem} Install the libraries: {INSTALL_CUPY}."
    return None


def gpu_count() -> int:
    """How many CUDA devices there are, 0 if none can be used.  Touches none of them, which would take memory there."""
    try:
        from cupy.cuda import runtime

        return int(runtime.getDeviceCount())
    except Exception:  # `gpu_problem` says what is wrong
        return 0


def gpu_names() -> list[str]:
    """The name and memory of every CUDA device, where `gpu_problem()` is None."""
    from cupy.cuda import runtime

    cards = [(i, runtime.getDeviceProperties(i)) for i in range(runtime.getDeviceCount())]
    return [f"gpu:{i} {card['name'].decode()}, {card['totalGlobalMem'] / 2**30:.1f} GiB" for i, card in cards]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _is_cupy_array(x: object) -> bool:
    cupy: ModuleType | None = sys.modules.get("cupy")  # no CuPy array exists before CuPy is imported
    return cupy is not None and isinstance(x, cupy.ndarray)


_gpus: dict[int, Device] = {}


def _gpu(index: int) -> Device:
    if index not in _gpus:
        import cupy

        card = cupy.cuda.Device(index)
        cuda = (WaitingCuda if DEBUG_SYNC else CupyCuda)(cupy, card)

        def put(x: np.ndarray) -> Array:
            try:
                with card:
                    if x.nbytes < LARGE:
                        return cupy.asarray(x)
                    there = cupy.empty(x.shape, x.dtype)
                    cuda.upload(x, there)
                    return there
            except Exception as error:
                if not out_of_memory(error):
                    raise
                what = f"an array of shape {x.shape}, {x.nbytes / 2**20:,.1f} MiB"
                raise NoRoomError(no_memory_left(_gpus[index], what)) from error

        def free_memory() -> None:
            with card:
                cupy.get_default_memory_pool().free_all_blocks()

        _gpus[index] = Device(
            f"gpu:{index}",
            cupy,
            put=put,
            get=cupy.asnumpy,
            synchronize=card.synchronize,
            active=lambda: card,
            cuda=cuda,
            out_of_memory=lambda error: isinstance(error, NoRoomError) or out_of_memory(error),
            free_memory=free_memory,
        )
    return _gpus[index]
