"""A network of ours run by other programs, exported in memory: do they see the same in the same images?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    try:
        import onnxruntime

        content = onnx_model(network.model, network.input_shape)
    except ImportError as error:
        raise UsageError(f"ONNX Runtime takes part with two packages: pip install onnx onnxruntime ({error})") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return _joined(session.run(None, {"images": x})[0] for x in _batches(network, images, done))


def with_pytorch(network: Classifier, images: np.ndarray, done: Done) -> np.ndarray:
    """The same of PyTorch."""
    try:
        import torch

        from minicnn.exchange.torch_module import torch_module
    except ImportError:
        raise UsageError("PyTorch takes part where it is installed: pip install torch") from None
    torch.set_num_threads(threads())
    module = torch_module(network.model, network.input_shape).eval()
    with torch.inference_mode():
        return _joined(module(torch.from_numpy(x)).numpy() for x in _batches(network, images, done))


RIVALS = {"onnx": with_onnx_runtime, "torch": with_pytorch}


def _batches(network: Classifier, images: np.ndarray, done: Done) -> Iterator[np.ndarray]:
    """Normalised images as (n, 3, H, W)."""
    for start in range(0, len(images), BATCH):
        x = network.normalise(images[start : start + BATCH])
        yield np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        done(len(x))


def _joined(logits: Iterator[np.ndarray]) -> np.ndarray:
    return np.asarray(softmax(np.concatenate(list(logits))))
