"""A network of ours run by other programs, exported in memory: do they see the same in the same images?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

import numpy as np

from experiments.cli.app import UsageError
from minicnn.exchange import onnx_model
from minicnn.models import Classifier
from minicnn.ops import softmax
from minicnn.parallel import threads

BATCH = 250  # images
Done = Callable[[int], object]


def with_onnx_runtime(network: Classifier, images: np.ndarray, done: Done) -> np.ndarray:
    """The softmax outputs (N, classes) of ONNX Runtime for images (N, side, side, 3) of bytes."""
    import onnxruntime

    content = onnx_model(network.model, network.input_shape)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return _joined(session.run(None, {"images": x})[0] for x in _batches(network, images, done))


def with_pytorch(network: Classifier, images: np.ndarray, done: Done) -> np.ndarray:
    """The same of PyTorch."""
    import torch

    from minicnn.exchange.torch_module import torch_module

    torch.set_num_threads(threads())
    module = torch_module(network.model, network.input_shape).eval()
    with torch.inference_mode():
        return _joined(module(torch.from_numpy(x)).numpy() for x in _batches(network, images, done))


RIVALS = {"onnx": with_onnx_runtime, "torch": with_pytorch}
PACKAGES = {"onnx": ("onnx", "onnxruntime"), "torch": ("torch",)}


def check_packages(rivals: Sequence[str]) -> None:
    """UsageError if a program is not installed, which is to be said before anything is computed."""
    for rival in rivals:
        try:
            for package in PACKAGES[rival]:
                import_module(package)
        except ImportError as error:
            needed = " ".join(PACKAGES[rival])
            raise UsageError(f"--against {rival} needs what is not installed: pip install {needed} ({error})") from None


def _batches(network: Classifier, images: np.ndarray, done: Done) -> Iterator[np.ndarray]:
    """Normalised images as (n, 3, H, W)."""
    for start in range(0, len(images), BATCH):
        x = network.normalise(images[start : start + BATCH])
        yield np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        done(len(x))


def _joined(logits: Iterator[np.ndarray]) -> np.ndarray:
    return np.asarray(softmax(np.concatenate(list(logits))))
