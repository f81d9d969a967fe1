"""Every test for a GPU, with every array between guard pages, and streams that do their work as late as they may."""

import pytest

from tests.cuda_cpu.runs import every_gpu_test_passes


@pytest.mark.slow
def test_guarded():
    every_gpu_test_passes()
