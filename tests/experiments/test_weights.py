"""Filters from files of other programs: layouts, kinds of files, and what is refused."""

import numpy as np
import pytest

from experiments.analyses.weights import read_filters
from experiments.cli.app import UsageError


def test_layouts_are_found_or_asked_for(tmp_path):
    w = np.random.default_rng(0).normal(size=(5, 5, 3, 8))
    np.savez(tmp_path / "hwio.npz", conv1_w=w, conv1_b=np.zeros(8))
    np.savez(tmp_path / "oihw.npz", **{"conv1.weight": w.transpose(3, 2, 0, 1)})
    for name in ("hwio", "oihw"):
        found = read_filters(tmp_path / f"{name}.npz")
        assert list(found) == ["conv1"]
        np.testing.assert_array_equal(found["conv1"], w)
    np.savez(tmp_path / "both.npz", conv=np.ones((8, 8, 3, 3)))
    with pytest.raises(UsageError, match="fit both layouts; say --layout"):
        read_filters(tmp_path / "both.npz")
    assert read_filters(tmp_path / "both.npz", "oihw")["conv"].shape == (3, 3, 8, 8)
    np.savez(tmp_path / "none.npz", conv=np.ones((8, 3, 1, 7)))
    with pytest.raises(UsageError, match="fit neither layout"):
        read_filters(tmp_path / "none.npz")


def test_pytorch_files(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({"features.0.weight": torch.ones(4, 3, 5, 5)}, tmp_path / "net.pth")
    assert read_filters(tmp_path / "net.pth")["features.0"].shape == (5, 5, 3, 4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.npz", b"PK\x03\x04 and then nothing", "damaged or not what its name says"),
        ("net.onnx", b"", "weights are read from"),
        ("net.safetensors", b"\x08", "safetensors"),
        ("cut.pth", b"\x80\x02", "damaged|needs the package torch"),
    ],
)
def test_files_that_are_no_weights(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_filters(tmp_path / name)


def test_arrays_that_are_no_filters(tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        read_filters(tmp_path / "missing.npz")
    np.savez(tmp_path / "flat.npz", w=np.ones((3, 3)))
    with pytest.raises(UsageError, match="no array of four axes among w"):
        read_filters(tmp_path / "flat.npz")
    np.savez(tmp_path / "nan.npz", conv_w=np.full((3, 3, 1, 4), np.nan))
    with pytest.raises(UsageError, match="NaN or inf in conv"):
        read_filters(tmp_path / "nan.npz")
