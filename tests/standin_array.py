"""The array of the stand-in device, and what may cross between it and the host.  Start with standin.py."""

import contextlib
import operator
import types

import cupy
import numpy as np
from cupy._core.flags import Flags

_DTYPES = frozenset("?bBhHiIlLqQefdFD")  # what CUDA kernels know: no strings, objects or long doubles
_PYTHON_SCALARS = (bool, int, float, complex)
_PLAIN = (*_PYTHON_SCALARS, str, np.generic, np.dtype, type, slice, types.NoneType, types.EllipsisType)

_syncs = 0


def sync_count():
    """How often the host has waited for the device since `reset_sync_count()`."""
    return _syncs


def reset_sync_count():
    global _syncs
    _syncs = 0


def synchronise():
    """Note that the host waits for the device here."""
    global _syncs
    assert not _asynchronous, "the host waits for the device where it must not"
    _syncs += 1


_asynchronous = False


@contextlib.contextmanager
def no_synchronisation():
    """Within, what makes the host wait for the device is an error."""
    global _asynchronous
    _asynchronous = True
    try:
        yield
    finally:
        _asynchronous = False


launches: list[str] = []  # what was started on the device: kernels, reductions, products, copies there; not uploads


def launched(name):
    """Note that something was started on the device."""
    launches.append(name)


class StandInDevice:
    """What `x.device` gives: as much of cupy.cuda.Device as code on arrays has a use for."""

    id = 0

    def synchronize(self):
        synchronise()


_DEVICE = StandInDevice()


class StandInArray:
    """An ndarray that lives on the fake device; `_base` is the array it is a view of, if it is one.

    Most of its methods are not written here: standin.py installs them from what cupy.ndarray has.
    """

    __slots__ = ("__weakref__", "_base", "_host")
    __array_ufunc__ = None  # NumPy's ufuncs raise TypeError, its operators leave the field to ours
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host, base=None):
        if host.dtype.char not in _DTYPES:
            raise ValueError(f"Unsupported dtype {host.dtype}")
        self._host, self._base = host, base

    # --- host and device: nothing crosses unless it is asked to ---

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_function__(self, func, types, args, kwargs):
        raise TypeError(f"numpy.{func.__name__} was called on a device array; call it on array_module(x)")

    def get(self, stream=None, order="C", out=None, blocking=True):
        synchronise()
        if out is None:
            return np.array(self._host, order=order)
        if not isinstance(out, np.ndarray) or out.dtype != self.dtype:
            raise TypeError(f"get: out must be a numpy.ndarray of {self.dtype}")
        if out.shape != self.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
        out[...] = self._host
        return out

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not (self._host.flags.c_contiguous or self._host.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        if stream is None:
            self._host[...] = arr
        else:
            stream.copy(self, arr)  # later: whoever writes to arr before that is caught

    # CuPy converts through .get() too.  It has no __index__: `range(x)` and `host[x]` fail there as here.

    def __float__(self):
        return float(self.get())

    def __int__(self):
        return int(self.get())

    def __complex__(self):
        return complex(self.get())

    def __bool__(self):
        return bool(self.get())

    def __repr__(self):
        return repr(self.get())

    def __format__(self, spec):
        return format(self.get(), spec)

    def __reduce__(self):
        return StandInArray, (self.get(),)

    def __deepcopy__(self, memo=None):
        return StandInArray(self._host.copy())

    __copy__ = __deepcopy__

    # --- attributes and methods in which CuPy differs from NumPy ---

    @property
    def base(self):
        return self._base

    @property
    def flags(self):  # CuPy's own, which knows only contiguity and ownership: no `writeable`
        return Flags(self._host.flags.c_contiguous, self._host.flags.f_contiguous, self._base is None)

    @property
    def device(self):
        return _DEVICE

    @property
    def data(self):  # a device pointer, not a memoryview
        return types.SimpleNamespace(ptr=self._host.ctypes.data, device_id=_DEVICE.id)

    def __getattr__(self, name):
        reason = "the stand-in does not model it" if hasattr(cupy.ndarray, name) else "nor has cupy.ndarray"
        raise AttributeError(f"'StandInArray' object has no attribute {name!r} ({reason})")

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")  # CuPy's words
        result = to_device(self._host.astype(dtype, order=order, copy=copy), [self], keep_order=True)
        if result is not self:
            launched("astype")
        return result

    def fill(self, value):
        launched("fill")
        value = operand(value)
        if np.ndim(value):
            raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
        self._host.fill(value)

    def __len__(self):
        return len(self._host)

    def __iter__(self):
        return (self[i] for i in range(len(self)))  # views: no transfer; a 0-d array has no len()

    # --- indexing ---

    def __getitem__(self, key):
        index, by_array = self._host_index(key)
        if by_array:
            launched("take")
            return StandInArray(np.array(self._host[index], order="C"))  # always a copy
        if not any(item is Ellipsis for item in index):
            index += (Ellipsis,)  # so that an element is a 0-d view and not a scalar
        return to_device(self._host[index], [self])

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray):
            raise TypeError("non-scalar numpy.ndarray cannot be used for setting elements: upload it first")
        index, by_array = self._host_index(key)
        value = operand(value)
        if by_array and np.size(value) > 1:
            written = np.arange(self.size).reshape(self.shape)[index]
            if np.unique(written).size < written.size:
                raise ValueError("duplicate indices: CuPy leaves undefined which of the values is stored")
        launched("set")
        self._host[index] = value

    def _host_index(self, key):
        """The key for the host array, as a tuple, and whether there is an array in it."""
        items = key if isinstance(key, tuple) else (key,)
        axes = [_axes_used(item) for item in items]
        index, axis, by_array = [], 0, False
        for item, used in zip(items, axes, strict=True):
            if item is Ellipsis:
                used = self.ndim - sum(axes)
            elif isinstance(item, StandInArray):
                kind, item, by_array = item.dtype.kind, item._host, True
                if kind == "b":
                    synchronise()  # the shape of the result depends on the values
                elif kind not in "iu":
                    raise IndexError(f"arrays used as indices must be integer or boolean, not {item.dtype}")
                elif axis < self.ndim:
                    item = item.astype(np.int64) % max(self.shape[axis], 1)  # out of range: wraps silently
            elif isinstance(item, bool) or not isinstance(item, int | np.integer | slice | None):
                raise TypeError(f"Unsupported index type {type(item)}: use ints, slices and device arrays")
            index.append(item)
            axis += used
        return tuple(index), by_array


def _axes_used(item):
    """How many axes one item of an index takes up (an Ellipsis: what is left, not counted here)."""
    if isinstance(item, StandInArray) and item.dtype.kind == "b":
        return item.ndim
    return 0 if item is None or item is Ellipsis else 1


# --- between the two sides ---


def operand(x):
    """The host's version of what an elementwise kernel takes: a device array or a scalar, nothing else."""
    if isinstance(x, StandInArray):
        return x._host
    if type(x) in _PYTHON_SCALARS or (isinstance(x, np.generic) and x.dtype.char in _DTYPES):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


def to_host(x, seen):
    """Unwrap arguments, in sequences too; the device arrays met on the way are appended to `seen`."""
    if isinstance(x, StandInArray):
        seen.append(x)
        return x._host
    if isinstance(x, list | tuple):
        return type(x)([to_host(item, seen) for item in x])
    if isinstance(x, _PLAIN):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


def to_device(x, seen, keep_order=False):
    """Wrap a result.  It may be one of the arrays in `seen`, or a view of one."""
    if isinstance(x, np.generic):
        return StandInArray(np.asarray(x))
    if isinstance(x, tuple):
        return tuple([to_device(item, seen, keep_order) for item in x])  # named tuples become plain ones
    if isinstance(x, list):
        return [to_device(item, seen, keep_order) for item in x]
    if not isinstance(x, np.ndarray):
        return x
    for array in seen:
        if x is array._host:
            return array  # `out`, or what needed no change
    for array in seen:
        if np.may_share_memory(x, array._host):
            return StandInArray(x, array if array._base is None else array._base)
    return StandInArray(x if keep_order else np.asarray(x, order="C"))


# --- operators ---


def _defers_to(other):
    """CuPy's rule: another class takes over if it opted out of ufuncs or, older style, by priority."""
    try:
        return other.__array_ufunc__ is None
    except AttributeError:
        return getattr(other, "__array_priority__", 0) > StandInArray.__array_priority__


def _binary(function):
    def method(self, other):
        if not isinstance(other, StandInArray) and _defers_to(other):
            return NotImplemented
        launched(function.__name__)
        return to_device(function(self._host, operand(other)), [])

    return method


def _reflected(function):
    def method(self, other):
        launched(function.__name__)
        return to_device(function(operand(other), self._host), [])

    return method


def _in_place(function):
    def method(self, other):
        launched(function.__name__)
        function(self._host, operand(other))
        return self

    return method


def _unary(function):
    def method(self):
        launched(function.__name__)
        return to_device(function(self._host), [])

    return method


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_ARITHMETIC += ("and", "or", "xor", "lshift", "rshift")
for _name in (*_ARITHMETIC, "matmul", "lt", "le", "eq", "ne", "gt", "ge"):
    setattr(StandInArray, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in (*_ARITHMETIC, "matmul"):
    setattr(StandInArray, f"__r{_name}__", _reflected(getattr(operator, f"__{_name}__")))
for _name in _ARITHMETIC:  # CuPy has no @=
    setattr(StandInArray, f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(StandInArray, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))
