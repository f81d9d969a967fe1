"""A network made for speed: most of what can be had on CIFAR-10, in minutes on two cores.

    conv1   2x2, 12 patterns and their opposites, relu      fixed: the principal components of 2x2 patches, all of them;
                                                            only the biases are trained
    block1  conv 3x3x64,  max pool 2, bn, relu, conv 3x3x64,  bn, relu        31 -> 15
    block2  conv 3x3x256, max pool 2, bn, relu, conv 3x3x256, bn, relu        15 -> 7
    block3  conv 3x3x256, max pool 2, bn, relu, conv 3x3x256, bn, relu         7 -> 3
    pool4   max 3x3
    fc8     10

The ideas are those of the public records for GPUs (Page 2018, Jordan 2024): a first layer whose filters whiten patches
and are not trained, filters that start by passing their inputs on, pooling before the nonlinearity, batch normalisation
whose running moments follow fast and whose scale is not trained, logits that start small.

Those records need every pattern twice in conv1, with both signs, because ReLU drops one of them.  With act="crelu"
there are half as many filters, and at first the same numbers come out; training then gives ReLU a bias for each sign,
and CReLU one for both.  `at` gives it to other layers, too.  The filters of conv1 start at random; Conv2d.whiten gives
them the components:

    model = sprint("crelu")
    model["conv1"].whiten(images, opposites=False)
"""

from __future__ import annotations

import numpy as np

from minicnn import nn
from minicnn.nn import Sequential, init

WIDTHS = (64, 256, 256)
CONVOLUTIONS = 1 + 2 * len(WIDTHS)
PATTERNS = 12
FOLLOW = 0.4  # momentum of running moments: there are few steps, and the last weights are what count


def _small(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """So that no class is certain at first."""
    return init.he_normal(shape, rng) / 9


def sprint(
    act: str = "crelu",
    at: tuple[int, ...] = (1,),
    *,
    classes: int = 10,
    patterns: int = PATTERNS,
    learned: bool = False,
    scale: float = 1.0,
    seed: int = 0,
) -> Sequential:
    """The network for 32x32x3 images, initialised from `seed`.

    act      "crelu" for the layers in `at`, with half as many filters there; "relu" for all
    at       convolutions 1 .. 7.  A pool comes behind CReLU, so that it sees both halves; it comes before batch
             normalisation and ReLU, which then have fewer pixels
    learned  whether the filters of conv1 are trained; otherwise they are frozen
    """
    if act not in ("relu", "crelu"):
        raise ValueError(f"sprint: the activation is relu or crelu, got {act!r}")
    if not set(at) <= set(range(1, CONVOLUTIONS + 1)):
        raise ValueError(f"sprint: `at` names convolutions 1 .. {CONVOLUTIONS}, got {at}")
    halved = set(at) if act == "crelu" else set()
    channels = 2 * patterns
    conv1 = nn.Conv2d(3, patterns if 1 in halved else channels, 2)
    layers: dict[str, nn.Module] = {
        "conv1": conv1,
        "conv1_act": nn.CReLU() if 1 in halved else nn.ReLU(),
    }
    for i, width in enumerate(max(2, 2 * round(scale * width / 2)) for width in WIDTHS):
        for number, pool in ((2 * i + 2, f"pool{i + 1}"), (2 * i + 3, None)):
            name, filters = f"conv{number}", width // 2 if number in halved else width
            passes_pairs = {number - 1, number} <= halved  # it has too few filters to pass on each half by itself
            scheme = init.identity_behind_crelu if passes_pairs else init.identity_first
            layers[name] = nn.Conv2d(channels, filters, 3, pad=1, bias=False, scheme=scheme)
            norm: dict[str, nn.Module] = {f"{name}_bn": nn.BatchNorm(filters, momentum=FOLLOW)}
            pooled: dict[str, nn.Module] = {pool: nn.MaxPool2d(2)} if pool else {}
            if number in halved:
                layers |= norm | {f"{name}_act": nn.CReLU()} | pooled
            else:
                layers |= pooled | norm | {f"{name}_act": nn.ReLU()}
            channels = width
    layers |= {
        "pool4": nn.MaxPool2d(3),
        "flatten": nn.Flatten(),
        "fc8": nn.Linear(channels, classes, bias=False, scheme=_small),
    }
    model = Sequential(**layers).initialise(seed)
    for layer in layers.values():
        if isinstance(layer, nn.BatchNorm):
            layer.gamma.freeze()
    if not learned:
        conv1.weight.freeze()
    return model
