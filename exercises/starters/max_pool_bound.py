"""Break the paper's bound for max pooling, Theorem S1.5 under assumption (S1) as printed.

w_i^j (D,) is filter i from coordinate j stride on, and x = sum of c[i, j] w_i^j.  Assumption (S1): for each filter at
most one c[i, j] is > 0.  The theorem: ||x - x'|| / ||x|| <= sqrt((L - l) / l).
"""

import numpy as np


def counterexample() -> tuple[np.ndarray, np.ndarray, int]:
    """filters (l, K), c (K, n), stride: the ratio is larger than the bound by at least 0.1.

    Filters have at least 2 entries, none of them 0; the shifts with c != 0 are linearly independent.
    """
    raise NotImplementedError
