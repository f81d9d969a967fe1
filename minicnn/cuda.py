"""What CUDA offers besides arrays: kernels, products of stacks of matrices, streams, page-locked memory.

`Device.cuda` (minicnn/backend.py) is a Cuda on a GPU and None elsewhere.  Tests put another one in its place.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

Array = Any  # an array of the device


class Cuda(Protocol):
    """What minicnn asks of CUDA."""

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        """CUDA source, compiled: module.get_function(name)((blocks,), (threads,), arguments) starts a kernel."""

    def batched_matmul(self, a: Array, b: Array, out: Array, transpose_a: bool, transpose_b: bool) -> None:
        """out[i] = a[i] b[i] for stacks of matrices, either transposed first, without a copy of it."""

    def pinned(self, size: int) -> np.ndarray:
        """That many bytes of host memory, which the GPU can read while the program goes on."""

    def new_stream(self) -> Any:
        """A queue of work beside the one that computes: stream.record() gives an event, stream.wait_event(event)."""

    def current_stream(self) -> Any:
        """The queue that computes."""

    def free_bytes(self) -> int:
        """How much memory is left."""


TF32 = "CUPY_TF32"  # the variable that CuPy reads when it first multiplies matrices


def allow_tf32() -> None:
    """From now on, float32 matrix products on a GPU may round their factors to 10 bits (tensor cores)."""
    os.environ[TF32] = "1"


class CupyCuda:
    """CUDA through CuPy, for one card."""

    def __init__(self, cupy: Any, card: Any):
        self.cupy, self.card = cupy, card

    def module(self, source: str, options: tuple[str, ...]) -> Any:
        return self.cupy.RawModule(code=source, options=options)

    def batched_matmul(self, a: Array, b: Array, out: Array, transpose_a: bool, transpose_b: bool) -> None:
        """cuBLAS itself: cupy.matmul would copy a transposed stack.

        cuBLAS lays matrices out by columns, so it sees ours transposed, and computes out' = b' a'.
        """
        cublas, runtime = self.cupy.cuda.cublas, self.cupy.cuda.runtime
        count, m, n = out.shape
        k = a.shape[1] if transpose_a else a.shape[2]
        double = out.dtype == np.float64
        kind = runtime.CUDA_R_64F if double else runtime.CUDA_R_32F
        fast = os.environ.get(TF32) == "1"
        single = cublas.CUBLAS_COMPUTE_32F_FAST_TF32 if fast else cublas.CUBLAS_COMPUTE_32F
        one, zero = (np.array(value, out.dtype) for value in (1, 0))
        operation = {False: cublas.CUBLAS_OP_N, True: cublas.CUBLAS_OP_T}
        cublas.gemmStridedBatchedEx(
            self.card.cublas_handle, operation[transpose_b], operation[transpose_a], n, m, k, one.ctypes.data,
            b.data.ptr, kind, b.shape[2], n * k, a.data.ptr, kind, a.shape[2], m * k, zero.ctypes.data,
            out.data.ptr, kind, n, m * n, count, cublas.CUBLAS_COMPUTE_64F if double else single,
            cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip

    def pinned(self, size: int) -> np.ndarray:
        return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def new_stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def current_stream(self) -> Any:
        return self.cupy.cuda.get_current_stream()

    def free_bytes(self) -> int:
        """What is free on the device, and in blocks that CuPy keeps."""
        return int(self.card.mem_info[0]) + int(self.cupy.get_default_memory_pool().free_bytes())
