"""Files of networks: what is written can be read by the packages that they are for, and by us."""

import numpy as np
import pytest
from safetensors import safe_open

from minicnn.data.dataset import DataError
from minicnn.exchange import load_pytorch_state, pytorch_state, read_arrays, write
from minicnn.models import vgg
from tests.exchange.networks import with_random_state

SHAPE = (32, 32, 3)


@pytest.fixture(scope="module")
def model():
    return with_random_state(vgg("crelu", (1,), scale=0.05))


def test_safetensors(tmp_path, model):
    path = tmp_path / "model.safetensors"
    write(model, SHAPE, path, {"classes": '["cat"]'})
    with safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt", "classes": '["cat"]'}
        assert file.get_tensor("conv2.weight").shape == (3, 4, 3, 3)
    other = with_random_state(vgg("crelu", (1,), scale=0.05), seed=3)
    load_pytorch_state(other, read_arrays(path), SHAPE)
    assert all(np.array_equal(other.state_dict()[name], a) for name, a in model.state_dict().items())


def test_npz(tmp_path, model):
    np.savez(tmp_path / "model.npz", **pytorch_state(model, SHAPE))
    assert read_arrays(tmp_path / "model.npz")["fc15.weight"].shape == (10, 26)


def test_a_missing_package_is_named(tmp_path, model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(DataError, match="model.onnx needs the package onnx: pip install onnx"):
        write(model, SHAPE, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.txt", b"", "weights are read from .npz, .safetensors, .pth, .pt files"),
        ("missing.npz", None, "there is no file"),
        ("cut.npz", b"PK\x03\x04", "damaged or not what its name says"),
        ("cut.safetensors", b"\x08", "damaged or not what its name says"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_arrays(tmp_path / name)


def test_unknown_endings_are_refused(tmp_path, model):
    with pytest.raises(DataError, match="networks are written to .onnx, .safetensors, .pt, .pth files"):
        write(model, SHAPE, tmp_path / "model.h5")


def test_a_missing_folder_is_named(tmp_path, model):
    with pytest.raises(DataError, match="there is no folder .*nowhere; make it first"):
        write(model, SHAPE, tmp_path / "nowhere" / "model.safetensors")
