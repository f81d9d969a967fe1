"""The real CuPy on a machine without a GPU.

    from tests.cuda_cpu import install
    install()                            before CuPy is imported; from then on it finds two GPUs, made of the CPU

CuPy is the one of the wheel: its arrays, its memory pool, its kernels and the way it starts them.  Below it, our own
libraries follow NVIDIA's documented interfaces: device memory between guard pages, streams that do their work as late
as they may, kernels compiled by g++.  build.py puts them in place; the C files are the device.
"""

import ctypes
import os
import platform
import shutil
import sys
from contextlib import contextmanager

from tests.cuda_cpu import build

ASKED = os.environ.get("MINICNN_GPU_TESTS") == "cpu"
ORDER = os.environ.get("MINICNN_CUDA_CPU_ORDER", "late")  # when work is done, see `order`
GUARDED = os.environ.get("MINICNN_CUDA_CPU_POOL") != "1"  # every array between guard pages, instead of CuPy's pool

LAPACK = {
    "cublas": ("sgemm", "dgemm", "sgetrf", "dgetrf", "sgetri", "dgetri"),
    "cusolver": ("sgesvd", "dgesvd", "spotrf", "dpotrf", "sgetrf", "dgetrf", "sgetrs", "dgetrs"),
}


def problem():
    """Why there can be no such device here; None if there can."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return "it needs Linux on x86-64"
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        return "it needs gcc and g++"
    return None


def _capsule(module, name):
    """The address behind an entry of a C interface of a Cython module."""
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = module.__pyx_capi__[name]
    return get_pointer(capsule, get_name(capsule))


def install():
    """Put the device below CuPy."""
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB is compiled for GPUs
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # we have our own
    from scipy.linalg import cython_blas, cython_lapack

    from minicnn.cuda import CupyCuda
    from tests.cuda_cpu.compiler import FUSED, compile_for_nvrtc
    from tests.cuda_cpu.strict import StrictModule

    found = build.libraries()
    for name, routines in LAPACK.items():
        for routine in routines:
            module = cython_blas if routine in cython_blas.__pyx_capi__ else cython_lapack
            ctypes.c_void_p.in_dll(found[name], f"gpu_{routine}").value = _capsule(module, routine)
    found["nvrtc"].gpu_set_compiler(compile_for_nvrtc)
    ctypes.c_int.in_dll(found["cuda"], "gpu_flush").value = FUSED
    build.redirect(found["cuda"])
    CupyCuda.module = lambda self, source, options: StrictModule(source, options)
    if GUARDED:
        import cupy

        cupy.cuda.set_allocator(None)
    global _library
    _library = found["cuda"]
    _library.gpu_finish.restype = _library.gpu_record.restype = ctypes.c_char_p
    _library.gpu_noted.restype = ctypes.c_ulong
    _library.gpu_waits.restype = ctypes.c_long
    _library.gpu_order(ORDERS.index(ORDER), ctypes.c_uint64(0))


_library = None


def finish():
    """Do all work that still waits; the first error of a device, or None.  Then the devices are as new."""
    error = _library.gpu_finish()
    return None if error is None else error.decode()


ORDERS = ("now", "late", "random", "never")  # as queue.c has them


@contextmanager
def order(name, seed=0):
    """Within, work is done at once, as late as it may, at random times, or never (to measure the host alone)."""
    _library.gpu_order(ORDERS.index(name), ctypes.c_uint64(seed))
    try:
        yield
    finally:
        _library.gpu_order(ORDERS.index(ORDER), ctypes.c_uint64(0))
        if name == "never":
            _forget_what_was_never_copied()


def _forget_what_was_never_copied():
    """What minicnn uploads once for all steps: within order("never") it was kept, but never written."""
    from minicnn import autodiff
    from minicnn.fast.cuda import update, winograd

    for kept in (autodiff._ones, update._tables, winograd._transforms):
        kept.clear()


HOST = 8  # beside the devices, as device.h has it


@contextmanager
def memory_left(left, device=0):
    """Within, other programs leave so many bytes of the memory of a device; of HOST: of what can be page-locked."""
    _library.gpu_leave(device, ctypes.c_size_t(left))
    try:
        yield
    finally:
        _library.gpu_leave(device, ctypes.c_size_t(-1))


class Record:
    """What was started since it was made: [(kernel or "cublas", blocks, threads)], and how often the program waited."""

    def __init__(self):
        self._first, self._waits = _library.gpu_noted(), _library.gpu_waits()

    @property
    def waits(self):
        return _library.gpu_waits() - self._waits

    @property
    def launches(self):
        found, blocks, threads = [], ctypes.c_uint(), ctypes.c_uint()
        for i in range(self._first, _library.gpu_noted()):
            name = _library.gpu_record(ctypes.c_ulong(i), ctypes.byref(blocks), ctypes.byref(threads))
            found.append((name.decode(), blocks.value, threads.value))
        return found
