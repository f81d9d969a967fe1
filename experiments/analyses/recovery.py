"""How well images are reconstructed: from conv1 of a CIFAR network, from 11x11 filters, after max pooling.

Each measurement is a function of `Inputs` that returns a dict: "lines" to print, the numbers, and for some "curves" to
draw, {label: errors by step}.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from experiments.analyses.weights import read_filters
from experiments.cli.app import UsageError
from minicnn.ops.activation import crelu
from minicnn.ops.conv import conv2d
from minicnn.theory.frames import frame_bounds, layer_bounds
from minicnn.theory.joint import invert_jointly
from minicnn.theory.operators import Convolution, TileInverse
from minicnn.theory.piecewise import Network, Stage
from minicnn.theory.pooled_maps import PooledConvolution
from minicnn.theory.reconstruction import Layer, features, invert, least_squares, psnr, ratio, responses

GAUSSIAN_SIZE, ALEXNET_SIZE = 227, 224  # of the pictures
JOINT_WIDTHS = {"crelu": (48, 48, 96, 96), "relu": (96, 96, 192, 192)}  # filters of conv1 to conv4
JOINT_SCALES, JOINT_STEPS = (0.25, 0.5, 1.0), 30


@dataclass(frozen=True)
class Inputs:
    """CIFAR-10 test images (N, 32, 32, 3) of mean 0 and variance 1 in each channel, float64; AlexNet's filters."""

    images: np.ndarray
    alexnet: np.ndarray  # (11, 11, 3, F), or empty
    seed: int

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def picture(self, size: int) -> np.ndarray:
        """CIFAR images side by side, cut to (1, size, size, 3)."""
        n = -(-size // 32)
        tiles = np.resize(self.images, (n, n, 32, 32, 3))
        return tiles.transpose(0, 2, 1, 3, 4).reshape(1, 32 * n, 32 * n, 3)[:, :size, :size]


def conv1(inputs: Inputs) -> dict[str, Any]:
    """CIFAR images from conv1 + CReLU features, window by window (Algorithm 1).

    48 Gaussian filters of 3x3x3 with a bias, and filters with condition numbers up to 1e4 (float32) and 1e10 (float64).
    """
    rng = inputs.generator()
    w, b = rng.normal(size=(3, 3, 3, 48)), rng.normal(size=48)
    left, right = (np.linalg.qr(rng.normal(size=(n, 27)))[0] for n in (27, 48))
    found: dict[str, Any] = {"lines": []}
    for dtype in (np.float32, np.float64):
        x, eps = inputs.images.astype(dtype), float(np.finfo(dtype).eps)
        error = _largest_error(x, w, b)
        multiples = []
        for digits in range(0, 5 if dtype is np.float32 else 11, 2):
            scales = 10.0 ** (-digits * np.linspace(0, 1, 27))
            filters = ((left * scales) @ right.T).reshape(3, 3, 3, 48).astype(dtype)
            lower, upper, rank = frame_bounds(filters.reshape(27, 48))
            assert rank == 27
            multiples.append(_largest_error(x[:100], filters, b) / (eps * sqrt(upper / lower)))
        name = np.dtype(dtype).name
        found[name] = {"gaussian": error, "largest error / (eps cond)": max(multiples)}
        found["lines"].append(
            f"{name}: largest ||x - x'||/||x|| of {len(x)} images {error:.1e} (48 Gaussian filters); at most "
            f"{max(multiples):.2f} eps cond(W) with drawn condition numbers"
        )
    return found


def _largest_error(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> float:
    """Over images x (N, 32, 32, 3) that Algorithm 1 recovers from a layer with pad 1, in the precision of x."""
    layer = Layer(w.astype(x.dtype), b.astype(x.dtype), 1, 1)
    return float(ratio(x, invert(features(x, [layer]), [layer], 32)).max())


def gaussian(inputs: Inputs) -> dict[str, Any]:
    """A 227x227 picture from 96 Gaussian 11x11 filters with stride 4: by region, and all windows at once."""
    w = inputs.generator().normal(size=(11, 11, 3, 96)).astype(np.float32)
    x = inputs.picture(GAUSSIAN_SIZE).astype(np.float32)
    return _recover(w, x, stride=4, pad=0, plain=200, tiled=((np.float32, 25),))


def alexnet(inputs: Inputs) -> dict[str, Any]:
    """A 224x224 picture from conv1 of an AlexNet: by region, and all windows at once."""
    x = inputs.picture(ALEXNET_SIZE).astype(np.float32)
    w = inputs.alexnet.astype(np.float32)
    return _recover(w, x, stride=4, pad=2, plain=400, tiled=((np.float32, 75), (np.float64, 200)))


def conditioning(inputs: Inputs) -> dict[str, Any]:
    """The frame bounds and the condition number of conv1 of an AlexNet on 224x224 images."""
    bounds = layer_bounds(Convolution(inputs.alexnet, ALEXNET_SIZE, stride=4, pad=2))
    condition = sqrt(bounds.upper / bounds.lower) if bounds.lower else inf
    return {
        "condition number of T": condition,
        **bounds._asdict(),
        "lines": [
            f"condition number of T: {condition:.0f} (eigenvalues of T' T from {bounds.lower:.3g} to "
            f"{bounds.upper:.3g}, the lower to {bounds.lower_error:.0e})"
        ],
    }


def pooling(inputs: Inputs) -> dict[str, Any]:
    """Ratios after conv2 + CReLU + 3x3 max pooling with random filters: Table S1's random column, on images.

    The regions are 5x5 patches of conv1 + CReLU features, 96 channels; conv1 and conv2 have 48 Gaussian filters.
    """
    rng = inputs.generator()
    w1, w2 = rng.normal(size=(3, 3, 3, 48)), rng.normal(size=(3, 3, 96, 48))
    layer = PooledConvolution(w2, pad=1)
    start = perf_counter()
    x = crelu(conv2d(inputs.images, w1, pad=1))
    ratios = layer.ratios(x)  # (N, 16, 16)
    seconds = perf_counter() - start
    inside = ratios[:, 1:-1, 1:-1]
    return {
        "mean": float(ratios.mean()),
        "mean inside": float(inside.mean()),
        "standard deviation": float(inside.std()),
        "lines": [
            f"{ratios.size:,} regions of {len(x)} images in {seconds:.0f} s: mean {ratios.mean():.4f}; away from the "
            f"border {inside.mean():.4f}, standard deviation {inside.std():.4f}.  Table S1: 0.99"
        ],
    }


def _recover(
    w: np.ndarray, x: np.ndarray, *, stride: int, pad: int, plain: int, tiled: Sequence[tuple[Any, int]]
) -> dict[str, Any]:
    """x (1, H, W, C) from its CReLU features: by region, by `plain` steps, and by `tiled` steps with a TileInverse."""
    found: dict[str, Any] = {"lines": [], "curves": {}}

    def note(what: str, estimate: np.ndarray, start: float) -> None:
        error, decibels = float(ratio(x, estimate)[0]), float(psnr(x, estimate)[0])
        took = perf_counter() - start
        found["lines"].append(f"{what}: error {error:.1e}, PSNR {decibels:.0f} dB, {took:.1f} s")
        found[what] = {"error": error, "psnr": decibels, "seconds": took}

    start = perf_counter()
    layer = Layer(w, None, stride, pad)
    note("by region", invert(features(x, [layer]), [layer], x.shape[1:3]), start)
    for dtype, steps, tiles in ((np.float32, plain, False), *((d, n, True) for d, n in tiled)):
        start = perf_counter()
        conv = Convolution(w.astype(dtype), x.shape[1:3], stride=stride, pad=pad)
        estimate, curve = _iterate(conv, x.astype(dtype), steps, TileInverse(conv) if tiles else None)
        name = f"{np.dtype(dtype).name}, {'tiles' if tiles else 'plain'}, {len(curve) - 1} steps"
        note(name, estimate, start)
        found["curves"][name] = curve
    return found


def _iterate(
    conv: Convolution, x: np.ndarray, steps: int, inverse: TileInverse | None
) -> tuple[np.ndarray, list[float]]:
    """Least squares over all windows from the CReLU features of x: the estimate, and the error after every step."""
    curve = [1.0]
    z = responses(crelu(conv.analysis(x)))
    solution = least_squares(
        conv, z, iterations=steps, inverse=inverse, callback=lambda _, found: curve.append(float(ratio(x, found)[0]))
    )
    return solution.x, curve


def joint(inputs: Inputs) -> dict[str, Any]:
    """A CIFAR image from deep layers of untrained networks, all layers at once, by width.

    conv1 to conv4 of CReLU (half) and of the ReLU baseline, with the pool behind conv2; weights as at the start of a
    training, without bias; with the switches of the pool and without.
    """
    x = inputs.images[:1].astype(np.float32)
    found: dict[str, Any] = {"lines": []}
    low, high = x.min(axis=(0, 1, 2)), x.max(axis=(0, 1, 2))
    for scale, (activation, widths) in product(JOINT_SCALES, JOINT_WIDTHS.items()):
        rng, channels, stages = inputs.generator(), 3, []
        for i, full in enumerate(widths):
            width = round(scale * full)
            w = rng.normal(size=(3, 3, channels, width)) * sqrt(2 / (9 * channels))
            pool = {"k": 3, "stride": 2, "pad": 0, "ceil": True} if i == 1 else None
            stages.append(Stage(Layer(w.astype(np.float32), None, 1, 1), activation, pool))
            channels = width * (2 if activation == "crelu" else 1)
        for depth in (2, 3, 4):
            network = Network(stages[:depth], 32)
            known = network.features(x)
            told = network.responses_per_number * (float((known.y > 0).mean()) if activation == "relu" else 1)
            ways = {"switches": known, "no switches": known._replace(switches=None)}
            errors = {
                name: float(ratio(x, invert_jointly(network, given, low=low, high=high, steps=JOINT_STEPS).x)[0])
                for name, given in ways.items()
                if depth > 2 or name == "switches"  # no pool before conv2
            }
            found[f"{activation}, width x{scale:g}, conv{depth}"] = {"known per number": told} | errors
            shown = ", ".join(f"{error:.1e} ({name})" for name, error in errors.items())
            found["lines"].append(f"{activation}, width x{scale:g}, conv{depth}: {told:.2f} known per number; {shown}")
    return found


MEASUREMENTS: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "conv1": conv1,
    "gaussian": gaussian,
    "pooling": pooling,
    "joint": joint,
    "alexnet": alexnet,
    "conditioning": conditioning,
}
OF_ALEXNET = ("alexnet", "conditioning")  # these need its filters


def measure(
    names: Sequence[str], *, data: Path | None, alexnet: Path | None, images: int, seed: int
) -> dict[str, dict[str, Any]]:
    """The named measurements, each with its "seconds"."""
    from minicnn.data import cifar

    filters = np.empty(0) if alexnet is None else read_alexnet(alexnet)  # first, since the file may be unusable
    pixels = cifar.load("cifar10", data).test_images[:images] / 255.0
    pixels = (pixels - pixels.mean(axis=(0, 1, 2))) / pixels.std(axis=(0, 1, 2))
    inputs = Inputs(pixels, filters, seed)
    found = {}
    for i, name in enumerate(names, 1):
        print(f"[{i}/{len(names)}] {name}", file=sys.stderr)
        start = perf_counter()
        try:
            found[name] = MEASUREMENTS[name](inputs) | {"seconds": perf_counter() - start}
        except ValueError as error:
            if name in OF_ALEXNET:  # filters that are all zero, or larger than the picture
                raise UsageError(f"--alexnet: {error}") from None
            raise
    return found


def read_alexnet(path: Path) -> np.ndarray:
    """conv1_w of an .npz, (F, C, kh, kw) -> (kh, kw, C, F)."""
    try:
        w = read_filters(path, "oihw")["conv1"]
    except (KeyError, UsageError) as error:
        raise UsageError(f"--alexnet: {path} is not an .npz with conv1_w ({error})") from None
    if w.shape[2] != 3 or not w.size:
        raise UsageError(f"--alexnet: conv1_w must be (filters, 3, height, width), got {w.transpose(3, 2, 0, 1).shape}")
    return w
