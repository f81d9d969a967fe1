"""The code, machine and device that computed a result, to be kept beside it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import minicnn
from minicnn.backend import CPU, fast_versions
from minicnn.fast.native.library import bf16_problem, problem
from minicnn.precision import precision

INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")  # those that decide about speed


ROOT = Path(minicnn.__file__).parents[1]


def own_program(module: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment variables that run one of our modules in another process.

    -P: the working directory may hold a package that is called `experiments` as well.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return [sys.executable, "-P", "-m", module], {"PYTHONPATH": os.pathsep.join(paths)}


@cache
def commit(root: Path) -> str:
    """The commit of this code, "..-dirty" if it has changed since; "unknown" outside a git clone."""
    if not (root / ".git").exists():  # never the commit of an enclosing project
        return "unknown"
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Its name and which of the INSTRUCTIONS it has: "AMD EPYC (avx2)"; the name alone where there is no such file."""
    try:
        lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
    except OSError:
        return platform.processor() or platform.machine()
    found = {key.strip(): value.strip() for key, _, value in reversed(lines)}  # of the first core
    known = (found.get("flags") or found.get("Features") or "").split()
    name = found.get("model name") or platform.machine()
    return f"{name} ({', '.join(i for i in INSTRUCTIONS if i in known) or 'no vector instructions that we know'})"


def environment(device: minicnn.Device) -> dict[str, Any]:
    """What a run was computed with, for its config.json."""
    return {
        "minicnn": minicnn.__version__,
        "commit": commit(ROOT),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": str(device),
        "fast": os.environ.get("MINICNN_FAST", "1"),
        "native": native(device),  # runs before there were kernels in C lack it
        "precision": products(device),  # older runs have "tf32", which was "0" in all that are kept
    }


def native(device: minicnn.Device) -> bool:
    """Whether kernels in C compute there."""
    return device is CPU and fast_versions() and problem() is None


def products(device: minicnn.Device) -> str:
    """How exact they are there, which may not be what was wished for: NumPy knows no bf16, and no CPU knows tf32."""
    wished = precision()
    on_cpu = wished == "bf16" and native(device) and bf16_problem() is None
    return wished if device.cuda is not None or on_cpu else "float32"
