import itertools

import numpy as np


def complexity(values, activation):
    points = values.shape[1]
    signs = np.array(list(itertools.product((1, -1), repeat=points)))
    a = 2 / points * signs @ np.maximum(values, 0).T  # (signs, functions)
    b = 2 / points * signs @ np.maximum(-values, 0).T
    lengths = abs(a - b) if activation == "identity" else np.hypot(a, b)
    return lengths.max(axis=1).mean()


def counterexample(points):
    values = np.zeros((1, points))
    values[0, :2] = 1, -1
    return values


def robust(points):
    """Nothing happens at a knife's edge: small values do little harm."""
    values = 1e-3 * np.ones((3, points))
    values[0, :2] = 1, -1
    values[1, 0] = -1e-3
    return values
