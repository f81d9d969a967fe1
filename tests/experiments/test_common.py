"""What the command lines share: errors as one line, and options that reach the library."""

import os
import sys

import pytest

from experiments.common import environment, get_device, run_main
from minicnn.backend import CPU, DeviceError
from minicnn.cuda import TF32


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("allocating 8 bytes"), "out of memory (allocating 8 bytes): lower --batch"),
        (DeviceError("gpu:0 has too little memory for conv2d"), "python -m experiments.x --batch 9 --device cpu"),
    ],
)
def test_running_out_of_memory_is_one_message(error, message, monkeypatch, capsys):
    def main(arguments):
        raise error

    monkeypatch.setattr(sys, "argv", ["x", "--batch", "9", "--device", "gpu"])
    with pytest.raises(SystemExit) as caught:
        run_main(main, "experiments.x")
    assert caught.value.code == 1
    assert message in capsys.readouterr().err


def test_tf32_is_off_until_asked_for(monkeypatch):
    monkeypatch.setenv(TF32, "0")
    assert get_device("cpu") is CPU
    assert environment(CPU)["tf32"] == "0"
    get_device("cpu", tf32=True)
    assert (os.environ[TF32], environment(CPU)["tf32"]) == ("1", "1")
