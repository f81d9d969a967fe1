"""Captures that a GPU refuses, and graphs that would be wrong there, planted: the device finds them."""

import numpy as np
import pytest

from minicnn import backend
from minicnn.cuda import gemm_of
from tests import cuda_cpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not cuda_cpu.ASKED, reason="about the CPU in the place of a GPU")]


@pytest.fixture
def gpu():
    return backend.device("gpu")


def test_work_is_kept_and_done_again_and_again(gpu):
    x, total = gpu.put(np.arange(3.0)), gpu.put(np.zeros(3))

    def work():
        square = x * x
        total[...] += square
        return square

    square, graph = gpu.cuda.capture(work)
    np.testing.assert_array_equal(gpu.get(total), 0)
    graph.launch()
    x += 1
    graph.launch()
    np.testing.assert_array_equal(gpu.get(total), [0 + 1, 1 + 4, 4 + 9])
    np.testing.assert_array_equal(gpu.get(square), [1, 4, 9])


def test_products_can_be_captured(gpu):
    """By our call of cuBLAS; CuPy's own refuses."""
    a, out = gpu.put(np.arange(4.0).reshape(2, 2)), gpu.put(np.zeros((2, 2)))
    product = gpu.cuda.product(a.dtype, 2, 2, 2)
    _, graph = gpu.cuda.capture(lambda: product(a, a, out))
    np.testing.assert_array_equal(gpu.get(out), 0)
    graph.launch()
    np.testing.assert_array_equal(gpu.get(out), [[2, 3], [6, 11]])
    with pytest.raises(NotImplementedError, match="during stream capture"):
        gpu.cuda.capture(lambda: a @ a)


def test_an_error_of_cublas_is_raised(gpu):
    x = gpu.put(np.ones((2, 2)))
    with pytest.raises(gpu.xp.cuda.cublas.CUBLASError):
        gemm_of(gpu.xp)(gpu.cuda.card.cublas_handle, 0, 0, -1, *[0] * 19)
    assert gpu.get(x).sum() == 4


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda gpu, x, stream: gpu.put(np.ones(3)),
        lambda gpu, x, stream: gpu.get(x),
        lambda gpu, x, stream: gpu.synchronize(),
        lambda gpu, x, stream: gpu.cuda.current_stream().synchronize(),
        lambda gpu, x, stream: gpu.cuda.current_stream().record(),
        lambda gpu, x, stream: gpu.cuda.current_stream().wait_event(stream.record()),
    ],
    ids=[
        "an upload",
        "a download",
        "waiting for the device",
        "waiting for the stream",
        "an event",
        "waiting for an event",
    ],
)
def test_what_a_capture_does_not_allow(forbidden, gpu):
    x, stream = gpu.put(np.ones(3)), gpu.cuda.new_stream()
    with pytest.raises(Exception, match=r"captur|Captur"):
        gpu.cuda.capture(lambda: forbidden(gpu, x, stream))
    _, graph = gpu.cuda.capture(lambda: x.__iadd__(1))  # the next capture is not affected
    graph.launch()
    np.testing.assert_array_equal(gpu.get(x), 2)


def test_the_stream_that_computes_cannot_be_captured(gpu):
    for stream in (gpu.cuda.current_stream(), gpu.xp.cuda.Stream()):
        with pytest.raises(Exception, match=r"StreamCaptureUnsupported|cannot capture on the default"):
            stream.begin_capture()


@pytest.mark.skipif(not cuda_cpu.GUARDED, reason="CuPy's pool gives out memory without guard pages")
def test_a_graph_whose_array_was_freed(gpu):
    y, others = gpu.put(np.ones(3)), [gpu.put(np.ones(3))]
    _, graph = gpu.cuda.capture(lambda: y.__iadd__(others[0]))
    others.clear()
    graph.launch()
    assert "of a freed block of 24 on device 0" in cuda_cpu.finish()


def test_a_graph_belongs_to_its_device(gpu):
    x = gpu.put(np.ones(3))
    _, graph = gpu.cuda.capture(lambda: x.__iadd__(1))
    with gpu.xp.cuda.Device(1), pytest.raises(Exception, match="InvalidResourceHandle"):
        graph.launch()


def test_a_graph_is_one_launch_in_the_record(gpu):
    x = gpu.put(np.ones(3))
    _, graph = gpu.cuda.capture(lambda: (x.__iadd__(1), x.__imul__(2)))
    record = cuda_cpu.Record()
    graph.launch()
    assert record.launches == [("graph", 2, 1)]
