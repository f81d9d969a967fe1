import numpy as np


def counterexample():
    """Disjoint shifts of one filter, all with c < 0: they are orthogonal, so the bound is 0, and pooling keeps one."""
    return np.array([[1.0], [1.0]]), -np.ones((1, 3)), 2
