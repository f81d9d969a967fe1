"""Philox 4x64 with 10 rounds (Salmon et al. 2011), one block at a time: the random bits under minicnn/random.py."""

import numpy as np

MASK = 2**64 - 1
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # the golden ratio, sqrt(3) - 1


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four random words of 64 bits, a function of a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2  # 128 bits each
        c0, c1, c2, c3 = (product1 >> 64) ^ c1 ^ k0, product1 & MASK, (product0 >> 64) ^ c3 ^ k1, product0 & MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return c0, c1, c2, c3


def uniform16(key: tuple[int, int], step: int, first: int, samples: int, size: int) -> np.ndarray:
    """The integers 0 .. 65535 of samples first, first + 1, ...: (samples, size).

    Sample s owns the blocks s*B + 1, s*B + 2, ..., s*B + B with B = ceil(size / 16) (NumPy counts up before it
    computes a block, so the first has number 1).  Each block gives 16 numbers, the low bits of its words first.
    """
    blocks = -(-size // 16)
    out = np.zeros((samples, size), dtype=np.int64)
    for i, j in np.ndindex(samples, size):
        block = (first + i) * blocks + j // 16 + 1
        word = philox((block & MASK, block >> 64, step, 1), key)[j % 16 // 4]
        out[i, j] = (word >> (16 * (j % 4))) & 0xFFFF
    return out
