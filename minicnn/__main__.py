"""`python -m minicnn`: what this machine computes with.  Put it into bug reports."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

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
        *(("tip", line) for line in _tips()),
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


def _of_cpu(what: str) -> str:
    """What Linux says of the first core under this name; nothing where it says nothing."""
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(what)), "")
    except OSError:
        return ""


def _cpu_name() -> str:
    return _of_cpu("model name") or platform.processor() or platform.machine()


def _blas() -> list[str]:
    return [
        f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads, {pool.get('architecture', '?')}"
        for pool in _pools()
    ] or ["not recognised by threadpoolctl: its threads cannot be controlled"]


def _pools() -> list[dict[str, Any]]:
    """What threadpoolctl knows of each BLAS."""
    from threadpoolctl import threadpool_info

    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}  # what OpenBLAS's kernels for SkylakeX need


def _tips() -> list[str]:
    """OpenBLAS takes its kernels for registers of 32 bytes where it does not know a processor that has those of 64."""
    narrow = any(
        pool["internal_api"] == "openblas" and pool.get("architecture") in ("Haswell", "Zen") for pool in _pools()
    )
    if not narrow or not AVX512.issubset(_of_cpu("flags").split()):
        return []
    return [
        "OpenBLAS fills only half of each register of this processor; "
        "OPENBLAS_CORETYPE=SkylakeX, set before Python starts, lets it fill them"
    ]


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
