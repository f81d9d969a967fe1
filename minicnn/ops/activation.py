"""Activations: ReLU and what keeps the phase that it drops.

    relu(x)  = max(x, 0)                       keeps the positive phase
    avr(x)   = |x|                             keeps the modulus, drops the phase
    crelu(x) = [max(x, 0), max(-x, 0)]         keeps both (the paper's Definition 2.1)

At the kink the derivative is 0 (for leaky_relu: the negative slope).  NaN in, NaN out.
"""

from __future__ import annotations

from typing import Any

from minicnn.autodiff import Grads, Op, Pair, Vjp, op
from minicnn.backend import Array, array_module


@op
def relu(x: Array) -> Pair:
    """[x]+ = max(x, 0).        gx = g where y > 0."""
    xp = array_module(x)
    y = xp.maximum(x, 0)
    return y, lambda g: (xp.where(y > 0, g, 0),)


@op
def leaky_relu(x: Array, *, slope: float = 0.01) -> Pair:
    """y = x where x > 0, slope x elsewhere (Maas et al. 2013).        gx = g or slope g."""
    xp = array_module(x)
    positive = x > 0
    return xp.where(positive, x, slope * x), lambda g: (xp.where(positive, g, slope * g),)


@op
def avr(x: Array) -> Pair:
    """Absolute value rectification, |x| (Jarrett et al. 2009).        gx = g sign(x)."""
    xp = array_module(x)
    return xp.abs(x), lambda g: (g * xp.sign(x),)


@op
def crelu(x: Array, *, axis: int = -1) -> Pair:
    """rho(x) = [max(x, 0), max(-x, 0)], two blocks along `axis`   (paper, Definition 2.1).

    gx = g+ where rho+ > 0,  -g- where rho- > 0.

    Keeps the information and the norm: x = rho+ - rho-,  |x| = rho+ + rho-,  ||rho(x)|| = ||x||.
    MaxMin (Blot et al. 2016) and ON/OFF ReLU (Kim et al. 2015) are this function by other names.
    """
    xp = array_module(x)
    _check_axis("crelu", x, axis)
    y = xp.concatenate((xp.maximum(x, 0), xp.maximum(-x, 0)), axis)
    return y, _two_sided_vjp(y, axis)


def _two_sided_vjp(y: Array, axis: int) -> Vjp:
    """gx = g+ where y+ > 0,  -g- where y- > 0,  0 where neither is."""
    xp = array_module(y)

    def vjp(g: Array) -> Grads:
        (y_pos, y_neg), (g_pos, g_neg) = xp.split(y, 2, axis), xp.split(g, 2, axis)
        return (xp.where(y_pos > 0, g_pos, 0) - xp.where(y_neg > 0, g_neg, 0),)

    return vjp


@op
def crelu_inverse(y: Array, *, axis: int = -1) -> Pair:
    """x = y+ - y-: exact, because one of the two is 0.        gy = [g, -g]."""
    xp = array_module(y)
    _check_axis("crelu_inverse", y, axis)
    if y.shape[axis] % 2:
        raise ValueError(f"crelu_inverse: axis {axis} of y {y.shape} must hold two blocks of equal size, so be even")
    y_pos, y_neg = xp.split(y, 2, axis)
    return y_pos - y_neg, lambda g: (xp.concatenate((g, -g), axis),)


@op
def concatenated(x: Array, *, activation: Op, axis: int = -1, **options: Any) -> Pair:
    """[phi(x), phi(-x)] for an elementwise activation phi: CReLU as a *scheme* (paper, section 2.1).

    concatenated(x, activation=relu) is crelu(x); concatenated(x, activation=leaky_relu, slope=0.1) is the
    combination that the paper suggests.        gx = phi'(x) g+ - phi'(-x) g-.
    """
    xp = array_module(x)
    _check_axis("concatenated", x, axis)
    y_pos, vjp_pos = activation.pair(x, **options)
    y_neg, vjp_neg = activation.pair(-x, **options)
    if y_pos.shape != x.shape:
        raise ValueError(f"concatenated: {activation.name} is not elementwise: {x.shape} became {y_pos.shape}")

    def vjp(g: Array) -> Grads:
        g_pos, g_neg = xp.split(g, 2, axis)
        return (vjp_pos(g_pos)[0] - vjp_neg(g_neg)[0],)

    return xp.concatenate((y_pos, y_neg), axis), vjp


@op
def soft_threshold(x: Array, *, threshold: float = 0.25, axis: int = -1) -> Pair:
    """[max(x - t, 0), max(-x - t, 0)]: the two-sided soft threshold of Coates and Ng (2011); CReLU if t = 0."""
    xp = array_module(x)
    _check_axis("soft_threshold", x, axis)
    if threshold < 0:
        raise ValueError(f"soft_threshold: threshold must not be negative, got {threshold}")
    y = xp.concatenate((xp.maximum(x - threshold, 0), xp.maximum(-x - threshold, 0)), axis)
    return y, _two_sided_vjp(y, axis)


@op
def antirectifier(x: Array, *, eps: float = 1e-12) -> Pair:
    """rho(u), u = d / sqrt(max(||d||^2, eps)), d = x - mean(x), over the last axis (Keras example, January 2016).

    CReLU after centring and normalising each vector of channels.  With s = 1 / sqrt(max(||d||^2, eps)):
    gd = s (gu - u <u, gu>)  (s gu where eps wins),   gx = gd - mean(gd).
    """
    xp = array_module(x)
    _check_axis("antirectifier", x, -1)
    d = x - x.mean(axis=-1, keepdims=True)
    square = (d * d).sum(axis=-1, keepdims=True)
    scale = 1 / xp.sqrt(xp.maximum(square, eps))
    u = d * scale
    y, crelu_vjp = crelu.textbook(u)

    def vjp(g: Array) -> Grads:
        (gu,) = crelu_vjp(g)
        along = (u * gu).sum(axis=-1, keepdims=True) * (square > eps)
        gd = scale * (gu - u * along)
        return (gd - gd.mean(axis=-1, keepdims=True),)

    return y, vjp


def _check_axis(where: str, x: Array, axis: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{where}: axis {axis} does not exist in an array of shape {x.shape}")
