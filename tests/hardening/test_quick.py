"""A small part of every hardening script; run directly, the scripts do more (docs/hardening.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {
    "nonsense": ["--each", "4", "--pairs", "10"],
    "fuzz": ["--count", "1500"],
    "faults": ["--only", "cifar", "regularisation", "--every", "11"],
    "kills": ["--count", "5"],
}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs fork and signals")
@pytest.mark.parametrize("name", QUICK)
def test_nothing_gives_way(name):
    out = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", f"tests.hardening.{name}", *QUICK[name]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert out.returncode == 0, out.stdout + out.stderr
