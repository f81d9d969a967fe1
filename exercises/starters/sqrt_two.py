"""Find the sqrt 2 counterexample to Theorem 4.1: R(H o CReLU o G) <= sqrt(d) B R(F), with d = B = 1.

A class F on a sample is a matrix, values[f, i] = f(x_i).  With independent fair signs sigma and L points

    identity:  E sup_f |2/L sum_i sigma_i f(x_i)|
    crelu:     E sup_f ||2/L sum_i sigma_i rho(f(x_i))||_2,        rho(t) = (max(t, 0), max(-t, 0))

and the theorem says that the second is at most the first.
"""

import numpy as np


def complexity(values: np.ndarray, activation: str) -> float:
    """The number above for values (functions, points), activation "identity" or "crelu"; exact, at most 10 points."""
    raise NotImplementedError


def counterexample(points: int) -> np.ndarray:
    """A class (functions, points) for which crelu / identity is sqrt 2; 2 to 8 points."""
    raise NotImplementedError


def robust(points: int) -> np.ndarray:
    """Three functions, none a multiple of another, none with a value 0, for which crelu / identity is above 1.4."""
    raise NotImplementedError
