"""`python -m minicnn`: what this machine computes with.  Put it into bug reports."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from minicnn import __version__
from minicnn.backend import gpu_names, gpu_problem
from minicnn.console import reader_gone
from minicnn.fast.native import library
from minicnn.parallel import threads, usable_cores


def report() -> list[tuple[str, str]]:
    """(what, value) lines."""
    return [
        ("minicnn", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()}) on {platform.platform()}"),
        *((name, _version(name)) for name in ("numpy", "scipy", "pillow", "threadpoolctl", "tqdm", "matplotlib")),
        ("cpu", f"{_cpu_name()}, {len(usable_cores())} of {os.cpu_count()} cores usable"),
        *(("blas", line) for line in _blas()),
        ("threads", f"{threads()} workers, each with one BLAS thread (MINICNN_THREADS)"),
        ("native", _native()),
        ("cupy", _cupy()),
        ("gpus", _gpus()),
        ("MINICNN_FAST", os.environ.get("MINICNN_FAST", "not set (fast versions on)")),
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _blas() -> list[str]:
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [
        f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads, {pool.get('architecture', '?')}"
        for pool in pools
    ] or ["not recognised by threadpoolctl: its threads cannot be controlled"]


def _native() -> str:
    """About the kernels in C, which are built now if they never were."""
    problem = library.problem()
    if problem:
        return f"no kernels in C: {problem} NumPy does their work, more slowly"
    return f"kernels in C, built by {' '.join(library.compiler())} for vectors of {library.lanes('f')} float32"


def _cupy() -> str:
    found = [
        f"{name} {_version(name)}"
        for name in ("cupy-cuda12x", "cupy-cuda13x", "cupy")
        if _version(name) != "not installed"
    ]
    return ", ".join(found) or "not installed"


def _gpus() -> str:
    problem = gpu_problem()
    return f"none: {problem}" if problem else "; ".join(gpu_names())


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(prog="python -m minicnn", description=__doc__)
    p.add_argument("--version", action="version", version=f"minicnn {__version__}")
    p.parse_args(arguments)
    try:
        lines = report()
    except ValueError as error:  # of MINICNN_THREADS
        p.error(str(error))
    try:
        for what, value in lines:
            print(f"{what:13} {value}")
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
