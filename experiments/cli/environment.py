"""The code, machine and device that computed a result, to be kept beside it."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import minicnn
from minicnn.cuda import TF32


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


def environment(device: minicnn.Device) -> dict[str, Any]:
    """What a run was computed with, for its config.json."""
    return {
        "minicnn": minicnn.__version__,
        "commit": commit(Path(minicnn.__file__).parents[1]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": str(device),
        "fast": os.environ.get("MINICNN_FAST", "1"),
        "tf32": os.environ.get(TF32, "0"),
    }
