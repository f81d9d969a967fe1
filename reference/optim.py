"""Muon: momentum, and of every step the nearest orthogonal matrix, by Newton and Schulz's iteration."""

import math

import numpy as np

from reference.common import floats, root


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(m, k) times (k, n)."""
    (m, k), (_, n) = a.shape, b.shape
    c = np.zeros((m, n))
    for i in range(m):
        for j in range(n):
            for inner in range(k):
                c[i, j] += a[i, inner] * b[inner, j]
    return c


def turned(a: np.ndarray) -> np.ndarray:
    """The transpose."""
    m, n = a.shape
    b = np.zeros((n, m))
    for i in range(m):
        for j in range(n):
            b[j, i] = a[i, j]
    return b


def orthogonal(u: np.ndarray, iterations: int) -> np.ndarray:
    """x = u / ||u||, then some times x = a x + b (x x') x + c (x x')^2 x, with rows no longer than columns."""
    u = floats(u)
    m, n = u.shape
    if m > n:
        return turned(orthogonal(turned(u), iterations))
    total = 0.0
    for i in range(m):
        for j in range(n):
            total += float(u[i, j]) ** 2
    length = max(float(root(total)), 1e-7)
    x = np.zeros((m, n))
    for i in range(m):
        for j in range(n):
            x[i, j] = u[i, j] / length
    for _ in range(iterations):
        once = product(product(x, turned(x)), x)
        twice = product(product(x, turned(x)), once)
        for i in range(m):
            for j in range(n):
                x[i, j] = 3.4445 * x[i, j] - 4.7750 * once[i, j] + 2.0315 * twice[i, j]
    return x


def muon(
    w: np.ndarray, gradients: list[np.ndarray], *, lr: float, momentum: float, weight_decay: float, iterations: int
) -> np.ndarray:
    """The weights (kh, kw, C, F) after a step for each of the gradients."""
    w = floats(w).copy()
    columns = w.shape[-1]
    rows = w.size // columns
    velocity = np.zeros(w.shape)
    for g in gradients:
        u = np.zeros((rows, columns))
        for i, at in enumerate(np.ndindex(*w.shape)):
            velocity[at] = momentum * velocity[at] + g[at]
            u[i // columns, i % columns] = g[at] + momentum * velocity[at]
        q = orthogonal(u, iterations)
        longer = math.sqrt(columns / rows) if columns > rows else 1.0
        for i, at in enumerate(np.ndindex(*w.shape)):
            w[at] = (1 - lr * weight_decay) * w[at] - lr * longer * q[i // columns, i % columns]
    return w
