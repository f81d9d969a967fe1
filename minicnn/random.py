"""Random numbers that depend on names, not on history.

Every draw in a run comes from a stream named by a seed, a purpose and a step:

    Stream(seed).child("init", "conv1", "weight").generator()             the weights of layer conv1
    Stream(seed).child("shuffle").at(epoch).generator()                   the order of the images in an epoch
    Stream(seed).child("dropout", "drop1").at(step).uniform16(n, size)    the mask of layer drop1 for n samples

One name per level: layer 0 of the Sequential called block1 has child("init", "block1", "0", "weight").

The generator underneath is Philox (4x64, 10 rounds), which is counter-based: word number i of a stream is a
function of (key, i), so nothing has to be drawn in order.  A run that is interrupted and resumed, spread over
threads or machines, or moved to a GPU sees the same numbers.

    key      (2 words of 64 bits)  the first 16 bytes of BLAKE2b over the JSON of [seed, name, name, ...]
    counter  (4 words of 64 bits)  [block, 0, step, kind]; each value gives a block of four 64-bit words.  Blocks are
                                   numbered from 1, because NumPy counts up before it computes.  kind is 0 for
                                   `generator` and 1 for `uniform16`, which takes 16 numbers from each block
"""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

LANES_PER_BLOCK = 16  # a Philox block is 4 words of 64 bits: 16 lanes of 16 bits


@lru_cache(1024, typed=True)  # the same streams, at other steps, come again and again
def _key(seed: int, path: tuple[str, ...]) -> np.ndarray:
    name = json.dumps([seed, *path]).encode()
    key = np.frombuffer(hashlib.blake2b(name, digest_size=16).digest(), "<u8").astype(np.uint64)
    key.flags.writeable = False
    return key


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"Stream: {name} must be an integer, got {value!r}") from None


@dataclass(frozen=True)
class Stream:
    """A named place in the space of all random numbers; making one draws nothing.

    seed    of the run
    path    what the numbers are for
    step    the epoch or training step
    first   position in the global batch of this batch's first sample (data-parallel runs)
    """

    seed: int
    path: tuple[str, ...] = ()
    step: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        for name in ("seed", "step", "first"):
            value = getattr(self, name)
            if type(value) is not int:  # NumPy's integers are others, and JSON does not know them
                object.__setattr__(self, name, _integer(name, value))
        if self.seed < 0 or self.step < 0 or self.first < 0:
            raise ValueError(
                f"Stream: seed, step and first must not be negative, got {self.seed}, {self.step}, {self.first}"
            )

    def child(self, *names: str) -> Stream:
        """The stream of a part of what this one is for."""
        return Stream(self.seed, (*self.path, *names), self.step, self.first)

    def at(self, step: int, first: int | None = None) -> Stream:
        """The same stream at another step and, if `first` is given, for other samples of the global batch."""
        return Stream(self.seed, self.path, step, self.first if first is None else first)

    @property
    def key(self) -> np.ndarray:
        """The two words that name this stream to Philox."""
        return _key(self.seed, self.path)

    def _philox(self, block: int, kind: int) -> np.random.Philox:
        return np.random.Philox(key=self.key, counter=np.array([block, 0, self.step, kind], np.uint64))

    def generator(self) -> np.random.Generator:
        """A NumPy generator that starts at the beginning of this stream."""
        return np.random.Generator(self._philox(block=0, kind=0))

    def uniform16(self, samples: int, size: int) -> np.ndarray:
        """Uniform integers 0 .. 65535, shape (samples, size), uint16.

        Row i belongs to sample `first + i` of the global batch, and is the same whatever rows are drawn with
        it.  Every sample owns ceil(size / 16) consecutive blocks.
        """
        blocks = -(-size // LANES_PER_BLOCK)
        words = self._philox(block=self.first * blocks, kind=1).random_raw(samples * blocks * 4)
        lanes = words.astype("<u8", copy=False).view("<u2")  # the low 16 bits of a word come first
        return lanes.reshape(samples, blocks * LANES_PER_BLOCK)[:, :size]
