import numpy as np

SMALL = 1e-3


def nearly(values):
    """Three points become four, and no value is 0."""
    values = np.array(values, float)
    values = np.concatenate((values, np.zeros((len(values), 1))), axis=1)
    return np.where(values == 0, SMALL, values)


def answers():
    return {
        "relu": nearly([(0, 1, 1), (1, -1, 0), (1, 0, 1)]),
        "relu_single": "holds",  # a and b are independent, E b = 0: E|a| = E|a - E b| <= E|a - b|
        "modulus": nearly([(1, -1, 0), (1, 0, -1), (0, 1, -1)]),
        "modulus_twice": "holds",  # Ledoux and Talagrand
        "crelu_lower": "holds",  # |a - b| <= sqrt(2) sqrt(a^2 + b^2)
    }
