"""A fake GPU: NumPy arrays behind a wrapper that is at least as strict as CuPy.

There is no GPU on the machines that build minicnn.  The real CuPy runs on a CPU in its place (cuda_cpu/) and has the
last word; this device is stricter, and counts what CuPy does in silence.  It goes by the CuPy that is installed:

- it is a wrapper, not an ndarray subclass: NumPy cannot convert it silently, and mixing it with a plain
  ndarray is a TypeError;
- `xp` has a name only if `cupy` has it, and a function takes a keyword only if CuPy's takes it;
- what NumPy returns as a scalar comes back as a 0-d device array;
- integer *arrays* out of range wrap around silently, as CuPy's kernels do;
- fresh results are in C order (NumPy would keep the order of the inputs);
- whatever makes the host wait for the device is counted: `sync_count()`;
- whatever CuPy would start on the device is noted in `launches`: every ufunc, reduction, product and copy; views,
  uninitialised arrays and uploads are not.

In a few places it is stricter, for one simple rule instead of several: `np.exp(x)`, and indexing with a list
or a host array, are refused (CuPy would dispatch or upload); so is writing different values through duplicate
indices (undefined on CuPy), and bincount with weights (other bits each time); and a host array in the wrong place is
always a TypeError (on CuPy sometimes a ValueError).  The array is in standin_array.py; here are its methods, the
functions and the module.
"""

import functools
import inspect
import math
import re

import cupy
import numpy as np

from tests.standin_array import (
    StandInArray,
    StandInDevice,
    launched,
    launches,
    no_synchronisation,
    operand,
    reset_sync_count,
    sync_count,
    synchronise,
    to_device,
    to_host,
)

__all__ = ["StandInArray", "StandInDevice", "StandInModule", "StandInUfunc"]
__all__ += ["cupy_signature", "launches", "no_synchronisation", "reset_sync_count", "sync_count", "xp"]

# Parameters, by the names that CuPy gives them: arrays (never lists), and integers (never device arrays).
_ARRAYS = {"a", "x", "y", "b", "array", "arr", "ary", "ar", "m", "v", "condition", "prototype", "dst", "src"}
_ARRAYS |= {"a_min", "a_max"}
_INTEGERS = {"shape", "newshape", "axis", "axes"}
# What waits for the device without saying so in its docstring.  sliding_window_view uploads the shape of the
# window and tests its entries one by one on the device; as_strided does not.
_SYNCING = {"item", "tolist", "tobytes", "tofile", "sliding_window_view", "trim_zeros"}
_SYNCING |= {"unique_all", "unique_counts", "unique_inverse", "unique_values"}
_RETURNS_BOOL = {"allclose", "array_equal", "array_equiv"}  # NumPy: a bool; CuPy: a 0-d array


# --- functions and methods: NumPy's behaviour behind CuPy's signature ---


@functools.cache
def cupy_signature(function):
    """The signature of a CuPy function.  For the compiled ones it is the first line of the docstring."""
    try:
        return inspect.signature(function)
    except ValueError:
        text = re.match(r"[\w.]+\((.*)\)", function.__doc__)[1]  # e.g. "self, int axis=-1, kind=None"
    kind, parameters = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for part in text.split(", "):
        name = part.partition("=")[0].split()[-1]
        if name.startswith("*"):  # *args, or the bare star
            kind = inspect.Parameter.KEYWORD_ONLY
            if name != "*":
                parameters.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
        else:
            default = None if "=" in part else inspect.Parameter.empty
            parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


def _agreed_positions(host_function, signature):
    """How many leading arguments agree: NumPy has argmax(a, axis, out), CuPy argmax(a, axis, dtype)."""
    try:
        host_signature = inspect.signature(host_function)
    except ValueError:
        return math.inf
    theirs, ours = (
        [p.name for p in s.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for s in (host_signature, signature)
    )
    for i, (their, our) in enumerate(zip(theirs, ours, strict=False)):
        if their != our and (their in ours or our in theirs):
            return i
    return math.inf


def _check_arguments(name, arguments):
    """CuPy takes an array where NumPy takes anything that can be made into one."""
    for position, (parameter, value) in enumerate(arguments.items()):
        if parameter in _ARRAYS:
            if isinstance(value, list | tuple) or (position == 0 and not isinstance(value, StandInArray)):
                raise TypeError(f"cupy.{name}(): {parameter} must be a device array, not {type(value)}")
        elif parameter == "tup":
            if not isinstance(value, list | tuple) or any(not isinstance(x, StandInArray) for x in value):
                raise TypeError(f"cupy.{name}(): only device arrays can be joined")
        elif parameter in _INTEGERS:
            seen: list[StandInArray] = []
            to_host(value, seen)
            if seen:
                raise TypeError(f"cupy.{name}(): a device array in {parameter} cannot be taken as an integer")


def _function(name, host_function, cupy_function):
    """`host_function` on device arrays, called as `cupy_function` is."""
    signature = cupy_signature(cupy_function)
    positions = _agreed_positions(host_function, signature)
    warning = re.search("may synchronize|performs device synchronization", cupy_function.__doc__ or "")
    syncs = name in _SYNCING or warning is not None

    def call(*args, **kwargs):
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"cupy.{name}(): {error}") from None
        if len(args) > positions:
            raise TypeError(f"cupy.{name}(): argument {positions} is another one in NumPy; pass it by name")
        _check_arguments(name, arguments)
        if name == "bincount" and arguments.get("weights") is not None:
            raise TypeError("cupy.bincount(): a GPU adds weights in another order each time")
        if syncs and not (name == "where" and "x" in arguments):
            synchronise()
        seen: list[StandInArray] = []
        args, kwargs = to_host(args, seen), {key: to_host(value, seen) for key, value in kwargs.items()}
        if name == "take":
            kwargs["mode"] = "wrap"  # out of range, as in indexing
        result = host_function(*args, **kwargs)
        if name == "count_nonzero":  # a plain int in NumPy 2.0
            result = np.asarray(result)[()]
        if name in _RETURNS_BOOL:
            result = np.bool_(result)
        result = to_device(result, seen, keep_order="order" in signature.parameters)
        if name not in ("empty", "empty_like") and (_is_fresh(result, seen) or kwargs.get("out") is not None):
            launched(name)
        return result

    call.__name__ = name
    return call


def _is_fresh(result, seen):
    """Whether the result lies in new memory, which something had to write to."""
    parts = result if isinstance(result, tuple | list) else [result]
    return any(isinstance(x, StandInArray) and x._base is None and all(x is not a for a in seen) for x in parts)


def _attribute(name):
    return property(lambda self: to_device(getattr(self._host, name), [self]))


for _name in set(dir(np.ndarray)) & set(dir(cupy.ndarray)) - set(dir(StandInArray)):
    _theirs, _ours = getattr(np.ndarray, _name), getattr(cupy.ndarray, _name)
    if _name.startswith("_") or _name in ("flat", "dump", "dumps"):
        continue
    if callable(_ours) and not callable(_theirs):  # a method that NumPy 2.0 has removed, such as ptp
        continue
    setattr(StandInArray, _name, _function(_name, _theirs, _ours) if callable(_ours) else _attribute(_name))


class StandInUfunc:
    """A ufunc that can only be called: CuPy lacks most methods, and its `at` adds in no fixed order."""

    def __init__(self, name, host_function, cupy_function):
        self.__name__, self._host_function = name, host_function
        if isinstance(cupy_function, cupy.ufunc):
            self.nin = cupy_function.nin
            self._keywords = {"out", "dtype", "casting"}  # it pops these and rejects the rest, also `where`
        else:  # matmul
            self.nin = host_function.nin
            self._keywords = set(cupy_signature(cupy_function).parameters)

    def __call__(self, *args, **kwargs):
        if not self._keywords.issuperset(kwargs):
            raise TypeError(f"cupy.{self.__name__}(): Wrong arguments {set(kwargs) - self._keywords}")
        for i, x in enumerate(args):
            if i < self.nin or x is not None:  # an output may be None
                operand(x)
        launched(self.__name__)
        seen: list[StandInArray] = []
        args, kwargs = to_host(args, seen), {key: to_host(value, seen) for key, value in kwargs.items()}
        return to_device(self._host_function(*args, **kwargs), seen)


# --- the module ---


def _leaves(x):
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, list | tuple) else [x]


def _array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    if subok:
        raise NotImplementedError("subok")
    if isinstance(obj, StandInArray):
        host = np.array(obj._host, dtype, copy=copy, order=order, ndmin=ndmin)
        result = to_device(host, [obj], keep_order=True)
        if _is_fresh(result, [obj]):
            launched("copy")
        return result
    if copy is False:
        raise ValueError("a host object cannot be put on the device without a copy")
    on_device = {isinstance(leaf, StandInArray) for leaf in _leaves(obj)}
    if on_device == {True, False}:
        raise TypeError("Implicit conversion to a NumPy array is not allowed (host and device in one list)")
    host = to_host(obj, []) if True in on_device else obj
    return StandInArray(np.array(host, dtype, order="A" if order in (None, "K") else order, ndmin=ndmin))


def _asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return _array(a, dtype, copy, order)


def _asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get(stream, order, out, blocking) if isinstance(a, StandInArray) else np.asarray(a, order=order)


def _get_array_module(*args):
    return xp if any(isinstance(a, StandInArray) for a in args) else np


_OWN = {
    "ndarray": StandInArray,
    "array": _array,
    "asarray": _asarray,
    "asanyarray": _asarray,
    "asnumpy": _asnumpy,
    "get_array_module": _get_array_module,
}
_HINTS = {"random": "draw random numbers on the host (minicnn.random): the same bits on every device"}
for _name in ("save", "savez", "savez_compressed", "savetxt", "array2string", "array_repr", "array_str"):
    _HINTS[_name] = "files and text are made on the host: call asnumpy first"


class StandInModule:
    """`numpy` seen through `cupy`: a name is here only if both have it, and behaves as CuPy's would."""

    def __init__(self, host, device, own):
        self._modules, self._own = (host, device), own

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"the stand-in has no attribute {name!r}")
        host, device = self._modules
        if name in _HINTS:
            raise AttributeError(f"no {device.__name__}.{name} on the stand-in: {_HINTS[name]}")
        if not hasattr(device, name):
            raise AttributeError(f"module {device.__name__!r} has no attribute {name!r}")
        theirs, ours = getattr(host, name, None), getattr(device, name)
        if name in self._own:
            value = self._own[name]
        elif ours is theirs:  # dtypes, constants and what CuPy itself takes from NumPy
            value = theirs
        elif name in ("lib", "stride_tricks", "linalg", "fft"):
            value = StandInModule(theirs, ours, {})
        elif isinstance(theirs, np.ufunc) or isinstance(ours, cupy.ufunc):
            value = StandInUfunc(name, theirs, ours)
        elif inspect.isroutine(theirs) and inspect.isroutine(ours):
            value = _function(name, theirs, ours)
        else:
            raise AttributeError(f"the stand-in does not model {device.__name__}.{name}")
        self.__dict__[name] = value  # next time without __getattr__
        return value


xp = StandInModule(np, cupy, _OWN)
