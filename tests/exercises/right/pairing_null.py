import numpy as np


def mu(w):
    rows = w.reshape(-1, w.shape[3]).T
    phi = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = phi @ phi.T
    np.fill_diagonal(cosines, np.inf)
    return cosines.min(axis=1)


def random_mu(shape, draws, rng):
    return np.stack([mu(rng.normal(size=shape)) for _ in range(draws)])


def p_value(w, draws, rng):
    lower = random_mu(w.shape, draws, rng).mean(axis=1) <= mu(w).mean()
    return (1 + lower.sum()) / (1 + draws)
