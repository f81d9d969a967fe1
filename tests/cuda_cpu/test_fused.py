"""Every test for a GPU, as a GPU rounds: products fused with sums, the smallest numbers 0.

And with CuPy's own pool of memory, and streams that do their work at random times.
"""

import pytest

from tests.cuda_cpu.runs import every_gpu_test_passes


@pytest.mark.slow
def test_fused():
    every_gpu_test_passes(MINICNN_CUDA_CPU_FMA="1", MINICNN_CUDA_CPU_POOL="1", MINICNN_CUDA_CPU_ORDER="random")
