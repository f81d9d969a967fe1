"""Batches of photographs from files: for training, cropped and coloured at random; for evaluation, as squares.

Everything random about batch k of epoch e follows from (seed, e, k), and results come in order, so the batches are the
same whatever the number of processes, and wherever one begins.  A file that cannot be decoded is left out of its batch
(BadImages decides whether that is allowed); since that is a property of the file, it changes nothing in this.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np

from minicnn.checkpoint import atomic_write_text
from minicnn.cluster import ALONE, Communicator
from minicnn.data.augment import Normaliser
from minicnn.data.colour import ALPHA, Colours
from minicnn.data.dataset import DataError
from minicnn.data.decode import View
from minicnn.data.folders import Pictures
from minicnn.data.loader import AHEAD, Labelled, ahead
from minicnn.data.workers import CHUNK, Decoders
from minicnn.random import Stream

Chunks = Generator[tuple[int, np.ndarray, np.ndarray], None, None]  # (pictures read, good images, their labels)
SAMPLE = 10_000  # training images that the colours are computed from, at most


@dataclass
class BadImages:
    """What to do about a file that cannot be decoded: "fail" raises, "skip" reports each file once and goes on."""

    policy: str = "fail"
    seen: list[str] = field(default_factory=list)

    def __call__(self, message: str) -> None:
        if self.policy == "fail":
            raise DataError(f"{message}\nRemove or repair the file, or have such files skipped")
        if message not in self.seen:
            self.seen.append(message)
            print(f"left out: {message}", file=sys.stderr)


@dataclass(frozen=True)
class PhotoBatches:
    """The training set in batches, shuffled, cropped, flipped and coloured anew in every epoch.

    crop     side of the random crops from the square of decoders.side pixels
    colour   deviation of alpha (colour.py); 0 for none
    """

    pictures: Pictures
    batch: int
    crop: int
    colours: Colours
    decoders: Decoders
    bad: BadImages
    seed: int
    flip: bool = True
    colour: float = ALPHA
    cluster: Communicator = ALONE

    def __post_init__(self) -> None:
        if not len(self.pictures) or self.batch < 1:
            raise ValueError(f"PhotoBatches: got {len(self.pictures)} pictures in batches of {self.batch}")
        if not 1 <= self.crop <= self.decoders.side:
            raise ValueError(f"PhotoBatches: a square of {self.decoders.side} pixels has no crop of {self.crop}")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.pictures) // self.batch)

    def epoch(self, epoch: int, start: int = 0) -> Labelled:
        """(x float32, labels) of the batches start, start + 1, ... of an epoch, made by other processes."""
        return ahead(self._make(epoch, start), AHEAD)

    def _make(self, epoch: int, start: int) -> Labelled:
        order = Stream(self.seed).at(epoch).child("shuffle").generator().permutation(len(self.pictures))
        noise: dict[int, np.ndarray] = {}  # in the colours, of batches under way

        def batch(k: int) -> tuple[np.ndarray, slice]:
            """The pictures of batch k, and which of them are this rank's."""
            chosen = order[k * self.batch : (k + 1) * self.batch]
            return chosen, self.cluster.shard(0, len(chosen))

        def chunks() -> Iterator[list[View]]:
            for k in range(start, len(self)):
                chosen, own = batch(k)
                views, drawn = self._draw(chosen, Stream(self.seed).child("augment").at(epoch * len(self) + k))
                views, noise[k] = views[own], drawn[own]
                yield from _chunks(views)

        with closing(self.decoders.map(chunks())) as decoded:
            for k in range(start, len(self)):
                chosen, own = batch(k)
                labels = self.pictures.labels[chosen[own]]
                n = len(labels)
                x, good = np.empty((n, self.crop, self.crop, 3), np.float32), np.ones(n, bool)
                for i in range(0, n, CHUNK):
                    pixels, errors = next(decoded)
                    normalise(pixels, self.colours.normaliser, noise[k][i : i + CHUNK], out=x[i : i + CHUNK])
                    for j, message in errors.items():
                        self.bad(message)
                        good[i + j] = False
                noise.pop(k, None)
                if not good.any() and n >= min(self.batch, CHUNK) > 1:  # more than some bad files: is the disk gone?
                    raise DataError(f"none of the {n} pictures of batch {k + 1} can be decoded; {self.bad.seen[-1]}")
                yield (x, labels) if good.all() else (x[good], labels[good])

    def _draw(self, chosen: np.ndarray, stream: Stream) -> tuple[list[View], np.ndarray]:
        """The random crops and flips of a batch, and what is added to its colours, (n, 3)."""
        rng, room = stream.generator(), self.decoders.side - self.crop
        corners = rng.integers(0, room + 1, (len(chosen), 2)).tolist()
        flips = rng.integers(0, 2, len(chosen)).astype(bool) & self.flip
        noise = self.colours.noise(self.colour * rng.standard_normal((len(chosen), 3)))
        paths = (self.pictures.path(i) for i in chosen)
        each = zip(paths, corners, flips, strict=True)
        return [View(path, self.crop, top, left, bool(flip)) for path, (top, left), flip in each], noise


def normalise(pixels: np.ndarray, by: Normaliser, noise: np.ndarray, *, out: np.ndarray) -> None:
    """out = (pixels / 255 + noise - mean) / std: uint8 (n, H, W, 3), noise (n, 3), float32."""
    n, _, width, _ = pixels.shape
    std, mean = np.array(by.std), np.array(by.mean)
    scale = np.tile(1 / (255 * std), width).astype(np.float32)  # rows as a whole: NumPy is slow at axes of length 3
    offset = np.tile((noise - mean) / std, width).astype(np.float32)
    for i in range(n):  # an image at a time stays in the cache
        rows = out[i].reshape(-1, 3 * width)
        rows[...] = pixels[i].reshape(-1, 3 * width)
        rows *= scale
        rows += offset[i]


def squares(pictures: Pictures, decoders: Decoders, bad: BadImages, *, batch: int) -> Labelled:
    """(images, labels) of all pictures that can be decoded, in order, as uint8 squares of decoders.side pixels."""
    return ahead(_joined(_squares(pictures, decoders, bad), batch), AHEAD)


def _squares(pictures: Pictures, decoders: Decoders, bad: BadImages) -> Chunks:
    """The same, CHUNK at a time; what it yields is valid until the next is asked for."""
    views = (View(pictures.path(i), decoders.side) for i in range(len(pictures)))
    start = 0
    with closing(decoders.map(_chunks(views))) as decoded:
        for pixels, errors in decoded:
            for message in errors.values():
                bad(message)
            good = [i for i in range(len(pixels)) if i not in errors]
            yield len(pixels), pixels[good], pictures.labels[start : start + len(pixels)][good]
            start += len(pixels)


def _chunks(views: Iterable[View]) -> Iterator[list[View]]:
    """What the decoding processes are given, CHUNK at a time."""
    left = iter(views)
    while chunk := list(itertools.islice(left, CHUNK)):
        yield chunk


def _joined(chunks: Chunks, batch: int) -> Labelled:
    """Chunks joined into batches: each but the last holds what is good of at least `batch` pictures.

    Where a batch ends does not depend on which pictures are good: ranks that begin in the middle have the same ones.
    """
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    count = 0
    with closing(chunks):
        for read, x, y in chunks:
            count += read
            images.append(x)
            labels.append(y)
            if count >= batch:
                if any(map(len, labels)):
                    yield np.concatenate(images), np.concatenate(labels)
                images.clear()
                labels.clear()
                count = 0
    if any(map(len, labels)):
        yield np.concatenate(images), np.concatenate(labels)


def colours_of(
    pictures: Pictures,
    decoders: Decoders,
    bad: BadImages,
    cache: Path,
    on_images: Callable[[int], object] = lambda images: None,
) -> Colours:
    """The colours of a training set, from its pictures or SAMPLE of them drawn at random; kept in `cache`."""
    count = min(SAMPLE, len(pictures))
    key = json.dumps([pictures.fingerprint(), decoders.side, count, bad.policy])
    path = cache / "colours" / f"{sha256(key.encode()).hexdigest()[:16]}.json"
    try:
        return Colours.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not whole
    chosen = np.sort(Stream(0).child("colours").generator().permutation(len(pictures))[:count])

    def each() -> Iterator[np.ndarray]:
        for images, _ in squares(pictures.take(chosen), decoders, bad, batch=CHUNK):
            yield from images
            on_images(len(images))

    colours = Colours.of(each())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps(colours.as_json(), indent=2) + "\n")
    except OSError as error:
        print(f"the colours of the training set cannot be kept for the next time: {error}", file=sys.stderr)
    return colours
