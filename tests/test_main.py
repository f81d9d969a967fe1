"""`python -m minicnn`, the report for bug reports."""

import builtins
import os
import subprocess
import sys
from unittest import mock

import pytest
import threadpoolctl

from minicnn import __main__, __version__
from minicnn.fast.native import library


def test_the_report_of_this_machine():
    out = subprocess.run([sys.executable, "-m", "minicnn"], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["minicnn"] == __version__
    assert {"python", "numpy", "scipy", "cpu", "blas", "native", "cupy", "gpus", "MINICNN_FAST"} <= set(lines)
    assert "threads" in lines["blas"]


def test_the_version_alone(capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"minicnn {__version__}\n"


def test_where_little_is_known(monkeypatch):
    monkeypatch.setattr(threadpoolctl, "threadpool_info", list)
    monkeypatch.setattr(__main__, "version", mock.Mock(side_effect=__main__.PackageNotFoundError))
    monkeypatch.setattr(__main__, "gpu_problem", lambda: None)
    monkeypatch.setattr(library, "problem", lambda: "there is no C compiler.")
    monkeypatch.setattr(__main__, "gpu_names", lambda: ["gpu:0 Some card, 80.0 GiB"])
    monkeypatch.setattr(builtins, "open", mock.Mock(side_effect=OSError))
    lines = dict(__main__.report())
    assert lines["cupy"] == lines["scipy"] == "not installed"
    assert "cannot be controlled" in lines["blas"]
    assert lines["native"] == "no kernels in C: there is no C compiler. NumPy does their work, more slowly"
    assert lines["gpus"] == "gpu:0 Some card, 80.0 GiB"


def test_the_kernels_in_c(monkeypatch):
    monkeypatch.setenv("CC", "some-cc -O2")
    monkeypatch.setattr(library, "problem", lambda: None)
    monkeypatch.setattr(library, "lanes", lambda dtype: 8)
    assert dict(__main__.report())["native"] == "kernels in C, built by some-cc -O2 for vectors of 8 float32"


@pytest.mark.parametrize(
    ("architecture", "flags", "told"),
    [
        ("Haswell", "fpu avx2 avx512f avx512cd avx512bw avx512dq avx512vl", True),
        ("Zen", "fpu avx2 avx512f avx512cd avx512bw avx512dq avx512vl avx512_bf16", True),
        ("SkylakeX", "fpu avx2 avx512f avx512cd avx512bw avx512dq avx512vl", False),
        ("Haswell", "fpu avx2", False),
        ("Haswell", "fpu avx2 avx512f", False),  # not all that these kernels need: they would crash
    ],
)
def test_a_blas_that_leaves_registers_half_empty(architecture, flags, told, monkeypatch):
    pool = {"user_api": "blas", "internal_api": "openblas", "version": "1", "num_threads": 2}
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [pool | {"architecture": architecture}])
    cpuinfo = f"processor\t: 0\nmodel name\t: A CPU\nflags\t\t: {flags}\n"
    monkeypatch.setattr(builtins, "open", mock.mock_open(read_data=cpuinfo))
    lines = dict(__main__.report())
    assert lines["cpu"].startswith("A CPU, ")
    assert ("OPENBLAS_CORETYPE=SkylakeX" in lines.get("tip", "")) == told


def test_nonsense_is_refused():
    for arguments, environment in ((["--nonsense"], {}), (["word"], {}), ([], {"MINICNN_THREADS": "many"})):
        out = subprocess.run(
            [sys.executable, "-m", "minicnn", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
        assert out.returncode == 2
        assert "error: " in out.stderr
        assert "Traceback" not in out.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
@pytest.mark.parametrize("line", ["minicnn", "experiments.reproduce --list"])
def test_a_reader_that_has_read_enough_is_no_error(line):
    """As with `| head`: no traceback, and the exit code of SIGPIPE."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", *line.split()], stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
