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


def length(w: np.ndarray) -> float:
    """The root of the sum of all squares."""
    total = 0.0
    for at in np.ndindex(*w.shape):
        total += float(w[at]) ** 2
    return float(root(total))


def orthogonal(u: np.ndarray, iterations: int) -> np.ndarray:
    """x = u / ||u||, then some times x = a x + b (x x') x + c (x x')^2 x, with rows no longer than columns."""
    u = floats(u)
    m, n = u.shape
    if m > n:
        return turned(orthogonal(turned(u), iterations))
    size = max(length(u), 1e-7)
    x = np.zeros((m, n))
    for i in range(m):
        for j in range(n):
            x[i, j] = u[i, j] / size
    for _ in range(iterations):
        once = product(product(x, turned(x)), x)
        twice = product(product(x, turned(x)), once)
        for i in range(m):
            for j in range(n):
                x[i, j] = 3.4445 * x[i, j] - 4.7750 * once[i, j] + 2.0315 * twice[i, j]
    return x


def muon(
    w: np.ndarray,
    gradients: list[np.ndarray],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    iterations: int,
    centred: bool = False,
    keep_norm: bool = False,
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
        if centred:
            for j in range(columns):
                mean = sum(u[i, j] for i in range(rows)) / rows
                for i in range(rows):
                    u[i, j] -= mean
        q = orthogonal(u, iterations)
        longer = math.sqrt(columns / rows) if columns > rows else 1.0
        before = length(w)
        for i, at in enumerate(np.ndindex(*w.shape)):
            w[at] = (1 - lr * weight_decay) * w[at] - lr * longer * q[i // columns, i % columns]
        after = length(w)
        if keep_norm and before > 0 and after > 0:
            for at in np.ndindex(*w.shape):
                w[at] *= before / after
    return w
