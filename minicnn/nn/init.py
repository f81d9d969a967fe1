"""Initial weights.  A scheme takes a shape, (in, out) or (kh, kw, in, out), and a NumPy generator.

fan-in  = kh kw in:  how many numbers enter a unit;  fan-out = kh kw out:  to how many units an input goes.
Numbers are drawn in float64 and rounded by the caller, so that both precisions start from the same weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from minicnn.autodiff import Parameter
from minicnn.backend import Array, array_module, device_of, to_host

Scheme = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]

HE = math.sqrt(2)  # the gain of `he_normal`: gain^2 / fan-in is the variance of the weights


def he_normal(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """N(0, 2 / fan-in): keeps the variance through layers of ReLUs, forwards (He et al. 2015)."""
    return rng.normal(0, math.sqrt(2 / math.prod(shape[:-1])), shape)


def he_centred(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """`he_normal`, less the mean of each filter: what all inputs have in common does not pass.

    Behind an activation that gives no negative numbers that is a lot.  Muon's `centred` steps leave filters centred.
    """
    w = he_normal(shape, rng)
    return w - w.mean(axis=tuple(range(len(shape) - 1)))


def with_gain(scheme: Scheme, gain: float) -> Scheme:
    """A scheme that has He's gain, with another one: weights of variance gain^2 / fan-in.

    |x| keeps the squares of responses and ReLU half of them, so behind |x| a gain of 1 keeps their size; but not that
    of centred filters, which do not see their mean.
    """
    return scheme if gain == HE else partial(_times, gain / HE, scheme)


def _times(factor: float, scheme: Scheme, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return factor * scheme(shape, rng)


def looks_linear(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """For a layer behind CReLU: as `he_normal` for the first half of the inputs, and its opposite for the second.

    CReLU's halves are max(x, 0) and max(-x, 0), so w max(x, 0) - w max(-x, 0) = w x: at first the layer is linear in
    what enters the activation, and so is a network of such layers (Balduzzi et al. 2017).  Responses keep their
    variance: fan-in counts both halves, and one of the two is 0.  Such filters are centred, too.
    """
    if shape[-2] % 2:
        raise ValueError(f"looks_linear: CReLU gives an even number of channels, this layer has {shape[-2]}")
    w = he_normal(shape, rng)
    first, second = np.split(w, 2, axis=-2)
    second[...] = -first
    return w


def identity_first(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Columns of length 1: the first pass on what is in their centre, one input channel each; the rest are random.

    So what a layer sees reaches the next from the start, and gradients find their way back (Jordan 2024).
    """
    *size, c, filters = shape
    w = rng.normal(size=shape)
    w /= np.sqrt((w * w).sum(axis=tuple(range(len(shape) - 1))))
    passed = np.arange(min(c, filters))
    w[..., passed] = 0
    w.reshape(-1, c, filters)[math.prod(size) // 2, passed, passed] = 1
    return w


def identity_behind_crelu(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """`identity_first` of what enters CReLU: the first filters pass on (max(x, 0) - max(-x, 0)) / sqrt 2.

    All have length 1 and, as with `looks_linear`, opposite weights for the two halves.
    """
    *size, c, filters = shape
    if c % 2:
        raise ValueError(f"identity_behind_crelu: CReLU gives an even number of channels, this layer has {c}")
    w = identity_first((*size, c // 2, filters), rng)
    return np.concatenate([w, -w], axis=-2) / math.sqrt(2)


def msr_normal(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """N(0, 2 / fan-out): the same, backwards; the MSRinit of the VGG network that the paper builds on."""
    return rng.normal(0, math.sqrt(2 / (math.prod(shape[:-2]) * shape[-1])), shape)


def glorot_uniform(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """U(-a, a), a = sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010)."""
    a = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return rng.uniform(-a, a, shape)


def unit_uniform(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """U(0, 1): how Torch 7 started the scale of batch normalisation."""
    return rng.uniform(0, 1, shape)


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return np.zeros(shape)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return np.ones(shape)


LOOKED_AT = 16  # numbers of each parameter, before all of them are


def equal_pair(parameters: Mapping[str, Parameter]) -> tuple[str, str] | None:
    """The names of two of these with the same values, if there are two; those that nobody drew do not count.

    Such are zeros, ones and identities, where all numbers but the zeros have one size.
    All are on one device.  A GPU is asked once, for a few numbers of each; for all of them only where these are equal.
    """
    shapes = Counter(p.shape for p in parameters.values())
    names = [name for name, p in parameters.items() if shapes[p.shape] > 1]
    found: dict[tuple[tuple[int, ...], bytes], list[str]] = {}
    for name, numbers in zip(names, _some_of_each([parameters[name].data for name in names]), strict=True):
        if np.unique(np.abs(numbers[numbers != 0])).size > 1:
            alike = found.setdefault((parameters[name].shape, numbers.tobytes()), [])
            for other in alike:
                if bool((parameters[name].data == parameters[other].data).all()):
                    return other, name
            alike.append(name)
    return None


def _some_of_each(arrays: list[Array]) -> list[np.ndarray]:
    """Numbers from all over each array, on the host."""
    if not arrays:
        return []
    with device_of(arrays[0]).active():
        flat = [array.reshape(-1)[:: max(1, array.size // LOOKED_AT)][:LOOKED_AT] for array in arrays]
        joined = to_host(array_module(arrays[0]).concatenate([numbers.astype(np.float64) for numbers in flat]))
    return np.split(joined, np.cumsum([numbers.size for numbers in flat])[:-1])
