"""The kernels once more under AddressSanitizer and UndefinedBehaviorSanitizer, in a process that has them preloaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda_shim.shim import COMPILER, needs_compiler

ROOT = Path(__file__).parents[3]


def runtime(name):
    """The path of a sanitiser's library, or None."""
    found = subprocess.run([COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip())
    return path if path.is_absolute() else None


def sanitised(*arguments, **more):
    """`python ...` with the sanitisers, and more variables in its environment; the exit code and all output."""
    libraries = [runtime(name) for name in ("libasan.so", "libubsan.so")]
    if None in libraries:
        pytest.skip("g++ has no sanitisers here (libasan, libubsan)")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(map(str, libraries)),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "MINICNN_SANITISE": "1",
        "PYTHONMALLOC": "malloc",
        **more,
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
@needs_compiler
def test_kernels_touch_nothing_but_their_arrays():
    tests = ["test_versions.py", "test_update.py", "test_batches.py"]
    files = [f"tests/fast/cuda/{name}" for name in tests]
    code, output = sanitised("-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert code == 0, output[-5000:]


BROKEN = """
import sys
import numpy as np
from minicnn.fast.cuda import kernels
from tests.devices import standin_with_kernels
kernels.source = lambda file: (kernels.FOLDER / "common.cuh").read_text() + sys.argv[1]
with standin_with_kernels() as device:
    x, y = (device.put(np.ones(n, np.float32)) for n in (5, 5))
    kernels.launch("broken.broken", (y,), x)
"""


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[i] = x[i + 1];", "heap-buffer-overflow"),
        ("y[i] = x[i] + (i + 2147483647);", "signed integer overflow"),
    ],
)
def test_the_sanitisers_see_mistakes(body, message):
    kernel = f"KERNEL broken(REAL* y, const REAL* x, INDEX count) {{ EACH(i, count) {body} }}"
    code, output = sanitised("-c", BROKEN, kernel)
    assert code != 0
    assert message in output
