import numpy as np


def broken_crelu(x):
    """Swaps neighbouring channels of g: nobody notices if all of g is 1."""
    y = np.concatenate((np.maximum(x, 0), np.maximum(-x, 0)), 1)

    def vjp(g):
        g_pos, g_neg = np.split(np.roll(g, 1, axis=1), 2, axis=1)
        return (np.where(x > 0, g_pos, -g_neg),)

    return y, vjp


def find(function, arrays):
    rng = np.random.default_rng(1)
    y, vjp = function(*arrays)
    g = rng.normal(size=y.shape)
    for i, (a, ga) in enumerate(zip(arrays, vjp(g), strict=True)):
        v = rng.normal(size=a.shape)
        step = 1e-6
        plus, minus = (function(*arrays[:i], a + s * step * v, *arrays[i + 1 :])[0] for s in (1, -1))
        numeric = float(((plus - minus) * g).sum()) / (2 * step)
        exact = float((ga * v).sum())
        if abs(exact - numeric) > 1e-6 * max(float(abs(ga * v).sum()), abs(numeric)):
            return i
    return None
