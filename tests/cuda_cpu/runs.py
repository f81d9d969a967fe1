"""All tests for a GPU, in a process of their own, on a CPU in the place of one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cuda_cpu

ROOT = Path(__file__).parents[2]
LEAST = 560  # tests that must have run: those of on_devices (tests/devices.py), of tests/gpu and of this folder


def files():
    """The files that have tests for a GPU."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(f) for f in tests if re.search(r"^@on_devices|pytest\.mark\.gpu", f.read_text(), re.M)]


def every_gpu_test_passes(**settings):
    """Run them with these settings of the device."""
    if cuda_cpu.ASKED:
        pytest.skip("runs by itself")
    if problem := cuda_cpu.problem():
        pytest.skip(f"no CPU in the place of a GPU: {problem}")
    quiet = {"OPENBLAS_NUM_THREADS": "1", "MINICNN_THREADS": "1", "PYTEST_ADDOPTS": ""}
    environment = os.environ | quiet | {"MINICNN_GPU_TESTS": "cpu", "HYPOTHESIS_PROFILE": "few"} | settings
    for name in [name for name in environment if name.startswith("PYTEST_XDIST")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *files()]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= LEAST, done.stdout[-300:]
