"""How opposed are random filters?  The paper's mu (section 2.1), its null distribution, and a p-value.

Filters w are (k, k, C, K), one per column of w.reshape(-1, K).
"""

import numpy as np


def mu(w: np.ndarray) -> np.ndarray:
    """(K,): for each filter, the smallest cosine with any other filter."""
    raise NotImplementedError


def random_mu(shape: tuple[int, int, int, int], draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, K): mu of filters of this shape whose directions are uniformly random."""
    raise NotImplementedError


def p_value(w: np.ndarray, draws: int, rng: np.random.Generator) -> float:
    """How likely is it that random filters of this shape have a mean mu as low as that of w?  Uses `draws` draws."""
    raise NotImplementedError
