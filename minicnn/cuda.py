"""What CUDA offers besides arrays: kernels, matrix products, graphs of launches, streams, page-locked memory.

`Device.cuda` (minicnn/backend.py) is a Cuda on a GPU and None elsewhere.  Tests put another one in its place.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any  # an array of the device
Product = Callable[[Array, Array, Array], None]  # product(a, b, out) computes out = a b


DEBUG_SYNC = os.environ.get("MINICNN_DEBUG_SYNC") == "1"  # wait after every kernel and product, to say which one failed
NVTX = os.environ.get("MINICNN_NVTX") == "1"  # whether layers have a range each, for profilers
CHUNK = 8 << 20  # bytes that a large array is uploaded in


class Graph(NamedTuple):
    """Work that was captured: launch() queues all of it at once."""

    launch: Callable[[], None]
    memory: Any  # what the work uses, for as long as there is the graph


class Cuda(Protocol):
    """What minicnn asks of CUDA."""

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        """CUDA source, compiled: module.get_function(name)((blocks,), (threads,), arguments) starts a kernel."""

    def handle(self, function: Any) -> int | None:
        """The driver's name for a function of a module, once it was started; None where there is no driver."""

    def start(self, handle: int, blocks: int, threads: int, arguments: int) -> None:
        """Start the kernel of that name; `arguments` is the address of a list of their addresses."""

    def product(
        self,
        dtype: Any,
        rows: int,
        inner: int,
        columns: int,
        *,
        stack: int = 1,
        transpose_a: bool = False,
        transpose_b: bool = False,
        precision: str = "float32",
    ) -> Product:
        """What computes out = a b, again and again, for a (rows, inner) and b (inner, columns), or `stack` of each.

        With transpose_a, a lies there as (inner, rows); with transpose_b, b as (columns, inner).  Arrays may have any
        shape, if such matrices lie there in C order.  Nothing looks at that.

        precision    of float32 (minicnn/precision.py)
        """

    def capture(self, work: Callable[[], Any]) -> tuple[Any, Graph]:
        """What work() returns, and its launches as a graph.  They are not done, until somebody launches it.

        CUDA refuses what a graph cannot repeat: to wait, or to copy from or to the host.  Whatever work() raises then,
        or by itself, is raised here.
        """

    def pinned(self, size: int) -> np.ndarray:
        """That many bytes of host memory, which the GPU can read while the program goes on.

        Where the system has no more of it, ordinary memory: copies from there make the program wait.
        """

    def new_stream(self) -> Any:
        """A queue of work beside the one that computes: stream.record() gives an event, stream.wait_event(event)."""

    def current_stream(self) -> Any:
        """The queue that computes."""

    def range(self, name: str) -> Any:
        """A context, and a decorator: what is started within has this name in NVIDIA's profilers."""

    def free_bytes(self) -> int:
        """How much memory is left."""

    def room_for_a_graph(self) -> bool:
        """Whether there is memory for what was computed so far to be done a second time, in other memory."""


# Numbers of cuBLAS's interface
R_32F, R_64F = 0, 1
COMPUTE_32F = {"float32": 68, "tf32": 77, "bf16": 75}  # as in minicnn/precision.py
COMPUTE_64F = 70
GEMM_DEFAULT = -1
_SINGLE = (R_32F, ctypes.c_float(1), ctypes.c_float(0))  # its type, one, zero
_DOUBLE = (R_64F, ctypes.c_double(1), ctypes.c_double(0))


def gemm_of(cupy: Any) -> Callable[..., None]:
    """cublasGemmStridedBatchedEx on the current stream, for a capture; its arguments are those of the manual.

    CuPy's function of that name is faster, but refuses while a graph is captured ("currently unsupported"), though
    cuBLAS can be captured.  CuPy's module is linked with cuBLAS, so the functions of cuBLAS are found through it; where
    they are not (on Windows), CuPy's has to do, and there are no graphs.
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
        self._gemm: Callable[..., None] | None = None  # of cuBLAS, where CuPy's does not do: while a graph is captured

    @cached_property
    def _cupy_gemm(self) -> Callable[..., None]:
        """Found when it is first needed: cuBLAS may be missing."""
        return self.cupy.cuda.cublas.gemmStridedBatchedEx

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        return self.cupy.RawModule(code=source, options=options)

    def handle(self, function: Any) -> int | None:
        return int(function.kernel.ptr)

    def start(self, handle: int, blocks: int, threads: int, arguments: int) -> None:
        """What CuPy's kernels do in the end; it takes them ten times as long to look at their arguments."""
        cuda = self.cupy.cuda
        cuda.driver.launchKernel(handle, blocks, 1, 1, threads, 1, 1, 0, cuda.get_current_stream().ptr, arguments, 0)

    def product(
        self,
        dtype: Any,
        rows: int,
        inner: int,
        columns: int,
        *,
        stack: int = 1,
        transpose_a: bool = False,
        transpose_b: bool = False,
        precision: str = "float32",
    ) -> Product:
        """cuBLAS itself: cupy.matmul would copy a transposed stack, and refuses to be captured.

        cuBLAS lays matrices out by columns, so it sees ours transposed, and computes out' = b' a'.
        """
        m, n, k = rows, columns, inner
        if 0 in (stack, m, n, k):
            return lambda a, b, out: out.fill(0)
        kind, one, zero = _DOUBLE if dtype == np.float64 else _SINGLE
        compute = COMPUTE_64F if kind == R_64F else COMPUTE_32F[precision]
        sizes = (int(transpose_b), int(transpose_a), n, m, k, ctypes.addressof(one))
        of_b = (kind, k if transpose_b else n, n * k)
        of_a = (kind, m if transpose_a else k, m * k, ctypes.addressof(zero))
        of_out = (kind, n, m * n, stack, compute, GEMM_DEFAULT)

        def multiply(a: Array, b: Array, out: Array) -> None:
            gemm = self._gemm or self._cupy_gemm
            gemm(self.card.cublas_handle, *sizes, b.data.ptr, *of_b, a.data.ptr, *of_a, out.data.ptr, *of_out)

        return multiply

    def capture(self, work: Callable[[], Any]) -> tuple[Any, Graph]:
        """On a stream of its own, because CUDA does not capture the one that computes; with memory of its own."""
        cuda = self.cupy.cuda
        stream, pool = cuda.Stream(non_blocking=True), cuda.MemoryPool()
        with self.card, stream, cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            self._gemm = gemm_of(self.cupy)
            try:
                result = work()
            except BaseException:
                with suppress(Exception):  # that the capture has failed is known
                    stream.end_capture()
                raise
            finally:
                self._gemm = None
            graph = stream.end_capture()
        return result, Graph(graph.launch, pool)

    def pinned(self, size: int) -> np.ndarray:
        try:
            return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        except Exception as error:
            if not out_of_memory(error):
                raise
            return np.empty(size, np.uint8)

    def upload(self, x: np.ndarray, there: Array) -> None:
        """Copy a host array to an array of the GPU in C order, a chunk at a time; waits for it.

        CuPy would page-lock a copy of all of x, rounded up to a power of two, and keep that memory.  Two chunks take
        turns: one is written while the GPU reads the other.
        """
        source: np.ndarray = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        target: Array = there.reshape(-1).view(np.uint8)
        chunks, copied, stream = [self.pinned(CHUNK) for _ in range(2)], [None, None], self.current_stream()
        try:
            for i, start in enumerate(range(0, source.size, CHUNK)):
                if (event := copied[i % 2]) is not None:
                    event.synchronize()
                part = source[start : start + CHUNK]
                chunk = chunks[i % 2][: part.size]
                chunk[...] = part
                target[start : start + part.size].set(chunk, stream=stream)
                copied[i % 2] = stream.record()
        finally:
            stream.synchronize()  # only then may others have the chunks

    def new_stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def current_stream(self) -> Any:
        return self.cupy.cuda.get_current_stream()

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        nvtx = self.cupy.cuda.nvtx
        nvtx.RangePush(name)
        try:
            yield
        finally:
            nvtx.RangePop()

    def free_bytes(self) -> int:
        """What is free on the device, and in blocks that CuPy keeps."""
        return int(self.card.mem_info[0]) + int(self.cupy.get_default_memory_pool().free_bytes())

    def room_for_a_graph(self) -> bool:
        return int(self.card.mem_info[0]) > int(self.cupy.get_default_memory_pool().free_bytes())


# How libraries say that the memory of a GPU is used up: CuPy's errors, and the numbers in them.  cuBLAS that finds no
# memory for its handle may also say that it is not initialised (1).
_NO_MEMORY = {"CUDARuntimeError": (2,), "CUDADriverError": (2,), "CUBLASError": (1, 3), "CUSOLVERError": (2,)}


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of CuPy says that the memory of a GPU is used up."""
    kind = type(error).__name__  # by name: where a library is missing, so is the module with its error
    return kind == "OutOfMemoryError" or getattr(error, "status", None) in _NO_MEMORY.get(kind, ())


class WaitingCuda(CupyCuda):
    """For MINICNN_DEBUG_SYNC: waits before and after every product, so that what failed is known."""

    def product(self, *sizes: Any, **options: Any) -> Product:
        multiply = super().product(*sizes, **options)

        def waiting(a: Array, b: Array, out: Array) -> None:
            shapes = f"the product of {a.shape} and {b.shape}"
            self._wait(f"what CuPy started before {shapes}")
            multiply(a, b, out)
            self._wait(shapes)

        return waiting

    def _wait(self, what: str) -> None:
        try:
            self.card.synchronize()
        except Exception as error:  # CuPy has several
            raise RuntimeError(f"{what} failed on gpu:{self.card.id}: {error}") from error
