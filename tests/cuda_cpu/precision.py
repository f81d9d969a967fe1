"""What products of rounded factors do to the paper's networks: the errors of --precision, without a GPU.

    MINICNN_CUDA_CPU_POOL=1 python -m tests.cuda_cpu.precision docs/gpu/precision.csv

The networks that come with minicnn, by both convolutions, in every precision; compared with float64.  The kernels are
those of a GPU, and products are computed as cuBLAS is told: factors rounded to TF32 or bf16 (cublas.c), sums in
float32.

outputs             of 16 test images: |y - y*| / |y*|, of all outputs together
probabilities       of these images: the largest change of one
gradient            of a training step with 16 training images, of all parameters together: |g - g*| / |g*|
gradient, start     the same, of the network before its training

The last row of a network is the scale for gradients: how far that of 16 other images is from it.
"""

import os
import sys
from pathlib import Path

import numpy as np

from tests import cuda_cpu

IMAGES = 16
NETWORKS = ("relu-base", "crelu-half")
ALGORITHMS = {"winograd": "Winograd", "im2col": "im2col"}  # what MINICNN_CONV calls them, and documents


def main(path):
    assert not cuda_cpu.GUARDED, "set MINICNN_CUDA_CPU_POOL=1: without CuPy's pool, no memory is freed here"
    cuda_cpu.install()
    from experiments.tables.table import Table, write_csv
    from minicnn.data.catalogue import load
    from minicnn.models.pretrained import FOLDER, pretrained, read_card

    columns, rows, cifar = ["network", "outputs", "probabilities", "gradient", "gradient, start"], [], load("cifar10")
    for name in NETWORKS:
        network, label = pretrained(name), read_card(FOLDER / f"{name}.npz").label
        start = read_card(FOLDER / f"{name}.npz").build().initialise(0)
        test = network.normalise(cifar.test_images[:IMAGES])
        batch, other = (
            (network.normalise(cifar.train_images[i : i + IMAGES]), cifar.train_labels[i : i + IMAGES])
            for i in (0, IMAGES)
        )
        os.environ["MINICNN_CONV"] = "im2col"
        exact = outputs(network.model, test, "float64")
        gradients = [(model, gradient(model, *batch, "float64")) for model in (network.model, start)]
        for algorithm, words in ALGORITHMS.items():
            for precision in ("float32", "tf32", "bf16"):
                os.environ |= {"MINICNN_CONV": algorithm, "MINICNN_PRECISION": precision}
                y = outputs(network.model, test, "float32")
                errors = [error(gradient(model, *batch, "float32"), g) for model, g in gradients]
                change = np.abs(softmax(y) - softmax(exact)).max()
                rows.append([f"{label}, {words}, {precision}", error(y, exact), change, *errors])
                print(*rows[-1], flush=True)
        rows.append([f"{label}, other images", None, None])
        rows[-1] += [error(gradient(model, *other, "float64"), g) for model, g in gradients]
        print(*rows[-1], flush=True)
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(write_csv([Table(columns, rows)]))


def outputs(model, images, dtype):
    from minicnn import backend

    gpu = backend.device("gpu")
    return gpu.get(model.to(gpu, dtype)(gpu.put(images.astype(dtype))).data).astype(np.float64)


def gradient(model, images, labels, dtype):
    """Of the loss of a training step, with dropout: of all parameters, as one vector."""
    from minicnn import Stream, backend, ops
    from minicnn.autodiff import Tape

    gpu = backend.device("gpu")
    model.to(gpu, dtype)
    with Tape() as tape:
        logits = model(gpu.put(images.astype(dtype)), train=True, stream=Stream(0))
        loss = ops.softmax_cross_entropy(logits, gpu.put(labels))
    tape.backward(loss)
    return np.concatenate([gpu.get(p.grad).ravel().astype(np.float64) for p in model.parameters()])


def softmax(y):
    powers = np.exp(y - y.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def error(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


if __name__ == "__main__":
    main(*sys.argv[1:])
