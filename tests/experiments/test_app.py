"""What the command lines share: errors as one line, and options that reach the library."""

import os
import platform
import re
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pytest

from experiments.cli import app
from experiments.cli.app import StopSignal, UsageError, command, counted, duration, get_device
from experiments.cli.environment import commit, environment, processor
from minicnn.backend import CPU, DeviceError
from minicnn.cluster import Alone
from minicnn.precision import PRECISION
from tests.devices import STANDIN, standin_with_kernels


@pytest.mark.parametrize(
    ("started", "cifar"), [("/bin/minicnn", "minicnn cifar"), ("x", "python -m experiments.cifar")]
)
def test_commands_are_named_as_this_one_was_started(started, cifar, monkeypatch, capsys):
    """`minicnn x` works where `python -m experiments.x` finds another folder called experiments."""

    def main(arguments):
        parser = app.argument_parser("experiments.cifar", "Like this:\n\n  python -m experiments.cifar --act relu")
        assert f"\n  {cifar} --act relu\n" in parser.format_help()
        raise UsageError("first mpiexec -n 2 python -m experiments.cifar, then python -m minicnn")

    monkeypatch.setattr("sys.argv", [started])
    with pytest.raises(SystemExit):
        app.run_main(main, "experiments.cifar")
    assert capsys.readouterr().err == f"error: first mpiexec -n 2 {cifar}, then python -m minicnn\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("allocating 8 bytes"), "out of memory (allocating 8 bytes): lower --batch"),
        (DeviceError("gpu:0 has too little memory for conv2d"), "python -m experiments.x --batch 9 --device cpu"),
    ],
)
def test_running_out_of_memory_is_one_message(error, message, ends):
    def main(arguments):
        raise error

    code, said = ends(main, "experiments.x", "--batch", "9", "--device", "gpu")
    assert code == 1
    assert message in said


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("/proc/x", "cannot write to /proc/x/y: choose another --out"),
        ("/proc/x/y/checkpoint.npz", "cannot write to /proc/x/y: choose another --out"),
        ("/proc/other", "[Errno 2] no such file: '/proc/other'"),
    ],
)
def test_a_folder_that_cannot_be_made(ends, file, message):
    def main(arguments):
        raise FileNotFoundError(2, "no such file", file)

    assert ends(main, "experiments.x", "--batch", "9", "--out", "/proc/x/y") == (1, f"error: {message}\n")
    assert ends(main, "experiments.x", "--batch", "9", "--out", "/proc")[1].startswith("error: [Errno 2]")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MINICNN_THREADS", "MINICNN_THREADS must be a positive integer, got 'many'"),
        ("MINICNN_CONV", "MINICNN_CONV must be one of textbook, im2col, winograd, taps, got 'many'"),
        ("MINICNN_PRECISION", "MINICNN_PRECISION must be one of float32, tf32, bf16, got 'many'"),
    ],
)
def test_a_variable_that_makes_no_sense(monkeypatch, ends, name, message):
    monkeypatch.setenv(name, "many")
    assert ends(lambda arguments: 0, "experiments.x") == (2, f"error: {message}\n")


def test_products_are_exact_until_asked_otherwise(monkeypatch):
    monkeypatch.delenv(PRECISION, raising=False)
    assert get_device("cpu") is CPU
    assert PRECISION not in os.environ
    assert environment(CPU)["precision"] == "float32"
    monkeypatch.setenv(PRECISION, "float32")  # so that it is put back
    with standin_with_kernels() as gpu:
        for name in ("tf32", "bf16", "float32"):
            monkeypatch.setattr("minicnn.device", lambda name: gpu)
            assert get_device("gpu", products=name) is gpu
            assert (os.environ[PRECISION], environment(gpu)["precision"]) == (name, name)


def test_products_on_a_cpu(monkeypatch, capsys):
    """float32, or bf16 where there are kernels in C; a processor that is slow at it is told apart."""
    monkeypatch.setenv(PRECISION, "float32")
    monkeypatch.delenv("MINICNN_FAST", raising=False)
    assert get_device("cpu", products="float32") is CPU
    with pytest.raises(UsageError, match="--precision tf32 is for a GPU: on a CPU, choose float32 or bf16"):
        get_device("cpu", products="tf32")
    monkeypatch.setattr("minicnn.fast.native.library.bf16_problem", lambda: "there is no C compiler.")
    with pytest.raises(UsageError, match="--precision bf16 on a CPU needs the kernels in C: there is no C compiler."):
        get_device("cpu", products="bf16")
    monkeypatch.setattr("minicnn.fast.native.library.bf16_problem", lambda: None)
    for fast, said in ((True, ""), (False, "no instructions for bf16: --precision float32 is faster")):
        monkeypatch.setattr("minicnn.fast.native.library.bf16_is_fast", lambda fast=fast: fast)
        assert get_device("cpu", products="bf16") is CPU
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wished", "native", "bf16", "recorded"),
    [
        ("bf16", None, None, "bf16"),
        ("bf16", None, "it was not built", "float32"),
        ("bf16", "switched off", "switched off", "float32"),
        ("tf32", None, None, "float32"),
    ],
)
def test_what_computed_is_recorded_and_not_what_was_wished_for(monkeypatch, wished, native, bf16, recorded):
    monkeypatch.delenv("MINICNN_FAST", raising=False)
    monkeypatch.setenv(PRECISION, wished)
    monkeypatch.setattr("experiments.cli.environment.problem", lambda: native)
    monkeypatch.setattr("experiments.cli.environment.bf16_problem", lambda: bf16)
    assert environment(CPU)["precision"] == recorded


def test_whether_kernels_in_c_computed_a_result_is_kept(monkeypatch):
    """On the CPU, if they are there and neither switch says no."""
    monkeypatch.delenv("MINICNN_FAST", raising=False)
    monkeypatch.setattr("experiments.cli.environment.problem", lambda: None)
    assert environment(CPU)["native"] is True
    assert environment(STANDIN)["native"] is False
    monkeypatch.setenv("MINICNN_FAST", "0")
    assert environment(CPU)["native"] is False
    monkeypatch.delenv("MINICNN_FAST")
    monkeypatch.setattr("experiments.cli.environment.problem", lambda: "there is no C compiler.")
    assert environment(CPU)["native"] is False


def test_a_processor_is_named_with_the_instructions_that_matter(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("model name\t: Fast\nflags\t: sse avx2 avx512_bf16 avx2x\n\nmodel name\t: Second\nflags\t: avx2\n")
    assert processor(file) == "Fast (avx2, avx512_bf16)"
    file.write_text("processor\t: 0\nFeatures\t: fp asimd bf16\n")
    assert processor(file) == f"{platform.machine()} (asimd, bf16)"
    file.write_text("nonsense")
    assert processor(file) == f"{platform.machine()} (no vector instructions that we know)"
    assert processor(tmp_path / "none") in (platform.processor(), platform.machine())
    assert environment(CPU)["processor"] == processor()


class Ranks(Alone):
    """Rank `rank` of three; the other two have these devices."""

    size = local_size = 3

    def __init__(self, rank, *others):
        self.rank = self.local_rank = rank
        self.others = others

    def gather(self, value):
        return [value, *self.others]


@pytest.fixture
def two_cards(monkeypatch):
    """Two GPUs, the first one unusable; gives the list of GPUs that were touched."""
    touched = []

    def problem(index=0):
        touched.append(index)
        return "it is taken" if index == 0 else None

    monkeypatch.setattr(app, "gpu_count", lambda: 2)
    monkeypatch.setattr(app, "gpu_problem", problem)
    monkeypatch.setattr(app.minicnn, "device", lambda name: SimpleNamespace(name=name))
    return touched


def test_a_rank_looks_at_its_own_gpu_alone(two_cards):
    """Touching a GPU takes memory on it: with eight ranks, the first card would pay eight times."""
    assert get_device("auto", Ranks(1, "gpu:1", "gpu:1")).name == "gpu:1"
    assert two_cards == [1]
    assert get_device("gpu", Ranks(2, "gpu:1", "gpu:1")).name == "gpu:0"
    assert get_device("cpu", Ranks(1, "cpu", "cpu")).name == "cpu"


def test_ranks_on_a_gpu_and_on_the_cpu_do_not_train_together(two_cards):
    assert get_device("auto", Ranks(0, "cpu", "cpu")).name == "cpu"
    with pytest.raises(UsageError, match="some ranks have a working GPU and others have none"):
        get_device("auto", Ranks(0, "gpu:1", "cpu"))


def test_a_command_line_can_be_copied():
    assert command("a.b", ["--out", "my runs"]) == "python -m a.b --out 'my runs'"
    assert command("a.b", ["--x"], ["mpiexec", "-n", "4"]) == "mpiexec -n 4 python -m a.b --x"


def test_durations():
    assert [duration(s) for s in (45, 200, 3720)] == ["45 s", "3 min 20 s", "1 h 02 min"]


def test_the_second_ctrl_c_stops_at_once(capsys):
    with StopSignal() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert "stopping after this step" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_a_run_says_of_which_commit_it_is(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True)

    assert commit(tmp_path / "none") == "unknown"
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    git("tag", "v1")
    found = commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{12}", found)
    (tmp_path / "file").write_text("two")
    commit.cache_clear()
    assert commit(tmp_path) == f"{found}-dirty"


def test_one_is_not_a_plural():
    assert [counted(n, "epoch") for n in (0, 1, 2)] == ["0 epochs", "1 epoch", "2 epochs"]
    assert [counted(n, "analysis", "analyses") for n in (1, 3)] == ["1 analysis", "3 analyses"]
