"""Starting CUDA kernels.

    launch("pool.max_pool", (y, switches), x, h, w, ...)        the kernel max_pool of pool.cu, a thread for each y

A kernel gets its outputs, its inputs and the number of its threads.  Outputs must be in C order; inputs are brought
into it.  Integers arrive as INDEX and numbers as REAL (common.cuh); None arrives as a null pointer; NumPy scalars as
they are.

The same launch comes again in every step, with other arrays.  The first time its arguments are made ready, and CuPy
looks at each of them before it starts the kernel: too slow for the hundred launches of a step.  What was found is kept
as a Plan; from then on only addresses and numbers are written into it.  `launch` finds the plan by the kernel, the
dtypes and sizes of the arrays, and the integers.  An op that keeps what follows from its shapes (as winograd.py does)
has no need to look for it: it keeps a Launch, which has its plan.

Files are compiled when they are first needed, for each device, precision and width of indices; CuPy keeps the result on
disk for the next process.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from minicnn.backend import Array, Device, DeviceError, device_of
from minicnn.cuda import DEBUG_SYNC, Cuda
from minicnn.ops.windows import Windows

FOLDER = Path(__file__).parent
THREADS = 256  # in a block
MOST_BLOCKS = 65_535  # of a launch, far from CUDA's limits; if there are more outputs, each thread computes several
WIDE = 1 << 30  # from this many elements on (of arrays, or in an argument), 32-bit indices could overflow

NULL = np.uint64(0)
FIXED = (int, bool, type(None))  # types of arguments that are part of a plan
_TYPES = {  # (REAL is double, INDEX is wide) -> their types
    (double, wide): (np.float64 if double else np.float32, np.int64 if wide else np.int32)
    for double in (False, True)
    for wide in (False, True)
}

# While a graph is captured (minicnn/fast/graph.py): where it will find the number of steps since then, a uint64.
steps_ahead: ContextVar[Array | None] = ContextVar("the steps since a graph was captured", default=None)

MOST_PLANS = 1 << 14  # that are kept; networks of many shapes could fill the memory with them
_plans: dict[tuple[Any, ...], Plan] = {}
_modules: dict[tuple[Any, ...], Any] = {}
_functions: dict[tuple[Any, ...], Any] = {}


def available(x: Array) -> bool:
    """Whether x lives where kernels run."""
    return device_of(x).cuda is not None


def blocks(count: int) -> int:
    """The number of blocks for `count` outputs."""
    return min(-(-count // THREADS), MOST_BLOCKS)


class Launch:
    """A kernel and the number of its threads, with all that it is told besides arrays: said once, started many times.

        transform = Launch(device, "winograd.input_transform_4", h, w, c, count=n)
        transform(v, x)

    `fixed` are the numbers that the kernel gets behind its arrays.  It is called with the arrays, outputs first, and
    with None for an array that is not there; all in C order, and in every call of the same dtypes and sizes.  Nothing
    looks at that: whoever keeps a Launch keeps it for arrays of one kind.
    """

    def __init__(self, where: Device, kernel: str, *fixed: Any, count: int):
        self._where, self._kernel, self._fixed, self._count = where, kernel, fixed, count
        self._plan: Plan | None = None

    def __call__(self, *arrays: Array | None, numbers: Sequence[Any] = ()) -> None:
        """Start it; `numbers`, behind the fixed ones, may be others in every call, but of the same types."""
        if self._count == 0:
            return
        if self._plan is not None:
            self._plan.start([0 if array is None else array.data.ptr for array in arrays] + [*numbers])
        else:
            values = [*arrays, *self._fixed, *numbers]
            change = [*range(len(arrays)), *range(len(values) - len(numbers), len(values))]
            self._plan = _launch_anew(self._where, self._kernel, values, self._count, None, change)
        if DEBUG_SYNC:
            _wait_for(self._where, self._kernel)


def launch(kernel: str, outputs: tuple[Array, ...], *inputs: Any, count: int | None = None, real: Any = None) -> None:
    """Start a kernel, "file.name", with a thread for each element of the first output, or `count` of them.

    REAL is double if an array is, unless `real` says what it is.  If there is nothing to compute, nothing is launched.
    """
    first = outputs[0]
    where = device_of(first)
    kind: Any = type(first)
    cuda = where.cuda
    assert cuda is not None, f"{where} has no CUDA"
    count = first.size if count is None else count
    if count == 0:
        return
    in_order = where.xp.ascontiguousarray  # of an array in C order it is that array; `flags` would make an object
    places = _places(kind, tuple(map(type, inputs)))
    key = [cuda, kernel, count, real, places, places.fixed(inputs)]
    changing = []  # from launch to launch: addresses, and numbers
    for output in outputs:
        if in_order(output) is not output:
            raise ValueError(f"{kernel}: an output of shape {output.shape} is not in C order")
        key += (output.dtype, output.size)
        changing.append(output.data.ptr)
    arrays = [in_order(inputs[i]) for i in places.arrays]
    for array in arrays:
        key += (array.dtype, array.size)
        changing.append(array.data.ptr)
    for i in places.numbers:
        changing.append(inputs[i])
    known = tuple(key)
    plan = _plans.get(known)
    if plan is not None:
        plan.start(changing)
    else:
        values = [*outputs, *inputs]
        for i, array in zip(places.arrays, arrays, strict=True):
            values[len(outputs) + i] = array
        found = Places(kind, [type(value) for value in values])
        plan = _launch_anew(where, kernel, values, count, real, [*found.arrays, *found.numbers])
        if plan is not None:
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            _plans[known] = plan
    if DEBUG_SYNC:
        _wait_for(where, kernel)


class Places:
    """Which of some arguments are arrays, which are fixed (as the integers are), and which are numbers that change."""

    def __init__(self, kind: type, types: Sequence[type]):
        fixed = [i for i, which in enumerate(types) if which in FIXED]
        self.arrays = [i for i, which in enumerate(types) if which is kind]
        self.numbers = [i for i, which in enumerate(types) if which is not kind and which not in FIXED]
        self.fixed: Callable[[Any], Any] = itemgetter(*fixed) if fixed else lambda inputs: ()


@cache
def _places(kind: Any, types: tuple[Any, ...]) -> Places:
    return Places(kind, types)


def _launch_anew(
    where: Device, kernel: str, values: Sequence[Any], count: int, real: Any, change: Sequence[int]
) -> Plan | None:
    """A launch that there is no plan for, and a plan of it, if the device can use one; which of the values `change`."""
    assert where.cuda is not None
    kind = type(values[0])
    largest, double = count, False
    for value in values:
        if type(value) is kind:
            largest, double = max(largest, value.size), double or value.dtype == np.float64
        elif isinstance(value, int):
            largest = max(largest, value)
    precision = (double if real is None else real == np.float64, largest >= WIDE)
    function, types = _function(where, kernel, *precision), _TYPES[precision]
    arguments = [value if type(value) is kind else _argument(value, *types) for value in values]
    arguments.append(types[1](count))
    with where.active():
        function((blocks(count),), (THREADS,), tuple(arguments))
        handle = where.cuda.handle(function)
    return None if handle is None else Plan(where.cuda, handle, blocks(count), arguments, change)


class Plan:
    """A launch that can be done again, with other addresses and numbers.

    The driver is given the address of a list of addresses, one for each argument.  They lead to slots of 8 bytes, which
    the driver reads while it is called: first those of the arguments that change, then the others.
    """

    def __init__(self, cuda: Cuda, handle: int, blocks: int, arguments: Sequence[Any], change: Sequence[int]):
        """The `arguments` of a launch that was done, arrays and NumPy scalars; which of them `change`, in order."""
        self._start, self._handle, self._blocks = cuda.start, handle, blocks
        stay = [i for i in range(len(arguments)) if i not in change]
        chars = [arguments[i].dtype.char if isinstance(arguments[i], np.generic) else "Q" for i in change]
        # "0Q" fills up a slot
        self._layout = struct.Struct("".join(f"{char}0Q" for char in chars))
        self._slots = (ctypes.c_uint64 * len(arguments))()
        for slot, i in enumerate(stay, start=len(change)):
            value = arguments[i].tobytes()
            ctypes.memmove(ctypes.addressof(self._slots) + 8 * slot, value, len(value))
        places = {i: ctypes.addressof(self._slots) + 8 * slot for slot, i in enumerate((*change, *stay))}
        self._list = (ctypes.c_void_p * len(arguments))(*(places[i] for i in range(len(arguments))))
        self._address = ctypes.addressof(self._list)
        self._lock = threading.Lock()  # between writing the slots and reading them

    def start(self, changing: Sequence[Any]) -> None:
        """Launch it with these addresses and numbers in the place of those that change."""
        with self._lock:
            self._layout.pack_into(self._slots, 0, *changing)
            self._start(self._handle, self._blocks, THREADS, self._address)


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
        return index(value)
    if isinstance(value, np.generic) and not isinstance(value, np.floating):
        return value
    return real(value)
