"""What CUDA offers besides arrays: kernels, matrix products, graphs of launches, streams, page-locked memory.

`Device.cuda` (minicnn/backend.py) is a Cuda on a GPU and None elsewhere.  Tests put another one in its place.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any  # an array of the device


class Graph(NamedTuple):
    """Work that was captured: launch() queues all of it at once."""

    launch: Callable[[], None]
    memory: Any  # what the work uses, for as long as there is the graph


class Cuda(Protocol):
    """What minicnn asks of CUDA."""

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        """CUDA source, compiled: module.get_function(name)((blocks,), (threads,), arguments) starts a kernel."""

    def matmul(
        self, a: Array, b: Array, out: Array, transpose_a: bool = False, transpose_b: bool = False, exact: bool = False
    ) -> None:
        """out = a b for matrices, or stacks of them, in C order; either transposed first, without a copy of it.

        exact    in float32, whatever `precision` says
        """

    def capture(self, work: Callable[[], Any]) -> tuple[Any, Graph]:
        """What work() returns, and its launches as a graph.  They are not done, until somebody launches it.

        CUDA refuses what a graph cannot repeat: to wait, or to copy from or to the host.  Whatever work() raises then,
        or by itself, is raised here.
        """

    def pinned(self, size: int) -> np.ndarray:
        """That many bytes of host memory, which the GPU can read while the program goes on."""

    def new_stream(self) -> Any:
        """A queue of work beside the one that computes: stream.record() gives an event, stream.wait_event(event)."""

    def current_stream(self) -> Any:
        """The queue that computes."""

    def free_bytes(self) -> int:
        """How much memory is left."""

    def room_for_a_graph(self) -> bool:
        """Whether there is memory for what was computed so far to be done a second time, in other memory."""


PRECISION = "MINICNN_PRECISION"  # the variable that says how exact float32 products are: a key of COMPUTE_32F

# Numbers of cuBLAS's interface
R_32F, R_64F = 0, 1
COMPUTE_32F = {"float32": 68, "tf32": 77, "bf16": 75}  # in the last two, tensor cores: factors rounded to 10 or 7 bits
COMPUTE_64F = 70
GEMM_DEFAULT = -1
_SINGLE = (R_32F, ctypes.c_float(1), ctypes.c_float(0))  # its type, one, zero
_DOUBLE = (R_64F, ctypes.c_double(1), ctypes.c_double(0))


def precision() -> str:
    """How exact float32 matrix products on a GPU are."""
    name = os.environ.get(PRECISION, "float32")
    if name not in COMPUTE_32F:
        raise ValueError(f"{PRECISION} must be one of {', '.join(COMPUTE_32F)}, got {name!r}")
    return name


def set_precision(name: str) -> None:
    """From now on, float32 matrix products on a GPU, in this process and those that it starts, are that exact."""
    os.environ[PRECISION] = name
    precision()


def gemm_of(cupy: Any) -> Callable[..., None]:
    """cublasGemmStridedBatchedEx on the current stream; its arguments are those of the manual.

    CuPy's function of that name refuses while a graph is captured ("currently unsupported"), though cuBLAS can be
    captured.  CuPy's module is linked with cuBLAS, so the functions of cuBLAS are found through it; where they are not
    (on Windows), CuPy's has to do, and there are no graphs.
    """
    integer, long, pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
    try:
        library = ctypes.CDLL(cupy.cuda.cublas.__file__)
        set_stream, multiply = library.cublasSetStream_v2, library.cublasGemmStridedBatchedEx
    except (OSError, AttributeError):
        return cupy.cuda.cublas.gemmStridedBatchedEx
    set_stream.argtypes = (pointer, pointer)
    matrix = (pointer, integer, integer, long)  # address, type, leading dimension, stride
    sizes = (integer,) * 5  # whether A and B are transposed; m, n, k
    multiply.argtypes = (pointer, *sizes, pointer, *matrix, *matrix, pointer, *matrix, integer, integer, integer)
    current_stream, error = cupy.cuda.get_current_stream, cupy.cuda.cublas.CUBLASError

    def gemm(handle: int, *arguments: int) -> None:
        status = set_stream(handle, current_stream().ptr) or multiply(handle, *arguments)
        if status:
            raise error(status)

    return gemm


class CupyCuda:
    """CUDA through CuPy, for one card."""

    def __init__(self, cupy: Any, card: Any):
        self.cupy, self.card = cupy, card
        self._gemm: Callable[..., None] | None = None  # found when it is first needed

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        return self.cupy.RawModule(code=source, options=options)

    def matmul(
        self, a: Array, b: Array, out: Array, transpose_a: bool = False, transpose_b: bool = False, exact: bool = False
    ) -> None:
        """cuBLAS itself: cupy.matmul would copy a transposed stack, and refuses to be captured.

        cuBLAS lays matrices out by columns, so it sees ours transposed, and computes out' = b' a'.
        """
        *stack, m, n = out.shape
        k, count = a.shape[-2 if transpose_a else -1], stack[0] if stack else 1
        if out.size == 0 or k == 0:
            out.fill(0)
            return
        if self._gemm is None:
            self._gemm = gemm_of(self.cupy)
        kind, one, zero = _DOUBLE if out.dtype == np.float64 else _SINGLE
        compute = COMPUTE_64F if kind == R_64F else COMPUTE_32F["float32" if exact else precision()]
        self._gemm(
            self.card.cublas_handle, int(transpose_b), int(transpose_a), n, m, k, ctypes.addressof(one),
            b.data.ptr, kind, b.shape[-1], n * k, a.data.ptr, kind, a.shape[-1], m * k, ctypes.addressof(zero),
            out.data.ptr, kind, n, m * n, count, compute, GEMM_DEFAULT,
        )  # fmt: skip

    def capture(self, work: Callable[[], Any]) -> tuple[Any, Graph]:
        """On a stream of its own, because CUDA does not capture the one that computes; with memory of its own."""
        cuda = self.cupy.cuda
        stream, pool = cuda.Stream(non_blocking=True), cuda.MemoryPool()
        with self.card, stream, cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            try:
                result = work()
            except BaseException:
                with suppress(Exception):  # that the capture has failed is known
                    stream.end_capture()
                raise
            graph = stream.end_capture()
        return result, Graph(graph.launch, pool)

    def pinned(self, size: int) -> np.ndarray:
        return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def new_stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def current_stream(self) -> Any:
        return self.cupy.cuda.get_current_stream()

    def free_bytes(self) -> int:
        """What is free on the device, and in blocks that CuPy keeps."""
        return int(self.card.mem_info[0]) + int(self.cupy.get_default_memory_pool().free_bytes())

    def room_for_a_graph(self) -> bool:
        return int(self.card.mem_info[0]) > int(self.cupy.get_default_memory_pool().free_bytes())
