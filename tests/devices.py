"""The devices that tests run on: the CPU, the strict stand-in for CuPy, and a GPU where there is one."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from minicnn import backend
from minicnn.backend import Device, gpu_problem
from tests import standin

STANDIN = Device("standin", standin.xp, put=standin.xp.asarray, get=standin.xp.asnumpy)
backend.register_array_type(standin.StandInArray, lambda x: STANDIN)

_no_gpu = gpu_problem()

OTHERS = [STANDIN] if _no_gpu else [STANDIN, backend.device("gpu")]  # than the CPU

on_devices = pytest.mark.parametrize(
    "device",
    [
        pytest.param(backend.CPU, id="cpu"),
        pytest.param(STANDIN, id="standin"),
        *([] if _no_gpu else [pytest.param(backend.device("gpu"), id="gpu", marks=pytest.mark.gpu)]),
    ],
)


@contextmanager
def changed_standin(**changes):
    """Within, the arrays of the stand-in belong to a device with these changes; gives the device."""
    device = replace(STANDIN, **changes)
    backend.register_array_type(standin.StandInArray, lambda x: device)
    try:
        yield device
    finally:
        backend.register_array_type(standin.StandInArray, lambda x: STANDIN)


@contextmanager
def standin_with_kernels(**changes):
    """Within, the stand-in has kernels, which run on the shim; gives the device."""
    from tests.cuda_shim.device import ShimCuda

    with changed_standin(**{"cuda": ShimCuda(), **changes}) as device:
        yield device


def put(device, value):
    """value with every NumPy array in it (in tuples too) moved to the device."""
    if isinstance(value, np.ndarray):
        return device.put(value)
    if isinstance(value, tuple):
        return tuple(put(device, v) for v in value)
    return value


def put_spread(device, value):
    """The same, but with other strides: every other number of arrays that are twice as long."""
    if isinstance(value, np.ndarray) and value.ndim:
        return device.put(np.repeat(value, 2, axis=-1))[..., ::2]
    if isinstance(value, tuple):
        return tuple(put_spread(device, v) for v in value)
    return put(device, value)


def cast(dtype, value):
    """value with every array of floats in it (in tuples too) in another precision."""
    if isinstance(value, np.ndarray):
        return value.astype(dtype) if value.dtype.kind == "f" else value
    if isinstance(value, tuple):
        return tuple(cast(dtype, v) for v in value)
    return value
