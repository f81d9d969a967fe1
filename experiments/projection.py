"""What a training step would cost on GPUs that nobody here has measured: a projection, not a result.

Every launch of a step (minicnn/fast/cuda) reads and writes a known number of bytes, and the matrix products do a known
number of operations.  From what the makers publish,

    time of a launch   max(bytes / bandwidth, operations / rate)
    time of a step     max(sum over launches, launches * cost of a launch)

since the program starts launches while the GPU works on earlier ones; starting one is assumed to cost 10 microseconds.
Real kernels reach a part of the published figures: the second line of each GPU assumes half of both.  The number of
launches is what the stand-in device counts (tests/experiments/test_projection.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from experiments.common import UsageError, table
from experiments.contenders import MODELS
from minicnn import nn
from minicnn.fast.cuda.winograd import LEAST_CHANNELS
from minicnn.fast.winograd import ALGORITHMS
from minicnn.ops.windows import as_pair

PROJECTED = ("convpool", "convpool-double", "crelu", "crelu-half")  # made of the layers that `launches_of` knows
LAUNCH = 10e-6  # seconds to start a kernel from CuPy: an assumption, mostly Python's share
REAL = 4  # bytes of a float32

Shape = tuple[int, ...]


class Gpu(NamedTuple):
    """Published figures: bytes a second, float32 and TF32 operations a second (dense)."""

    name: str
    bandwidth: float
    float32: float
    tf32: float | None


GPUS = (
    Gpu("T4", 320e9, 8.1e12, None),
    Gpu("A100 (SXM, 40 GB)", 1555e9, 19.5e12, 156e12),
    Gpu("H100 (SXM)", 3350e9, 67e12, 495e12),
)


@dataclass(frozen=True)
class Launch:
    """One launch: numbers read and written, and the operations of a matrix product."""

    layer: str
    numbers: float
    operations: float = 0

    def seconds(self, bandwidth: float, rate: float) -> float:
        return max(REAL * self.numbers / bandwidth, self.operations / rate)


def product(layer: str, batch: int, m: int, k: int, n: int) -> Launch:
    """`batch` products of (m, k) and (k, n)."""
    return Launch(layer, batch * (m * k + k * n + m * n), 2 * batch * m * k * n)


def convolution(name: str, layer: nn.Conv2d, images: int, x: Shape, y: Shape, gx: bool) -> Iterator[Launch]:
    """Forward and backward; gx says whether the gradient of its input is wanted."""
    kh, kw, c, f = layer.weight.shape
    in_size, out_size = images * x[0] * x[1] * c, images * y[0] * y[1] * f
    one_by_one = as_pair(name, "stride", layer.stride) == (1, 1)
    if kh == kw and kh in ALGORITHMS and one_by_one and min(c, f) >= LEAST_CHANNELS:
        step = ALGORITHMS[kh].outputs
        tiles = images * -(-y[0] // step) * -(-y[1] // step)
        u, v, m, taps = 36 * c * f, 36 * tiles * c, 36 * tiles * f, kh * kw
        filters = product(name, 1, 36, taps, c * f)
        yield from (filters, Launch(name, in_size + v), product(name, 36, tiles, c, f), Launch(name, m + out_size))
        yield from (Launch(name, out_size + m), Launch(name, in_size + v), product(name, 36, c, tiles, f))
        yield from (Launch(name, u + taps * c * f, filters.operations), Launch(name, m / 36))
        if gx:
            yield from (product(name, 36, tiles, f, c), Launch(name, v + in_size))
        return
    rows, length = images * y[0] * y[1], kh * kw * c
    columns = [] if (kh, kw) == (1, 1) and x[:2] == y[:2] else [Launch(name, in_size + rows * length)]
    yield from (*columns, product(name, 1, rows, length, f), Launch(name, 2 * out_size))
    yield from (*columns, product(name, 1, length, rows, f), Launch(name, out_size))
    if gx:
        yield from (product(name, 1, rows, f, length), *columns)


def launches_of(model: nn.Sequential, images: int, input_shape: Shape) -> Iterator[Launch]:
    """Every launch of a training step with SGD and momentum on so many images."""
    x, trained = input_shape, False  # trained: whether a layer before this one has parameters
    for name, layer in model.layers.items():
        row = nn.describe(nn.Sequential(layer), x).rows[0]
        y = row.output
        in_size, out_size = (images * math.prod(shape) for shape in (x, y))
        back: list[Launch]
        if isinstance(layer, nn.Conv2d):
            yield from convolution(name, layer, images, x, y, trained)
            trained, back = True, []
        elif isinstance(layer, nn.Dropout):
            yield from (Launch(name, in_size / 32), Launch(name, 2 * in_size + in_size / 32))
            back = [Launch(name, 2 * in_size + in_size / 32)]
        elif isinstance(layer, (nn.CReLU, nn.ReLU, nn.AVR)):
            yield Launch(name, in_size + out_size)
            back = [Launch(name, 2 * out_size + in_size)]
        elif isinstance(layer, nn.MaxPool2d):
            yield Launch(name, in_size + 1.25 * out_size)  # a byte tells where each maximum is
            back = [Launch(name, 1.25 * out_size + in_size)]
        elif isinstance(layer, nn.GlobalAvgPool):
            yield Launch(name, in_size + out_size)
            back = [Launch(name, in_size + out_size)]
        else:
            raise UsageError(f"--project-gpu does not know {type(layer).__name__}")
        yield from back if trained else []
        x = y
    logits = images * math.prod(x)
    yield from (Launch("loss", size) for size in (logits, images, 1, 2 * logits))  # rows, their mean, 1, the gradient
    yield from (Launch("errors", logits), Launch("errors", images), Launch("errors", images))
    yield Launch("update", 5 * sum(p.data.size for p in model.parameters()))  # p and v read and written, g read
    yield from (Launch("batch", images * math.prod(input_shape) * 1.25), Launch("batch", images))


def report(names: list[str], images: int) -> str:
    """Tables for these networks."""
    known = [name for name in names if name in PROJECTED]
    if not known:
        raise UsageError(f"--project-gpu: choose --models from {', '.join(PROJECTED)}")
    parts = [f"PROJECTION, not measured: training steps on GPUs, from published figures\n\n{__doc__}"]
    for name in known:
        network = MODELS[name]
        all_launches = list(launches_of(network.build(), images, (network.side, network.side, 3)))
        parts.append(f"{name}, batch {images}, float32\n\n{_layers(all_launches)}\n\n{_times(all_launches, images)}")
    return "\n".join(parts)


def _layers(launches: list[Launch]) -> str:
    rows = []
    for layer in dict.fromkeys(one.layer for one in launches):
        own = [one for one in launches if one.layer == layer]
        rows.append(_row(layer, own))
    return table(["layer", "launches", "MB", "GFLOP"], [*rows, _row("total", launches)])


def _row(name: str, launches: list[Launch]) -> list[str]:
    numbers, operations = sum(one.numbers for one in launches), sum(one.operations for one in launches)
    return [name, str(len(launches)), f"{REAL * numbers / 1e6:,.1f}", f"{operations / 1e9:,.2f}"]


def _times(launches: list[Launch], images: int) -> str:
    rows = []
    for gpu in GPUS:
        for share, what in ((1.0, "published"), (0.5, "half of it")):
            cells = [f"{gpu.name}, {what}"]
            for rate in (gpu.float32, gpu.tf32):
                if rate is None:
                    cells += ["-", "-"]
                    continue
                device = sum(one.seconds(share * gpu.bandwidth, share * rate) for one in launches)
                step = max(device, LAUNCH * len(launches))
                cells += [f"{1e3 * step:.2f}", f"{images / step:,.0f}"]
            rows.append(cells)
    return table(["projected", "float32 ms", "images/s", "TF32 ms", "images/s "], rows)
