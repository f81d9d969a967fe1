"""Images from convolution + CReLU features (the paper's Proposition 2.1 and Algorithm 1).

    y = crelu(conv2d(x, w, b))    ->    z = crelu_inverse(y) - b = T x    ->    x' = an image with T x' = z

CReLU loses nothing, so the responses z are known, and x is sought from linear equations:

    recover_regions    window by window, as in the paper: (W')+ z is the projection of a window onto the span of the
                       filters; where windows overlap, their values are averaged
    least_squares      all windows at once: the x' of least ||T x' - z||, by conjugate gradients.  A pixel is seen by
                       many windows, so this can recover all of x where a single window has too few filters
    invert             through several layers, the last first; invert_layer through one

`ratio` and `psnr` say how near x' is to x.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, to_host, where_its_arrays_are
from minicnn.ops.activation import crelu, crelu_inverse
from minicnn.ops.conv import conv2d
from minicnn.ops.windows import Pad, Size, Windows, as_pair, fold
from minicnn.theory.frames import pseudoinverse
from minicnn.theory.operators import Convolution, check_filters, dot, norm, positive

METHODS = ("region", "global")  # recover_regions, least_squares
ITERATIONS = 200  # the most steps of least squares, by default


class NotConverged(RuntimeWarning):
    """An iteration ended before it had found what it looked for."""


class Layer(NamedTuple):
    """A convolution followed by CReLU: w (kh, kw, C, F), b (F,) or None."""

    w: Array
    b: Array | None = None
    stride: Size = 1
    pad: Pad = 0


class Solution(NamedTuple):
    """What least_squares found, and how; histories have one row per step, the first for the start, on the host."""

    x: Array  # (N, H, W, C)
    residuals: np.ndarray  # (steps + 1, N): ||z - T x|| / ||z||, as updated by the iteration
    gradients: np.ndarray  # (steps + 1, N): ||T' (z - T x) - damping x|| / ||T' z||
    converged: np.ndarray  # (N,) whether the tolerance was reached


def features(x: Array, layers: Sequence[Layer]) -> Array:
    """crelu(conv2d(.)) of all layers in turn: (N, H, W, C) -> (N, OH, OW, 2 F) of the last."""
    for w, b, stride, pad in layers:
        x = crelu(conv2d(x, w, b, stride=stride, pad=pad))
    return x


@where_its_arrays_are
def responses(y: Array, b: Array | None = None) -> Array:
    """z = T x from y = crelu(T x + b): (..., 2 F) -> (..., F).  The step of Algorithm 1 that reverts CReLU."""
    z = crelu_inverse(y)
    return z if b is None else z - b


@where_its_arrays_are
def recover_regions(z: Array, w: Array, size: Size, *, stride: Size = 1, pad: Pad = 0) -> Array:
    """x' from z = T x, every window by itself: (N, OH, OW, F) -> (N, H, W, C).

    For a window v the pseudoinverse gives (W')+ W' v, its orthogonal projection onto the span of the filters: v
    itself if they span everything (rank kh kw C).  A pixel is the mean over the windows that cover it, and 0 if none
    does.  What a window says about the padding is dropped.
    """
    xp = array_module(z)
    windows = _windows("recover_regions", z, w, size, stride, pad)
    inverse = pseudoinverse(w.reshape(-1, w.shape[3]))  # (F, kh kw C)
    blocks = z.reshape(-1, w.shape[3]) @ inverse  # one row per window
    total = fold(blocks.reshape(*z.shape[:3], *w.shape[:3]), windows)
    count = fold(xp.ones((1, *windows.out, *windows.k, 1), z.dtype), windows)  # (1, H, W, 1)
    return total / xp.maximum(count, 1)


@where_its_arrays_are
def least_squares(
    conv: Convolution,
    z: Array,
    *,
    iterations: int = ITERATIONS,
    tolerance: float | None = None,
    damping: float = 0.0,
    inverse: Callable[[Array], Array] | None = None,
    callback: Callable[[int, Array], None] | None = None,
) -> Solution:
    """The image of least ||T x - z||^2 + damping ||x||^2 for every z of a batch: conjugate gradients on T' T (CGLS).

    z (N, OH, OW, F).  Starts at 0 and stops when the gradient g = T' r - damping x, r = z - T x, has
    ||g|| <= tolerance max(||T' z||, ||T|| ||r||) for every image (tolerance None: the eps of the dtype) or after
    `iterations` steps; an image that has got there stays as it is.  (||T|| ||r|| is for the rounding error of g where
    z is not a T x and r stays large: below it the directions are noise, and the iteration would diverge.)  The error of
    x is then at most tolerance cond(T' T) or so: with badly conditioned filters a small gradient is not yet a small
    error.

    inverse    a symmetric approximation of (T' T + damping)^-1, such as TileInverse(conv, damping=damping): far fewer
               steps where T is badly conditioned
    callback   called with (step, x) after every step: for error curves

    If T is not injective, this finds the solution of least norm, x' = T+ z; with `inverse` it finds another.
    """
    xp = array_module(z)
    _check_responses("least_squares", z)
    if damping < 0:
        raise ValueError(f"least_squares: damping must be at least 0, got {damping}")
    tolerance = float(np.finfo(z.dtype).eps) if tolerance is None else tolerance
    inverse = inverse or (lambda g: g)

    x = xp.zeros((len(z), *conv.input_shape), z.dtype)
    r = z.copy()
    g = conv.synthesis(r)  # the gradient, T' r - damping x
    s = inverse(g)
    p, gs = s.copy(), dot(g, s)
    r0, g0 = positive(norm(r)), positive(norm(g))
    residuals, gradients = [norm(r) / r0], [norm(g) / g0]
    active = gradients[0] > tolerance  # (N,)
    largest, enough = 0.0, tolerance  # ||T||, as far as it has shown; the gradient to come down to
    for step in range(1, iterations + 1):
        if not bool(active.any()):
            break
        q = conv.analysis(p)
        largest = xp.maximum(norm(q) / positive(norm(p)), largest)
        a = xp.where(active, gs / positive(dot(q, q) + damping * dot(p, p)), 0)[:, None, None, None]
        x += a * p
        r -= a * q
        g = conv.synthesis(r) - damping * x
        s = inverse(g)
        gs, before = dot(g, s), gs
        p = s + (gs / positive(before))[:, None, None, None] * p
        residuals.append(norm(r) / r0)
        gradients.append(norm(g) / g0)
        enough = tolerance * xp.maximum(largest * norm(r) / g0, 1)
        active = gradients[-1] > enough
        if callback is not None:
            callback(step, x)
    converged = gradients[-1] <= enough  # not ~active: NaN is neither
    return Solution(x, to_host(xp.stack(residuals)), to_host(xp.stack(gradients)), to_host(converged))


def invert(y: Array, layers: Sequence[Layer], size: Size, *, method: str = "region", **options: Any) -> Array:
    """x' from y = features(x, layers), for images x of `size`: each layer inverted in turn, the last first.

    method "region" is recover_regions, "global" is least_squares (with `options`).  What comes back for an inner
    layer need not be CReLU features, with one of each pair zero and none negative; the next step uses the
    difference of the pair all the same.
    """
    if method not in METHODS:
        raise ValueError(f"invert: method must be 'region' or 'global', got {method!r}")
    if method == "region" and options:
        raise ValueError(f"invert: method 'region' has no options, got {', '.join(options)}; did you mean 'global'?")
    sizes = [as_pair("invert", "size", size)]
    for w, _, stride, pad in layers:
        height, width = sizes[-1]
        image = np.empty((1, height, width, w.shape[2]), np.float32)
        sizes.append(Windows.over("invert", image, w.shape[:2], stride, pad).out)
    for layer, before in zip(reversed(layers), reversed(sizes[:-1]), strict=True):
        y = invert_layer(y, layer, before, method=method, **options)
    return y


def invert_layer(y: Array, layer: Layer, size: Size, *, method: str, **options: Any) -> Array:
    """x' from y = features(x, [layer]), for images x of `size`; `method` and `options` as in `invert`.

    Warns (NotConverged) where the iterations of the method "global" were not enough.
    """
    w, b, stride, pad = layer
    z = responses(y, b)
    if method == "region":
        return recover_regions(z, w, size, stride=stride, pad=pad)
    found = least_squares(Convolution(w, size, stride=stride, pad=pad), z, **options)
    if not found.converged.all():
        warnings.warn(
            f"least squares ended after {len(found.residuals) - 1} steps without converging, for "
            f"{int((~found.converged).sum())} of {len(z)} images: the result depends on the number of steps",
            NotConverged,
            stacklevel=2,
        )
    return found.x


@where_its_arrays_are
def ratio(x: Array, estimate: Array) -> Array:
    """||x - x'|| / ||x|| of every image: (N, ...) -> (N,), the paper's reconstruction ratio.  0/0 counts as 0."""
    xp = array_module(x)
    error, length = norm(x - estimate), norm(x)
    return xp.where(error == 0, 0, xp.where(length == 0, np.inf, error / positive(length)))


@where_its_arrays_are
def psnr(x: Array, estimate: Array, *, peak: float | None = None) -> Array:
    """10 log10(peak^2 / mean (x - x')^2) in dB of every image: (N, ...) -> (N,); inf if they are equal.

    peak None: the range max - min of each image x (1 if it is constant).
    """
    xp = array_module(x)
    n = len(x)
    flat = x.reshape(n, -1)
    span = flat.max(axis=1) - flat.min(axis=1) if peak is None else xp.full(n, peak, x.dtype)
    error = ((x - estimate) ** 2).reshape(n, -1).mean(axis=1)
    return xp.where(error == 0, np.inf, 10 * xp.log10(positive(span) ** 2 / positive(error)))


def _windows(where: str, z: Array, w: Array, size: Size, stride: Size, pad: Pad) -> Windows:
    """The windows that z (N, OH, OW, F) are the responses of, with everything checked."""
    check_filters(where, w)
    _check_responses(where, z)
    height, width = as_pair(where, "size", size)
    windows = Windows.over(where, np.empty((1, height, width, 1), np.float32), w.shape[:2], stride, pad)
    if z.shape[1:] != (*windows.out, w.shape[3]):
        raise ValueError(
            f"{where}: filters w {w.shape} on images of size {(height, width)} give responses of shape "
            f"(N, {', '.join(map(str, (*windows.out, w.shape[3])))}), got {z.shape}"
        )
    return windows


def _check_responses(where: str, z: Array) -> None:
    if z.ndim != 4:
        raise ValueError(f"{where}: z must be responses of shape (N, OH, OW, F), got shape {z.shape}")
    if not bool(array_module(z).isfinite(z).all()):
        raise ValueError(f"{where}: z holds NaN or infinite values")
