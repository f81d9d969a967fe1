"""Files of networks and of weights: .onnx, .safetensors, .pt and .pth (PyTorch), .npz (NumPy).

Nothing is ever unpickled: .npz is read with allow_pickle=False, PyTorch's files with weights_only=True.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from minicnn import nn
from minicnn.checkpoint import atomic_write_bytes
from minicnn.data.dataset import DataError
from minicnn.exchange.layout import pytorch_state
from minicnn.exchange.onnx_model import onnx_model

Where = str | os.PathLike[str]
CHECKPOINTS = ("state_dict", "model_state_dict", "model")  # where checkpoints of PyTorch have the weights
PACKAGES = {".onnx": "onnx", ".safetensors": "safetensors", ".pt": "torch", ".pth": "torch"}


def write(
    model: nn.Sequential, input_shape: Sequence[int], path: Where, about: Mapping[str, str] | None = None
) -> None:
    """Write a network for other programs; the ending of the name says which.

    .onnx           the network: what it computes, and its weights
    .safetensors    its weights in PyTorch's layout, by name
    .pt, .pth       the same as PyTorch saves them: torch_module(...).load_state_dict(torch.load(path)) takes them

    about    more that the file is to say about the network (.onnx, .safetensors)
    """
    path = Path(path)
    _check(path, SUFFIXES, "networks are written to")
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    atomic_write_bytes(path, WRITERS[path.suffix](model, input_shape, dict(about or {})))


def _safetensors(model: nn.Sequential, input_shape: Sequence[int], about: dict[str, str]) -> bytes:
    from safetensors.numpy import save

    return save(pytorch_state(model, input_shape), metadata={"format": "pt", **about})


def _pt(model: nn.Sequential, input_shape: Sequence[int], about: dict[str, str]) -> bytes:
    import torch

    from minicnn.exchange.torch_module import torch_module

    content = io.BytesIO()
    torch.save(torch_module(model, input_shape).state_dict(), content)
    return content.getvalue()


def _onnx(model: nn.Sequential, input_shape: Sequence[int], about: dict[str, str]) -> bytes:
    return onnx_model(model, input_shape, about=about)


WRITERS: dict[str, Callable[[nn.Sequential, Sequence[int], dict[str, str]], bytes]] = {
    ".onnx": _onnx, ".safetensors": _safetensors, ".pt": _pt, ".pth": _pt,
}  # fmt: skip
SUFFIXES = tuple(WRITERS)


def read_arrays(path: Where) -> dict[str, np.ndarray]:
    """All arrays of a file by name, as they are: .npz, .safetensors, .pt, .pth."""
    path = Path(path)
    _check(path, tuple(READERS), "weights are read from")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        return READERS[path.suffix](path)
    except DataError:
        raise
    except Exception as error:  # a damaged file makes the readers raise almost anything
        raise DataError(f"{path} is damaged or not what its name says ({type(error).__name__})") from None


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}  # others are bytes


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return dict(load_file(path))


def _read_pt(path: Path) -> dict[str, np.ndarray]:
    import torch

    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise DataError(f"{path} is damaged, or holds more than weights: save module.state_dict() there") from None
    inside = [loaded[name] for name in CHECKPOINTS if isinstance(loaded.get(name), dict)]
    loaded = inside[0] if inside else loaded
    tensors = {name: value for name, value in loaded.items() if isinstance(value, torch.Tensor)}
    wide = {name: t if t.dtype == torch.float64 else t.float() for name, t in tensors.items()}  # NumPy has no bfloat16
    return {name: t.numpy() for name, t in wide.items()}


READERS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    ".npz": _read_npz, ".safetensors": _read_safetensors, ".pth": _read_pt, ".pt": _read_pt,
}  # fmt: skip


def _check(path: Path, known: Sequence[str], what: str) -> None:
    """The ending is known, and the package that it needs is there."""
    if path.suffix not in known:
        raise DataError(f"{path}: {what} {', '.join(known)} files")
    package = PACKAGES.get(path.suffix)
    try:
        if package is not None:
            import_module(package)
    except ImportError:
        raise DataError(f"{path} needs the package {package}: pip install {package}") from None
