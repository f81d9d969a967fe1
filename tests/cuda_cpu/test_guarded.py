"""Every test for a GPU, with every array between guard pages, and streams that do their work as late as they may."""

from tests.cuda_cpu.runs import every_gpu_test_passes


def test_guarded():
    every_gpu_test_passes()
