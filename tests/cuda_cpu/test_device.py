"""Bugs that a GPU may hide, planted: the device finds every one of them."""

import re

import numpy as np
import pytest

from minicnn import backend, cuda, ops
from minicnn.backend import DeviceError
from minicnn.cuda import CupyCuda, WaitingCuda
from minicnn.fast.batches import Slot, StagedBatches
from minicnn.fast.cuda import kernels
from minicnn.precision import PRECISION
from tests import cuda_cpu
from tests.cuda_cpu.compiler import FUSED
from tests.fast.cuda.test_batches import batches, same

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not cuda_cpu.ASKED, reason="about the CPU in the place of a GPU")]
needs_guards = pytest.mark.skipif(not cuda_cpu.GUARDED, reason="CuPy's pool gives out memory without guard pages")

SHIFTED = """
extern "C" __global__ void shifted(float* y, const float* x, int by, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i + by];
}
"""
SCALE = 'extern "C" __global__ void scale(double* x) { x[threadIdx.x] = 2 * x[threadIdx.x]; }'


def start(source, name, threads, *arguments):
    import cupy

    cupy.RawModule(code=source).get_function(name)((1,), (threads,), arguments)


@needs_guards
@pytest.mark.parametrize(("by", "byte"), [(1, 20), (-1, -4)])
def test_reading_one_element_too_far(by, byte):
    gpu = backend.device("gpu")
    x, y = (gpu.put(np.ones(5, np.float32)) for _ in range(2))
    start(SHIFTED, "shifted", 8, y, x, np.int32(0), np.int32(5))
    assert cuda_cpu.finish() is None
    start(SHIFTED, "shifted", 8, y, x, np.int32(by), np.int32(5))
    found = cuda_cpu.finish()
    if by > 0:
        assert found == f"shifted touched byte {byte} of a block of 20 on device 0"
    else:  # within the page, where nothing was ever written
        assert np.isnan(gpu.get(y)[0]) or found is not None


@needs_guards
def test_a_kernel_that_writes_beside_its_array():
    gpu = backend.device("gpu")
    x, y = (gpu.put(np.ones(5, np.float32)) for _ in range(2))
    start(SHIFTED, "shifted", 8, y[1:], x, np.int32(0), np.int32(5))
    assert cuda_cpu.finish() == "shifted touched byte 20 of a block of 20 on device 0"
    start('extern "C" __global__ void before(float* y) { y[-1] = 0; }', "before", 1, y)
    del y
    assert "something wrote beside byte 0 of a freed block of 20" in cuda_cpu.finish()


@needs_guards
def test_a_block_used_after_it_was_freed():
    gpu = backend.device("gpu")
    x, y = gpu.put(np.ones(5)), gpu.put(np.ones(5))
    address = np.uint64(x.data.ptr)
    start(SCALE, "scale", 5, address)
    gpu.synchronize()
    del x  # its memory may be used for other arrays from now on
    with pytest.raises(Exception, match="scale uses 1 bytes from byte 0 of a freed block of 40 on device 0"):
        start(SCALE, "scale", 5, address)
    assert cuda_cpu.finish() is not None
    np.testing.assert_array_equal(gpu.get(y), 1)  # the device works again


@needs_guards
def test_a_block_freed_while_another_stream_copies_to_it():
    gpu = backend.device("gpu")
    x, stream = gpu.put(np.ones(5)), gpu.cuda.new_stream()
    here = gpu.cuda.pinned(40).view(np.float64)
    here[...] = 2
    x.set(here, stream=stream)
    del x  # nothing waits for the copy
    with pytest.raises(Exception, match="copy touched byte 0 of a freed block of 40 on device 0"):
        gpu.synchronize()
    assert cuda_cpu.finish() is not None


def test_a_pointer_of_another_device():
    first, second = backend.device("gpu:0"), backend.device("gpu:1")
    x = second.put(np.ones(3))
    backend.device("gpu:0")
    message = "scale on device 0 got a pointer of another device: byte 0 of a block of .* on device 1"
    with pytest.raises(Exception, match=message):
        start(SCALE, "scale", 3, np.uint64(x.data.ptr))
    assert cuda_cpu.finish() is not None
    assert first.get(first.put(np.ones(3))).sum() == 3


def test_memory_that_nobody_wrote_is_not_a_number():
    gpu = backend.device("gpu")
    if cuda_cpu.GUARDED:
        assert np.isnan(gpu.get(gpu.xp.empty(7))).all()


def test_memory_comes_to_an_end():
    gpu = backend.device("gpu")
    pool = gpu.xp.get_default_memory_pool()
    with gpu.xp.cuda.using_allocator(pool.malloc), pytest.raises(gpu.xp.cuda.memory.OutOfMemoryError) as caught:
        gpu.xp.empty(5 << 30, np.uint8)
    assert gpu.out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x, n: (x, x), "2 arguments, it takes 3"),
        (lambda x, n: (x, x.astype("float32"), n), "argument 1: float32 for double"),
        (lambda x, n: (x, x[::2], n), "argument 1: not in C order"),
        (lambda x, n: (x, x, np.int64(3)), "argument 2: int64 for int"),
        (lambda x, n: (x, n, n), "argument 1: np.int32"),
    ],
)
def test_a_launch_with_a_wrong_argument(arguments, message):
    gpu = backend.device("gpu")
    x = gpu.put(np.ones(3))
    module = CupyCuda(gpu.xp, None).module(kernels.source("elementwise"), kernels.options("f8", "i4"))
    with pytest.raises(AssertionError, match=message):
        module.get_function("avr")((1,), (1,), arguments(x, np.int32(3)))


def test_a_wrong_argument_is_found_where_the_kernel_has_a_plan():
    gpu = backend.device("gpu")
    x, y = gpu.put(np.ones(3)), gpu.put(np.zeros(3))
    for _ in range(2):  # the second time by a plan
        kernels.launch("elementwise.avr", (y,), x)
    for wrong, message in (((x.astype("float32"),), "argument 1: float32 for double"), ((x, 3), "4 arguments")):
        with pytest.raises(AssertionError, match=message):
            kernels.launch("elementwise.avr", (y,), *wrong)


def test_products_are_fused_with_sums_where_that_is_asked_for():
    """x * x - r, with r the rounded square: 0, unless the product was not rounded."""
    gpu = backend.device("gpu")
    x = gpu.put(np.array([1 + 2.0**-30]))
    source = 'extern "C" __global__ void rest(double* x, double r) { x[0] = x[0] * x[0] - r; }'
    start(source, "rest", 1, x, np.float64((1 + 2.0**-30) ** 2))
    assert gpu.get(x)[0] == (2.0**-60 if FUSED else 0)


def test_the_threads_of_a_block_wait_for_each_other():
    source = """
    extern "C" __global__ void turned(float* x) {
        __shared__ float all[64];
        all[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = all[63 - threadIdx.x] + __shfl_xor_sync(~0u, x[threadIdx.x], 1);
    }"""
    gpu = backend.device("gpu")
    values = np.arange(64, dtype=np.float32)
    x = gpu.put(values)
    start(source, "turned", 64, x)
    np.testing.assert_array_equal(gpu.get(x), values[::-1] + values.reshape(-1, 2)[:, ::-1].reshape(-1))


# --- events ---

ORDERS = [("now", 0), ("late", 0), *(("random", seed) for seed in range(6))]


def wrong_in(change):
    """In which orders batches that are copied ahead come out wrong."""
    found = []
    for name, seed in ORDERS:
        with pytest.MonkeyPatch.context() as patch, cuda_cpu.order(name, seed):
            change(patch)
            made = batches(n=60, size=(5, 4), batch=4)
            ours = [(x + 0, labels + 0) for x, labels in StagedBatches(made, backend.device("gpu")).epoch(0)]
            try:
                same(ours, made.epoch(0))
                assert cuda_cpu.finish() is None
            except AssertionError:
                found.append((name, seed))
            cuda_cpu.finish()
    return found


def test_batches_are_right_in_every_order_of_work():
    assert wrong_in(lambda patch: None) == []


def test_a_computation_that_does_not_wait_for_its_batch():
    def lend(slot):
        yield slot.arrays
        slot.used = slot.cuda.current_stream().record()

    assert wrong_in(lambda patch: patch.setattr(Slot, "lend", lend))


def test_a_copy_that_does_not_wait_for_the_computation_on_its_place():
    def lend(slot):
        slot.cuda.current_stream().wait_event(slot.copied)
        yield slot.arrays

    assert wrong_in(lambda patch: patch.setattr(Slot, "lend", lend))


def test_memory_that_is_written_before_the_last_copy_has_read_it():
    send = Slot.send

    def without_waiting(slot, batch, stream):
        slot.copied = None
        send(slot, batch, stream)

    assert wrong_in(lambda patch: patch.setattr(Slot, "send", without_waiting))


def test_batches_that_are_dropped_while_a_copy_is_under_way():
    """The copy still reads page-locked memory and writes to the device: both must wait for it."""
    staged = StagedBatches(batches(n=60, size=(5, 4), batch=4), backend.device("gpu"))
    epoch = staged.epoch(0)
    next(epoch)
    epoch.close()
    del staged, epoch
    assert cuda_cpu.finish() is None


@needs_guards
def test_debug_sync_names_the_kernel_that_failed(monkeypatch):
    gpu = backend.device("gpu")
    x, y = (gpu.put(np.ones(5, np.float32)) for _ in range(2))
    monkeypatch.setattr(kernels, "DEBUG_SYNC", True)
    kernels.launch("elementwise.avr", (y,), x)
    with pytest.raises(
        DeviceError, match="the kernel elementwise.avr failed on gpu:0: .*avr touched byte 20 of a block"
    ):
        kernels.launch("elementwise.avr", (y,), x, count=6)
    assert cuda_cpu.finish() is not None


@needs_guards
def test_debug_sync_waits_for_products(monkeypatch):
    """What a product finds broken, something else broke; and then it is a product's turn."""
    gpu = backend.device("gpu")
    waiting, x, out = WaitingCuda(gpu.xp, gpu.cuda.card), *(gpu.put(np.ones((2, 2), np.float32)) for _ in range(2))
    waiting.product(x.dtype, 2, 2, 2)(x, x, out)
    np.testing.assert_array_equal(gpu.get(out), 2)
    start(SHIFTED, "shifted", 8, out, x, np.int32(1), np.int32(4))
    message = (
        r"^what CuPy started before the product of \(2, 2\) and \(2, 2\) failed on gpu:0: .*shifted touched byte 16"
    )
    with pytest.raises(RuntimeError, match=message):
        waiting.product(x.dtype, 2, 2, 2)(x, x, out)
    assert cuda_cpu.finish() is not None

    def broken(*arrays):
        start(SHIFTED, "shifted", 8, out, x, np.int32(1), np.int32(4))

    monkeypatch.setattr(CupyCuda, "product", lambda *sizes, **options: broken)
    with pytest.raises(RuntimeError, match=r"^the product of \(2, 2\) and \(2, 2\) failed on gpu:0: "):
        waiting.product(x.dtype, 2, 2, 2)(x, x, out)
    assert cuda_cpu.finish() is not None


@pytest.fixture
def page_locked():
    """The sizes of page-locked memory that were asked for."""
    from cupy import cuda, get_default_pinned_memory_pool

    pool, asked = get_default_pinned_memory_pool(), []
    cuda.set_pinned_memory_allocator(lambda size: asked.append(size) or pool.malloc(size))
    yield asked
    cuda.set_pinned_memory_allocator(pool.malloc)


@pytest.mark.parametrize(("name", "seed"), ORDERS)
def test_a_large_array_is_uploaded_in_chunks(name, seed, page_locked, monkeypatch):
    """Of any dtype and memory order, in every order of work; the last chunk is smaller."""
    gpu, array = backend.device("gpu"), np.random.default_rng(0).standard_normal((7, 5, 11))
    monkeypatch.setattr(backend, "LARGE", array.size)
    monkeypatch.setattr(cuda, "CHUNK", 64)
    with cuda_cpu.order(name, seed):
        for made in (array, np.asfortranarray(array), array[:, ::2], array > 0):
            np.testing.assert_array_equal(gpu.get(gpu.put(made)), made)
            assert page_locked == [64, 64]
            page_locked.clear()


def test_a_chunk_that_is_written_before_the_gpu_has_read_it(monkeypatch):
    gpu, array = backend.device("gpu"), np.arange(1000.0)
    monkeypatch.setattr(backend, "LARGE", 0)
    monkeypatch.setattr(cuda, "CHUNK", 64)
    monkeypatch.setattr(gpu.xp.cuda.Event, "synchronize", lambda event: None, raising=True)
    with cuda_cpu.order("late"):
        assert not np.array_equal(gpu.get(gpu.put(array)), array)


def test_batches_from_ordinary_memory_where_none_can_be_page_locked():
    """CUDA copies ordinary memory before the program goes on, so it may be written again at once."""
    made, gpu = batches(n=60, size=(5, 4), batch=4), backend.device("gpu")
    gpu.xp.get_default_pinned_memory_pool().free_all_blocks()
    with cuda_cpu.memory_left(0, cuda_cpu.HOST):
        staged = StagedBatches(made, gpu)
        same(staged.epoch(0), made.epoch(0))
    assert all(slot.pinned.base is None for slot in staged._slots)  # it is NumPy's own


def test_functions_that_are_not_there_say_so(capfd):
    from cupy.cuda import runtime

    with pytest.raises(Exception, match=re.escape("has no cudaMallocManaged")):
        runtime.mallocManaged(100)


FACTORS = np.float32([1, 1 + 2**-7, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-23, 3e38])
ROUNDED = {  # in a tie to even
    "float32": FACTORS,
    "tf32": [1, 1 + 2**-7, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-10, 1, 1 + 2**-9, 1, None],
    "bf16": [1, 1 + 2**-7, 1, 1 + 2**-6, 1, 1, 1, 1, None],
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize(("first", "sign"), [(True, 1), (False, -1)])
def test_products_see_rounded_factors(monkeypatch, name, first, sign):
    """--precision reaches cuBLAS from convolutions; a product by 1 shows what became of the other factor."""
    monkeypatch.setenv(PRECISION, name)
    gpu = backend.device("gpu")
    factors, one = gpu.put(sign * FACTORS.reshape(-1, 1)), gpu.put(np.ones((1, 1), np.float32))
    out = gpu.xp.empty((len(FACTORS), 1), np.float32)
    if first:
        gpu.cuda.product(out.dtype, len(FACTORS), 1, 1, precision=name)(factors, one, out)
    else:
        gpu.cuda.product(out.dtype, 1, 1, len(FACTORS), transpose_b=True, precision=name)(one, factors, out)
    seen = sign * gpu.get(out).ravel()
    for value, expected, factor in zip(seen, ROUNDED[name], FACTORS, strict=True):
        assert value == expected if expected is not None else 0 < abs(value / factor - 1) < 2**-8
    pixels = gpu.put(FACTORS[:8].reshape(1, 2, 4, 1))
    y = ops.conv2d(pixels, gpu.put(np.ones((1, 1, 1, 1), np.float32)))
    np.testing.assert_array_equal(gpu.get(y).ravel(), np.float32(ROUNDED[name][:8]))
    exact = gpu.put(FACTORS.astype(np.float64).reshape(-1, 1))
    doubles = gpu.xp.empty((len(FACTORS), 1))
    gpu.cuda.product(doubles.dtype, len(FACTORS), 1, 1, precision=name)(exact, gpu.put(np.ones((1, 1))), doubles)
    np.testing.assert_array_equal(gpu.get(doubles).ravel(), FACTORS)  # in float64 nothing is rounded
