"""Five bounds: prove them or break them.

F is a class of functions on L points, a matrix values[f, i] = f(x_i), and with independent fair signs sigma

    R(F) = E sup_f |2/L sum_i sigma_i f(x_i)|.

ReLU o F has the values max(values, 0), |F| the values |values|.  CReLU(F) = E sup_f sqrt(a^2 + b^2), where a and b are
2/L sum_i sigma_i [f(x_i)]+ and 2/L sum_i sigma_i [-f(x_i)]+.

    relu             R(ReLU o F) <= R(F)                    for every class F
    relu_single      R(ReLU o F) <= R(F)                    for every class of one function
    modulus          R(|F|) <= R(F)                         for every class F
    modulus_twice    R(|F|) <= 2 R(F)                       for every class F
    crelu_lower      R(F) <= sqrt(2) CReLU(F)               for every class F
"""

import numpy as np

Answer = str | np.ndarray | list[list[float]]


def answers() -> dict[str, Answer]:
    """For each name, "holds" or a class that breaks the bound.

    A class has 4 points, at most 4 functions (relu_single: one) and no value 0, and its left side is at least 1 %
    larger than its right side.
    """
    raise NotImplementedError
