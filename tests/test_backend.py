"""Devices: names, moves, and one clear error for each way in which a GPU can be missing."""

import builtins
import re
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest

import minicnn
from minicnn import backend
from minicnn.backend import CPU, DeviceError
from tests.devices import STANDIN, on_devices

ROOT = Path(__file__).parents[1]


def fake_cupy(count=None, error=None, broken_library=None):
    """A module that answers as CuPy does on a machine in a given state."""

    class Card:
        def __init__(self, index):
            self.id = index

        def __enter__(self):
            entered.append(self.id)
            return self

        def __exit__(self, *_):
            pass

        def use(self):
            used.append(self.id)

        def synchronize(self):
            synchronized.append(self.id)

    def get_device_count():
        if error is not None:
            raise error
        return count

    def ones(n):
        if broken_library is not None:
            raise broken_library
        return np.ones(n)

    synchronized, entered, used = [], [], []
    cupy = types.ModuleType("cupy")
    cupy.ndarray = type("ndarray", (), {})
    cupy.ones, cupy.asarray, cupy.asnumpy = ones, np.asarray, np.asarray
    cupy.cuda = types.SimpleNamespace(
        Device=Card,
        runtime=types.SimpleNamespace(getDeviceCount=get_device_count),
        memory=types.SimpleNamespace(OutOfMemoryError=MemoryError),
    )
    cupy.synchronized, cupy.entered, cupy.used = synchronized, entered, used
    return cupy


@pytest.fixture
def no_gpus_known(monkeypatch):
    monkeypatch.setattr(backend, "_gpus", {})


def refuse_import(monkeypatch, error):
    """Importing cupy raises `error`."""
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        if name == "cupy":
            raise error
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(builtins, "__import__", importing)


def test_cpu_is_always_there():
    assert minicnn.device("cpu") is CPU
    assert minicnn.device(CPU) is CPU
    assert str(CPU) == "cpu"


def test_cupy_missing(monkeypatch):
    refuse_import(monkeypatch, ModuleNotFoundError("No module named 'cupy'", name="cupy"))
    assert minicnn.device("auto") is CPU
    with pytest.raises(DeviceError, match=r"CuPy is not installed\. Install .*cupy-cuda12x.*use device 'cpu'"):
        minicnn.device("gpu")


def test_cupy_is_installed_by_one_command_whatever_is_missing(monkeypatch, no_gpus_known):
    """And what it names are the packages of pyproject.toml."""
    said = []
    for error in (ModuleNotFoundError("No module named 'cupy'", name="cupy"), ImportError("libsomething.so")):
        with monkeypatch.context() as patch:
            refuse_import(patch, error)
            said.append(backend.gpu_problem())
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(count=1, broken_library=RuntimeError("no libnvrtc")))
    said.append(backend.gpu_problem())
    assert all(problem.endswith(f": {backend.INSTALL_CUPY}.") for problem in said)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert re.findall("'(.*?)'", backend.INSTALL_CUPY.replace("[ctk]", "")) == extras["gpu"] + extras["gpu13"]


def test_a_home_in_which_cupy_cannot_write(monkeypatch):
    refuse_import(monkeypatch, PermissionError(13, "Permission denied", "/home/ada/.cupy"))
    assert minicnn.device("auto") is CPU
    with pytest.raises(DeviceError, match=r"does not import \(.*Permission denied: '/home/ada/.cupy'\)"):
        minicnn.device("gpu")


def test_cupy_broken(monkeypatch):
    refuse_import(monkeypatch, ImportError("libsomething.so not found\nmore"))
    with pytest.raises(DeviceError, match=r"does not import \(libsomething.so not found\)"):
        minicnn.device("gpu")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"error": RuntimeError("cudaErrorNoDevice: no CUDA-capable device")}, "finds no CUDA device"),
        ({"error": RuntimeError("cudaErrorInsufficientDriver: ...")}, "driver is missing or too old"),
        ({"error": RuntimeError("")}, r"CUDA does not answer \(RuntimeError\)"),
        ({"count": 0}, "no CUDA device number 0; CuPy sees: none"),
        (
            {"count": 1, "broken_library": RuntimeError("no libnvrtc")},
            r"CUDA library does not load \(no libnvrtc\).*ctk",
        ),
    ],
    ids=["no device", "no driver", "no answer", "none counted", "no library"],
)
def test_cupy_without_a_working_gpu(monkeypatch, no_gpus_known, state, message):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**state))
    assert minicnn.device("auto") is CPU
    with pytest.raises(DeviceError, match=message):
        minicnn.device("gpu")


def test_a_gpu_that_works(monkeypatch, no_gpus_known):
    cupy = fake_cupy(count=2)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert minicnn.device("auto").name == "gpu:0"
    second = minicnn.device("gpu:1")
    assert second.name == "gpu:1"
    assert second.xp is cupy
    second.synchronize()
    assert cupy.synchronized == [1]
    assert cupy.used == [0, 1]  # each became the current one
    with second.active() as card:
        assert card.id == 1
    cupy.entered.clear()
    np.testing.assert_array_equal(second.put(np.arange(3)), [0, 1, 2])
    assert cupy.entered == [1]  # the copy is made on that card
    with pytest.raises(DeviceError, match=r"no CUDA device number 2; CuPy sees: gpu:0, gpu:1"):
        minicnn.device("gpu:2")


def test_names_of_gpus(monkeypatch):
    cupy = fake_cupy(count=1)
    cupy.cuda.runtime.getDeviceProperties = lambda i: {"name": b"Some card", "totalGlobalMem": 8 * 2**30}
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    assert backend.gpu_names() == ["gpu:0 Some card, 8.0 GiB"]


def test_an_array_of_cupy_is_recognised(monkeypatch, no_gpus_known):
    cupy = fake_cupy(count=2)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(backend, "_device_of_type", dict(backend._device_of_type))
    x = cupy.ndarray()
    x.data = types.SimpleNamespace(device_id=1)
    assert backend.is_array(x)
    assert backend.device_of(x).name == "gpu:1"
    assert backend.array_module(x) is cupy


def test_this_machine_gives_a_device_or_a_reason():
    """The real CuPy, whatever the machine."""
    if backend.gpu_problem() is None:
        assert minicnn.device("auto").name == "gpu:0"
    else:
        with pytest.raises(DeviceError, match="use device 'cpu'"):
            minicnn.device("gpu")


@pytest.mark.parametrize("name", ["GPU", "gpu:", "gpu:x", "gpu:-1", "cuda", "", "cpu:0"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=r"not a device; use 'auto', 'cpu', 'gpu' or 'gpu:N'"):
        minicnn.device(name)


@on_devices
def test_moving_there_and_back(device):
    x = np.arange(6.0).reshape(2, 3)
    there = minicnn.to_device(x, device)
    assert minicnn.device_of(there).name == device.name
    assert minicnn.array_module(there) is device.xp
    assert minicnn.to_device(there, device) is there
    np.testing.assert_array_equal(minicnn.to_host(there), x)
    np.testing.assert_array_equal(minicnn.to_device(there, CPU), x)


def test_what_is_not_an_array():
    for thing in ([1.0], 1.0, None, "x"):
        assert not backend.is_array(thing)
        with pytest.raises(TypeError, match="expected an array, got"):
            minicnn.device_of(thing)


def test_a_memory_mapped_array_is_a_host_array(tmp_path):
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(3,))
    assert minicnn.device_of(x) is CPU


def test_a_numpy_scalar_is_a_host_array():
    assert backend.is_array(np.float32(1))
    assert minicnn.device_of(np.ones(2).sum()) is CPU


def test_standin_is_another_device():
    assert minicnn.device_of(STANDIN.put(np.ones(2))) is STANDIN
