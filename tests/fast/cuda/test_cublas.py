"""The call of cuBLAS in minicnn/cuda.py, with a cuBLAS that does what NVIDIA's manual says: matrices by columns."""

import ctypes
import types

import cupy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.cuda import CupyCuda
from minicnn.precision import set_precision

# As in cublas_api.h of CUDA 12: cublasComputeType_t and cublasGemmAlgo_t.
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_16BF, COMPUTE_32F_FAST_TF32, GEMM_DEFAULT = 68, 70, 75, 77, -1


class Cublas:
    """C_i = alpha op(A_i) op(B_i) + beta C_i: element (r, c) of a matrix lies at r + c ld."""

    def gemm(
        self, handle, transa, transb, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b, beta, c,
        c_type, ldc, stride_c, count, compute, algo,
    ):  # fmt: skip
        assert (handle, algo) == (123, GEMM_DEFAULT)
        assert a_type == b_type == c_type
        double = a_type == cupy.cuda.runtime.CUDA_R_64F
        assert double or a_type == cupy.cuda.runtime.CUDA_R_32F
        self.compute = compute
        assert (compute == COMPUTE_64F) == double
        kind = ctypes.c_double if double else ctypes.c_float
        one, zero = (ctypes.cast(p, ctypes.POINTER(kind))[0] for p in (alpha, beta))
        assert (one, zero) == (1, 0)

        def matrix(address, rows, columns, ld):
            assert ld >= rows
            flat = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (columns * ld,))
            return flat.reshape(columns, ld).T[:rows]

        size = ctypes.sizeof(kind)
        for i in range(count):
            left = matrix(a + i * stride_a * size, *((k, m) if transa else (m, k)), lda)
            right = matrix(b + i * stride_b * size, *((n, k) if transb else (k, n)), ldb)
            product = (left.T if transa else left) @ (right.T if transb else right)
            matrix(c + i * stride_c * size, m, n, ldc)[...] = product


class HostArray:
    """As much of a CuPy array as the call needs."""

    def __init__(self, host):
        self.host, self.shape, self.dtype, self.size = host, host.shape, host.dtype, host.size
        self.data = types.SimpleNamespace(ptr=host.ctypes.data)


def multiplied(cublas, a, b, transpose_a=False, transpose_b=False, **options):
    """Of stacks of matrices."""
    (rows, inner), columns = a.shape[:0:-1] if transpose_a else a.shape[1:], b.shape[1 if transpose_b else 2]
    out = np.full((len(a), rows, columns), np.nan, a.dtype)
    cuda = CupyCuda(cupy, types.SimpleNamespace(cublas_handle=123))
    cuda._gemm = cublas.gemm
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    product = cuda.product(a.dtype, rows, inner, columns, stack=len(a), **turned, **options)
    product(HostArray(a), HostArray(b), HostArray(out))
    return out


@given(data=st.data())
def test_stacks_of_matrices(data):
    count, m, k, n = (data.draw(st.integers(1, 5)) for _ in range(4))
    turn_a, turn_b = data.draw(st.booleans()), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(count, m, k)).astype(dtype), rng.normal(size=(count, k, n)).astype(dtype)
    given_a, given_b = (
        np.ascontiguousarray(x.transpose(0, 2, 1)) if turn else x for x, turn in ((a, turn_a), (b, turn_b))
    )
    np.testing.assert_allclose(multiplied(Cublas(), given_a, given_b, turn_a, turn_b), a @ b, rtol=1e-5, atol=1e-5)


def test_one_matrix():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(multiplied(Cublas(), a[None], b[None]), [[[20, 23, 26, 29], [56, 68, 80, 92]]])


def test_float32_products_are_exact_until_asked_otherwise():
    x, cublas = np.ones((1, 2, 2), np.float32), Cublas()
    multiplied(cublas, x, x)
    assert cublas.compute == COMPUTE_32F
    asked = {"tf32": COMPUTE_32F_FAST_TF32, "bf16": COMPUTE_32F_FAST_16BF, "float32": COMPUTE_32F}
    for name, compute in asked.items():
        multiplied(cublas, x, x, precision=name)
        assert cublas.compute == compute
        multiplied(cublas, x.astype("float64"), x.astype("float64"), precision=name)
        assert cublas.compute == COMPUTE_64F
    with pytest.raises(ValueError, match="set_precision: choose from float32, tf32, bf16, got 'half'"):
        set_precision("half")
